"""What fits which GPU: the answer on one screen; every GPU and the basis in full. Pure."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

from tunekit.plain_text import printable
from tunekit.predict.checkpointing import EXTRA_TIME, blocks_text, cost_text
from tunekit.predict.roofline import ERROR
from tunekit.records.config import Precision
from tunekit.records.finding import Severity
from tunekit.records.interval import Interval
from tunekit.records.prediction import (
    BytesRange,
    DevicePrediction,
    LargestBatch,
    PredictedFit,
    PredictionPath,
    Purpose,
)
from tunekit.records.run import BatchFit, FitsRun, GpuFacts, RequestedBatch, RunStatus
from tunekit.report.blocks import (
    Block,
    Column,
    Commands,
    Lead,
    Line,
    Note,
    Passage,
    Report,
    Section,
    Table,
    fitted_table,
)
from tunekit.report.text import UNKNOWN
from tunekit.trial.typed_commands import command_text, quoted
from tunekit.units import GIB, bytes_text, count_text, rate_text, short_rate_text

_ABSENT = "-"
_OTHER = "*"
_HALVES = (Precision.BF16, Precision.FP16)
_TITLE = "What fits which GPU (predicted), by memory"
_SAME_GIB = 4.0
"""GPUs whose memory differs by less are of one size."""
_SCREEN_ROWS = 8
"""GPUs of the answer: one of each memory size."""
_SMALLER_ROWS = 2
"""Of them, that the batch does not fit."""
_LEAST_GIB = 0.05
"""What is less is written as less than 0.1."""
_MOST_NAMED = 3
"""GPUs; more are counted."""
_BUSY_SHARE = 0.8
"""Of a batch's time, that its process has a CPU where nothing holds it up."""
_Known = TypeVar("_Known", PredictedFit, RequestedBatch)
_VERDICTS = ("fits", "fits only in the best case", "does not fit")


@dataclass(frozen=True)
class _Row:
    """One GPU, its figures by the precision that was traced: fp32 also stands for TF32, fp16 for bf16."""

    name: str
    facts: GpuFacts
    own: str
    """The script's own precision."""
    fits: dict[str, PredictedFit]
    asked: dict[str, RequestedBatch]
    """The batch that was asked for, else the script's own."""

    @property
    def own_fit(self) -> PredictedFit | None:
        """In the script's own precision, where that fits anything."""
        fit = self.fits.get(self.own)
        return None if fit is None or fit.peak is None else fit

    @property
    def shown(self) -> PredictedFit:
        """The fit that the memory columns show: in the script's own precision where that fits."""
        either = [self.fits[kind] for kind in sorted(self.fits, key=lambda kind: kind != self.own)]
        return next((one for one in either if one.peak is not None), either[0])

    def rated(self, kind: str) -> RequestedBatch | None:
        """Return the batch that was asked for where it may fit, so that its rates are of use."""
        one = self.asked.get(kind)
        return None if one is None or one.verdict is BatchFit.NO else one


class _View(NamedTuple):
    """What was predicted, in the order that it is shown in."""

    run: FitsRun
    prediction: DevicePrediction
    kinds: dict[str, list[PredictedFit]]
    """32 bit, then 16 bit, by the precision that was traced."""
    own: str
    """The kind that the script trains in."""
    rows: list[_Row]

    def largest_text(self, largest: LargestBatch) -> str:
        """Return the largest batch, "all 50,000" where memory holds every sample of an epoch."""
        low, high = largest.low, largest.high
        if not high:
            return "nothing fits"
        if low == high or self.prediction.has_whole_epoch(low):
            return self.size_text(low)
        most = "all" if self.prediction.has_whole_epoch(high) else _count(high)
        return f"{self.size_text(low)} (to {most})"

    def size_text(self, samples: int) -> str:
        """Return a batch size, "all 50,000" for a whole epoch."""
        is_all = self.prediction.has_whole_epoch(samples)
        return f"all {self.prediction.epoch_samples:,}" if is_all else _count(samples)


class _Spec(NamedTuple):
    """A figure that each GPU has in each precision."""

    title: str
    """The precision stands for {}."""
    item: Callable[[_Row, str], PredictedFit | RequestedBatch | None]
    text: Callable[[_View, Any], str]
    drop: int = 0
    other_drop: int = 0
    """In the precision that the script doesn't train in."""


_LARGEST = _Spec(
    "batch, {}", lambda row, kind: row.fits.get(kind), lambda view, fit: view.largest_text(fit.largest), 0, 1
)
_CHECKPOINTED = _Spec(
    "checkpointed, {}",
    lambda row, kind: row.fits.get(kind),
    lambda view, fit: view.largest_text(fit.checkpointed) if fit.checkpointed else UNKNOWN,
    3,
    3,
)
_ASKED = _Spec(
    "{batch}, {}", lambda row, kind: row.asked.get(kind), lambda view, asked: _verdict_text(asked), 0, 1
)
_COMPUTE = _Spec("compute, {}", _Row.rated, lambda view, asked: _rate_text(asked.compute))
_AT_LARGEST = _Spec(
    "batch, {}", lambda row, kind: row.own_fit, lambda view, fit: view.size_text(fit.batch_size)
)
_NAME: Column[_Row] = Column("GPU", lambda row: row.name, is_numeric=False)
_CAPACITY: Column[_Row] = Column("GiB", lambda row: f"{row.shown.capacity_bytes / GIB:.1f}", drop=2)
_LARGEST_RATES: tuple[Column[_Row], ...] = (
    Column("compute", lambda row: _rate_text(row.own_fit.compute) if row.own_fit else _ABSENT),
    Column("loader", lambda row: _rate_text(row.own_fit.loader) if row.own_fit else _ABSENT),
)
_LOADER: Column[_Row] = Column(
    "loader", lambda row: _rate_text(one.loader) if (one := row.rated(row.own)) else _ABSENT, is_optional=True
)


def _columns(view: _View, spec: _Spec, kinds: Iterable[str] | None = None) -> list[Column[_Row]]:
    """Return a column for each precision, marked where a GPU has another one in its place."""
    known = view.prediction.checkpointing
    if spec is _CHECKPOINTED and (known is None or known.why_not is not None):
        return []

    def column(kind: str) -> Column[_Row]:
        has_others = len({fit.precision for fit in view.kinds[kind]}) > 1

        def cell(row: _Row) -> str:
            one = spec.item(row, kind)
            if one is None:
                return _ABSENT
            text = spec.text(view, one)
            mark = " " if one.precision == kind or text == UNKNOWN else _OTHER
            return text + mark * has_others

        title = spec.title.replace("{batch}", str(view.run.batch_size)).format(kind)
        drop = spec.drop if kind == view.own else spec.other_drop
        return Column(title, cell, drop=drop, is_optional=spec is _CHECKPOINTED)

    return [column(kind) for kind in kinds or view.kinds]


def fits_report(run: FitsRun, width: int = 80) -> Report:
    """Return everything that is shown of what fits which GPU."""
    title = printable(f"What fits which GPU: {run.target.name}")
    view = _view(run)
    if view is None:
        return Report(title, (Lead(_nothing(run)),))
    return Report(
        title,
        (
            Lead(_answer(view)),
            Section("fits", "What fits which GPU", "GPUs"),
            *_memory(view, width),
            Section("rates", "How fast", "Speed"),
            *_speed(view, width),
            Section("peak", "What takes the memory", "Memory"),
            *_parts(view, width),
            Section("basis", "How it was predicted", "Basis"),
            Passage("How it was predicted", _basis(view)),
            *(Note(Severity.WARNING, printable(one)) for one in view.prediction.doubts),
            Section("next", "Next", "Next"),
            _next_steps(run),
        ),
    )


def fits_answer(run: FitsRun, width: int = 80, folder: str = "") -> tuple[Block, ...]:
    """Return which GPUs hold the batch and how fast they would be, in one screen.

    Args:
        run: the whole prediction.
        width: letters of a line.
        folder: that it lies in.
    """
    view = _view(run)
    if view is None:
        return fits_report(run, width).blocks
    checkpointing = _checkpointing(view)
    shown = _screen_rows(view, _SCREEN_ROWS - sum(math.ceil(len(line) / width) for line in checkpointing))
    if run.options.batch_size is None:
        columns = [_NAME, _CAPACITY, *_columns(view, _LARGEST), *_columns(view, _CHECKPOINTED)]
        lines = _largest_lines(view, shown)
    else:
        columns, lines = [_NAME, *_columns(view, _ASKED)], _asked_lines(view)
    if _has_rates(run):
        columns += [*_columns(view, _COMPUTE, [view.own]), _LOADER]
    table = fitted_table(_TITLE, columns, shown, width)
    doubts = view.prediction.doubts
    every = f"all {len(view.rows)} GPUs, " if len(view.rows) > len(shown) else ""
    every += f"{count_text(len(doubts), 'doubt')}, " if doubts else ""
    more = f"{every}memory and method: tunekit report {printable(quoted(folder))} --full"
    return (
        Lead(_answer(view)),
        table,
        Passage("", (*lines, *_stars(view, table), *_rate_lines(view), *checkpointing)),
        Line(more, is_quiet=True),
        _next_steps(run),
    )


def _view(run: FitsRun) -> _View | None:
    """Return what is shown of a prediction; None where nothing was predicted."""
    prediction = run.prediction
    if prediction is None or not prediction.fits:
        return None
    order = (Precision.TF32, Precision.BF16, Precision.FP32, Precision.FP16)
    split = [[fit for fit in prediction.fits if (fit.precision in _HALVES) is half] for half in (False, True)]
    kinds = {str(min((fit.precision for fit in fits), key=order.index)): fits for fits in split if fits}
    config = run.script_config
    is_half = config is not None and config.precision in _HALVES
    own = next((kind for kind in kinds if (kind in _HALVES) is is_half), next(iter(kinds)))

    def by_kind(facts: GpuFacts, found: Sequence[_Known]) -> dict[str, _Known]:
        own = [one for one in found if one.profile_id == facts.profile_id]
        halves = {kind: kind in _HALVES for kind in kinds}
        return {kind: one for one in own for kind in kinds if halves[kind] is (one.precision in _HALVES)}

    rows = [
        _Row(
            printable(facts.profile_id + (" (here)" if facts.profile_id == run.measured_on else "")),
            facts,
            own,
            by_kind(facts, prediction.fits),
            by_kind(facts, run.asked),
        )
        for facts in run.gpus
    ]
    rows = sorted(
        (row for row in rows if row.fits), key=lambda row: (row.shown.capacity_bytes, _rate(row), row.name)
    )
    return _View(run, prediction, kinds, own, rows)


def _rate(row: _Row) -> float:
    fit = row.fits.get(row.own)
    return fit.rate.value if fit is not None and fit.rate is not None else 0.0


def _screen_rows(view: _View, most: int) -> list[_Row]:
    """Return all GPUs where they are few, else the best of each memory size.

    That is the GPU here, else a rented one, else the fastest. Where these are too many, they start a little
    below what the batch needs.
    """
    if len(view.rows) <= most:
        return view.rows

    def preference(row: _Row) -> tuple[bool, bool, float]:
        return row.facts.profile_id == view.run.measured_on, row.facts.instance is not None, _rate(row)

    by_size: dict[int, list[_Row]] = {}
    for row in view.rows:
        by_size.setdefault(round(row.shown.capacity_bytes / GIB / _SAME_GIB), []).append(row)
    kept = [max(rows, key=preference) for rows in by_size.values()]
    batch = view.run.batch_size or 1
    first_fit = next((place for place, row in enumerate(kept) if row.shown.largest.low >= batch), len(kept))
    start = max(0, min(first_fit - _SMALLER_ROWS, len(kept) - most))
    return kept[start : start + most]


def _nothing(run: FitsRun) -> str:
    if run.why_not is not None:
        return printable(f"Nothing can be predicted: {run.why_not}.")
    failed = next((one.failure for one in run.trials if one.failure is not None), None)
    if failed is not None:
        return printable(f"Nothing was predicted: the script failed ({failed.kind}): {failed.message}.")
    why = "it was interrupted" if run.status is RunStatus.INTERRUPTED else f"status: {run.status}"
    return f"Nothing was predicted yet ({why})."


def _next_steps(run: FitsRun) -> Commands:
    if run.target.builtin:
        return Commands("Next, with your own script", ("tunekit fits -- python train.py",))
    gpu = run.options.gpus[0] if len(run.options.gpus) == 1 else "NAME"
    search = command_text("search", run.target, gpu)
    return Commands("Next, on a machine with that GPU", (search, "tunekit plan RUN  # hours and dollars"))


# --- the answer ------------------------------------------------------------------------------


def _answer(view: _View) -> str:
    run, prediction, batch = view.run, view.prediction, view.run.batch_size
    gpus = {fit.profile_id for fit in prediction.fits}
    if batch is None:
        return f"What fits {count_text(len(gpus), 'GPU')}: predicted."
    name = f"Batch {batch}" if run.options.batch_size else f"Your batch of {batch}"
    margin = f"with {prediction.margin:.0%} margin"
    if len(gpus) == 1:
        fits = ", ".join(f"{_VERDICTS[_place(fit, batch)]} in {fit.precision}" for fit in prediction.fits)
        answer = f"{name} on {printable(gpus.pop())} {margin}: {fits} (predicted)."
    else:
        counts = ", ".join(_fit_count(kind, fits, batch) for kind, fits in view.kinds.items())
        answer = f"{name} fits {margin} on {counts} (predicted)."
    samples = prediction.epoch_samples
    is_too_large = run.options.batch_size is not None and samples is not None and batch > samples
    return f"{answer} It is larger than an epoch of {samples:,} samples." if is_too_large else answer


def _place(fit: PredictedFit, batch: int) -> int:
    """Return the place of a fit's verdict in `_VERDICTS`."""
    return 0 if batch <= fit.largest.low else 1 if batch <= fit.largest.high else 2


def _fit_count(kind: str, fits: Sequence[PredictedFit], batch: int) -> str:
    """Return where a batch fits, such as "3 of 7 GPUs in bf16 or fp16 (1 more in the best case)"."""
    places = [_place(fit, batch) for fit in fits]
    precisions = sorted({str(fit.precision) for fit in fits}, key=lambda name: (name != kind, name))
    tight = f" ({places.count(1)} more in the best case)" if 1 in places else ""
    return f"{places.count(0)} of {count_text(len(fits), 'GPU')} in {' or '.join(precisions)}{tight}"


def _count(samples: int) -> str:
    """Return a batch size as it is typed, from 100,000 on in thousands or millions, cut off."""
    if samples < 100_000:
        return str(samples)
    return f"{samples // 1000}k" if samples < 1_000_000 else f"{samples // 10_000 / 100:.2f}M"


def _verdict_text(asked: RequestedBatch) -> str:
    """Return whether a batch fits, such as "yes 12.1/19.5" in GiB."""
    room = asked.most_bytes if asked.verdict is BatchFit.NO else asked.least_bytes
    return f"{asked.verdict} {_gib_text(asked.reserved_bytes)}/{_gib_text(room)}"


def _gib_text(size_bytes: int) -> str:
    return "<0.1" if 0 < size_bytes < _LEAST_GIB * GIB else f"{size_bytes / GIB:.1f}"


def _rate_text(rate: Interval | None) -> str:
    return UNKNOWN if rate is None else f"{short_rate_text(rate.low)} to {short_rate_text(rate.high)}"


def _machine_text(row: _Row) -> str:
    """Return whose CPUs the loader has, where that is known."""
    has_loader = any(one.loader is not None for one in row.asked.values())
    if row.facts.instance is None or row.facts.vcpus is None or not has_loader:
        return ""
    return printable(f"{row.facts.instance}, {row.facts.vcpus:g} vCPUs")


# --- everything ------------------------------------------------------------------------------


def _memory(view: _View, width: int) -> tuple[Block, ...]:
    """Return the largest batches, each beside whether the batch that was asked for fits."""
    asked = _columns(view, _ASKED) if view.run.asked else []
    columns = [_NAME, _CAPACITY]
    for batch, *others in zip_longest(_columns(view, _LARGEST), asked, _columns(view, _CHECKPOINTED)):
        columns += [batch, *(replace(one, is_below=True) for one in others if one is not None)]
    table = fitted_table(_TITLE, _all_kept(columns), view.rows, width)
    lines = (
        *_largest_lines(view, view.rows),
        *_asked_lines(view),
        *_checkpointing(view),
        *_stars(view, table),
    )
    return table, Passage("", lines)


def _speed(view: _View, width: int) -> tuple[Block, ...]:
    """Return the rates of GPU and loader, at the batch and at the largest."""
    machine: Column[_Row] = Column("machine", _machine_text, is_below=True, is_optional=True)
    largest = [_NAME, *_columns(view, _AT_LARGEST, [view.own]), *_LARGEST_RATES]
    at_largest = fitted_table("Samples/s at the largest batch (predicted)", largest, view.rows, width)
    blocks: tuple[Block, ...] = (at_largest, Passage("", _stars(view, at_largest)))
    if not _has_rates(view.run):
        return blocks
    title = f"Samples/s at batch {view.run.batch_size} (predicted)"
    columns = [_NAME, *_columns(view, _COMPUTE), _LOADER, machine]
    table = fitted_table(title, _all_kept(columns), view.rows, width)
    lines = [*_stars(view, table), *_rate_lines(view)]
    if any(map(_machine_text, view.rows)):
        lines.append("machine: the loader's, the cheapest of those with fewest GPUs; vCPUs per GPU")
    return (table, Passage("", tuple(lines)), *blocks)


def _all_kept(columns: Iterable[Column[_Row]]) -> list[Column[_Row]]:
    return [replace(column, drop=0) for column in columns]


def _has_rates(run: FitsRun) -> bool:
    return any(one.compute is not None for one in run.asked)


def _rate_lines(view: _View) -> tuple[str, ...]:
    line = f"compute, loader: samples/s of each GPU at batch {view.run.batch_size}; the lower is the limit"
    return (line,) if _has_rates(view.run) else ()


def _asked_lines(view: _View) -> tuple[str, ...]:
    batch = view.run.batch_size
    line = f"{batch}: GiB reserved without margin / available (yes: at worst, no: at best)"
    return (line,) if view.run.asked else ()


def _largest_lines(view: _View, rows: Sequence[_Row]) -> tuple[str, ...]:
    line = (
        f"batch: the largest that fits with {view.prediction.margin:.0%} margin (in the best case), per GPU"
    )
    fits = [fit for row in rows for fit in row.fits.values()]
    if not any(view.prediction.has_whole_epoch(fit.largest.high) for fit in fits):
        return (line,)
    return line, f"all {view.prediction.epoch_samples:,}: the whole epoch in one batch, made by one worker"


def _stars(view: _View, table: Table) -> tuple[str, ...]:
    """Return which precision stands in for another in a table."""
    if not any(_OTHER in cell for row in table.rows for cell in row):
        return ()
    kinds = [kind for kind in view.kinds if any(kind in title for title in table.columns)]
    others = {str(fit.precision): kind for kind in kinds for fit in view.kinds[kind] if fit.precision != kind}
    return tuple(f"{_OTHER} {other}: the GPU has no {kind}" for other, kind in others.items())


def _checkpointing(view: _View) -> tuple[str, ...]:
    """Return what gradient checkpointing gives where memory limits the batch, if anything."""
    known, whole = view.prediction.checkpointing, view.prediction.has_whole_epoch
    if known is None or known.why_not is not None:
        return ()
    pairs = [(fit, fit.largest.low, fit.checkpointed.low) for fit in view.prediction.fits if fit.checkpointed]
    times = [more / low for _, low, more in pairs if low and not whole(low)]
    gains = []
    if times and max(times) > 1:
        ends = dict.fromkeys(f"{one:.1f}x" for one in (min(times), max(times)))
        gains.append(f"{' to '.join(ends)} the batch")
    only = list(dict.fromkeys(fit.profile_id for fit, low, more in pairs if more and not low))
    if only:
        gains.append(f"a batch on {_ids_text(only)} where none fits without it")
    line = printable(f"gradient checkpointing: {', '.join(gains)}, steps up to {EXTRA_TIME} longer")
    return (line,) if gains else ()


def _parts(view: _View, width: int) -> tuple[Block, ...]:
    """Return what takes each GPU's memory, in GiB."""
    rows = [row for row in view.rows if row.shown.peak is not None]
    sizes = [row.shown.peak.by_purpose for row in rows if row.shown.peak is not None]
    purposes = [one for one in Purpose if any(size.get(one, 0) >= _LEAST_GIB * GIB for size in sizes)]

    def part(purpose: Purpose, is_below: bool) -> Column[_Row]:
        def cell(row: _Row) -> str:
            return _gib_text(row.shown.peak.by_purpose.get(purpose, 0)) if row.shown.peak else _ABSENT

        return Column(purpose.split()[0], cell, is_below=is_below)

    columns: list[Column[_Row]] = [
        _NAME,
        Column("batch", lambda row: f"{view.size_text(row.shown.batch_size)} {row.shown.precision}"),
        *(part(one, is_below=place % 2 == 1) for place, one in enumerate(purposes)),
        Column(
            "other", lambda row: _gib_text(row.facts.outside.context.high + row.facts.outside.workspace.high)
        ),
    ]
    title = "GiB at the peak of the largest batch with margin (predicted)"
    note = "other: CUDA context and workspaces outside torch, at most"
    return (fitted_table(title, columns, rows, width), Passage("", (note,))) if rows else ()


# --- what the prediction goes by -------------------------------------------------------------


def _basis(view: _View) -> tuple[str, ...]:
    """Return what the prediction goes by, a line each."""
    run, prediction = view.run, view.prediction
    sizes = " and ".join(map(str, prediction.traced_sizes))
    elsewhere = "any other GPU" if prediction.path is PredictionPath.LOOP_ON_GPU else "a GPU"
    traces = [one.details.trace for one in run.trials if one.details and one.details.trace]
    here = "" if (factor := prediction.speed_factor) is None else f", times {factor:.2f} as measured here"
    lines = (
        f"Traced here: {prediction.path}, at batch sizes {sizes}; nothing ran on {elsewhere}.",
        *(f"Not all was traced: {trace.why_ended}." for trace in traces if trace.why_ended),
        "Memory: the traced allocations at each batch size, replayed by the rules of torch's allocator; "
        f"margin {prediction.margin:.0%} either way, {count_text(len(prediction.doubts), 'doubt')}.",
        *_outside(run),
        *_checkpointing_basis(prediction),
        f"Compute: a roofline model of each traced op{here}, +-{ERROR:.0%}; memory layout, fusion and "
        "torch.compile are not modelled.",
        _loader(run, prediction),
    )
    return tuple(map(printable, lines))


def _outside(run: FitsRun) -> list[str]:
    """Return what lies beside torch's tensors, a line for all GPUs of which the same is known."""
    lines = []
    for name in ("context", "workspace"):
        gpus: dict[BytesRange, list[str]] = {}
        for one in run.gpus:
            gpus.setdefault(getattr(one.outside, name), []).append(one.profile_id)
        for known, ids in gpus.items():
            of = "" if len(gpus) == 1 else f" of {_ids_text(ids)}"
            size = f"{bytes_text(known.low)} to {bytes_text(known.high)}"
            lines.append(f"{name.capitalize()}{of}: {size}, {known.source}.")
    return lines


def _ids_text(ids: list[str]) -> str:
    return ", ".join(ids) if len(ids) <= _MOST_NAMED else f"{len(ids)} GPUs"


def _checkpointing_basis(prediction: DevicePrediction) -> list[str]:
    known = prediction.checkpointing
    if known is None:
        return []
    what = known.why_not or f"of {blocks_text(known)}, {cost_text(known.extra_flops)}"
    return [f"Gradient checkpointing: {what}."]


def _loader(run: FitsRun, prediction: DevicePrediction) -> str:
    measured, cpus = prediction.loader_measured, prediction.loader_cpus
    seen = next((done for one in reversed(run.trials) if (done := one.measurement or one.dry)), None)
    isolated = seen.details.floors if seen and seen.details else None
    if measured is None or cpus is None:
        return f"Loader: n/a here ({isolated.why_not if isolated and isolated.why_not else 'not measured'})."
    workers = count_text(seen.loop.num_workers if seen else 0, "worker")
    work = isolated.loader_work if isolated else None
    share = 1.0 if work is None or work.cpu_share is None else work.cpu_share
    waits = f", less where batches wait for storage or CPUs, {1 - share:.0%} here" * (share < _BUSY_SHARE)
    return (
        f"Loader: {rate_text(measured)} samples/s with {workers} on {count_text(cpus, 'CPU')}, measured; "
        "there by a batch's cost here, one worker per vCPU and at most one per batch of an epoch, each as "
        f"fast as a CPU here, down to half{waits}."
    )
