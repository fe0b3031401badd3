"""What fits which GPU: the answer on one screen; every GPU, precision and the basis in full. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

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
from tunekit.records.run import BatchFit, FitsRun, GpuFacts, RequestedBatch
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
    table_of,
)
from tunekit.report.text import UNKNOWN
from tunekit.trial.typed_commands import command_text, quoted
from tunekit.units import GIB, bytes_text, count_text, rate_text, short_rate_text

_ABSENT = "-"
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


class _Row(NamedTuple):
    """One GPU in one precision."""

    name: str
    facts: GpuFacts
    fit: PredictedFit
    asked: RequestedBatch | None
    """The batch that was asked for, else the script's own."""

    @property
    def rate(self) -> float:
        """Of its largest batch."""
        return self.fit.rate.value if self.fit.rate else 0.0

    def rate_text(self, name: str) -> str:
        """Return a rate of the batch that was asked for, where that may fit."""
        asked = self.asked
        return _ABSENT if asked is None or asked.verdict is BatchFit.NO else _rate_text(getattr(asked, name))

    def largest_text(self, name: str) -> str:
        """Return a rate of the largest batch, where there is one."""
        return _rate_text(getattr(self.fit, name)) if self.fit.peak else _ABSENT


class _View(NamedTuple):
    """What was predicted, in the order that it is shown in."""

    run: FitsRun
    prediction: DevicePrediction
    rows: list[_Row]

    @property
    def own_rows(self) -> list[_Row]:
        """One row for each GPU: as wide as the script's own precision, or in the only one that it has."""
        config = self.run.script_config
        is_half = config is not None and config.precision in _HALVES
        by_gpu: dict[str, _Row] = {}
        for row in self.rows:
            if row.name not in by_gpu or (row.fit.precision in _HALVES) is is_half:
                by_gpu[row.name] = row
        return list(by_gpu.values())

    def batch_text(self, largest: LargestBatch | None) -> str:
        """Return the largest batch, "all 50,000" where memory holds every sample of an epoch."""
        if largest is None:
            return UNKNOWN
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


def fits_report(run: FitsRun) -> Report:
    """Return everything that is shown of what fits which GPU."""
    title = printable(f"What fits which GPU: {run.target.name}")
    view = _view(run)
    if view is None:
        failed = next((one.failure for one in run.trials if one.failure is not None), None)
        why = f"the script failed ({failed.kind}): {failed.message}" if failed else f"status: {run.status}"
        return Report(title, (Lead(printable(f"Nothing predicted: {run.why_not or why}.")),))
    columns = _columns(view)
    columns += [
        Column("checkpointed", lambda row: view.batch_text(row.fit.checkpointed), is_optional=True),
        Column("compute at largest", lambda row: row.largest_text("compute")),
        Column("loader at largest", lambda row: row.largest_text("loader")),
        Column("machine", _machine_text, is_optional=True),
    ]
    return Report(
        title,
        (
            Lead(_answer(view)),
            Section("fits", "What fits which GPU", "GPUs"),
            table_of(_TITLE, columns, view.rows),
            Passage("", (*_legend(view), "machine: the cheapest for its loader, with vCPUs per GPU")),
            Section("peak", "What takes the memory", "Memory"),
            *_parts(view),
            Section("basis", "How it was predicted", "Basis"),
            Passage("How it was predicted", _basis(view)),
            *(Note(Severity.WARNING, printable(one)) for one in view.prediction.doubts),
            Section("next", "Next", "Next"),
            _next_steps(run),
        ),
    )


def fits_answer(run: FitsRun, folder: str = "") -> tuple[Block, ...]:
    """Return which GPUs hold the batch and how fast they would be, in one screen.

    Args:
        run: the whole prediction.
        folder: that it lies in.
    """
    view = _view(run)
    if view is None:
        return fits_report(run).blocks
    doubts = view.prediction.doubts
    parts = (
        f"all {len({row.name for row in view.rows})} GPUs",
        *([count_text(len(doubts), "doubt")] * bool(doubts)),
    )
    more = f"{', '.join(parts)}, memory and method: tunekit report {printable(quoted(folder))} --full"
    return (
        Lead(_answer(view)),
        table_of(_TITLE, _columns(view), _screen_rows(view)),
        Passage("", _legend(view)),
        Line(more, is_quiet=True),
        _next_steps(run),
    )


def _columns(view: _View) -> list[Column[_Row]]:
    """Return the columns of every medium."""
    batch = view.run.batch_size
    return [
        Column("GPU", lambda row: row.name, is_numeric=False),
        Column("in", lambda row: str(row.fit.precision), is_numeric=False),
        Column("GiB", lambda row: f"{row.fit.capacity_bytes / GIB:.1f}"),
        Column("batch", lambda row: view.batch_text(row.fit.largest)),
        Column(f"{batch}", lambda row: _verdict_text(row.asked) if row.asked else UNKNOWN, is_optional=True),
        *(
            [
                Column("compute", lambda row: row.rate_text("compute"), is_optional=True),
                Column("loader", lambda row: row.rate_text("loader"), is_optional=True),
            ]
            if any(one.compute is not None for one in view.run.asked)
            else []
        ),
    ]


def _view(run: FitsRun) -> _View | None:
    """Return what is shown of a prediction; None where nothing was predicted."""
    prediction = run.prediction
    if prediction is None or not prediction.fits:
        return None
    asked = {(one.profile_id, one.precision): one for one in run.asked}
    facts = {one.profile_id: one for one in run.gpus}
    rows = [
        _Row(
            printable(fit.profile_id + " (here)" * (fit.profile_id == run.measured_on)),
            facts[fit.profile_id],
            fit,
            asked.get((fit.profile_id, fit.precision)),
        )
        for fit in prediction.fits
        if fit.profile_id in facts
    ]
    rates: dict[str, float] = {}
    for row in rows:
        rates[row.name] = max(row.rate, rates.get(row.name, 0.0))
    rows.sort(
        key=lambda row: (row.fit.capacity_bytes, rates[row.name], row.name, row.fit.precision in _HALVES)
    )
    return _View(run, prediction, rows)


def _screen_rows(view: _View) -> list[_Row]:
    """Return all GPUs where they are few, else the best of each memory size.

    That is the GPU here, else a rented one, else the fastest. Where these are too many, they start a little
    below what the batch needs.
    """
    rows, most = view.own_rows, _SCREEN_ROWS - 2 * len(_checkpointing(view))
    if len(rows) <= most:
        return rows

    def preference(row: _Row) -> tuple[bool, bool, float]:
        return row.facts.profile_id == view.run.measured_on, row.facts.instance is not None, row.rate

    by_size: dict[int, list[_Row]] = {}
    for row in rows:
        by_size.setdefault(round(row.fit.capacity_bytes / GIB / _SAME_GIB), []).append(row)
    kept = [max(rows, key=preference) for rows in by_size.values()]
    batch = view.run.batch_size or 1
    first_fit = next((place for place, row in enumerate(kept) if row.fit.largest.low >= batch), len(kept))
    start = max(0, min(first_fit - _SMALLER_ROWS, len(kept) - most))
    return kept[start : start + most]


def _next_steps(run: FitsRun) -> Commands:
    if run.target.builtin:
        return Commands("Next, with your own script", ("tunekit fits -- python train.py",))
    gpu = run.options.gpus[0] if len(run.options.gpus) == 1 else "NAME"
    search = command_text("search", run.target, gpu)
    return Commands(
        "Next, on a machine with that GPU",
        (search, "tunekit plan RUN  # hours and dollars; RUN: the folder that this search writes"),
    )


# --- the answer ------------------------------------------------------------------------------


def _answer(view: _View) -> str:
    run, prediction, batch = view.run, view.prediction, view.run.batch_size
    if batch is None:
        gpus = len({fit.profile_id for fit in prediction.fits})
        return f"What fits {count_text(gpus, 'GPU')}: predicted."
    name = f"Batch {batch}" if run.options.batch_size else f"Your batch of {batch}"
    counts = ", ".join(_fit_counts(prediction, batch))
    answer = f"{name} fits with {prediction.margin:.0%} margin on {counts} (predicted)."
    samples = prediction.epoch_samples
    is_too_large = run.options.batch_size is not None and samples is not None and batch > samples
    return f"{answer} It is larger than an epoch of {samples:,} samples." if is_too_large else answer


def _fit_counts(prediction: DevicePrediction, batch: int) -> Iterator[str]:
    """Return where a batch fits, such as "3 of 7 GPUs in bf16 or fp16 (1 more in the best case)"."""
    for are_halves in (False, True):
        fits = [fit for fit in prediction.fits if (fit.precision in _HALVES) is are_halves]
        sure = sum(batch <= fit.largest.low for fit in fits)
        tight = sum(batch <= fit.largest.high for fit in fits) - sure
        names = " or ".join(sorted({str(fit.precision) for fit in fits}))
        best_case = f" ({tight} more in the best case)" if tight else ""
        if fits:
            yield f"{sure} of {count_text(len(fits), 'GPU')} in {names}{best_case}"


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
    facts, has_loader = row.facts, row.asked is not None and row.asked.loader is not None
    if facts.instance is None or facts.vcpus is None or not has_loader:
        return ""
    return printable(f"{facts.instance}, {facts.vcpus:g} vCPUs")


def _legend(view: _View) -> tuple[str, ...]:
    """Return what the columns are."""
    run, prediction, batch = view.run, view.prediction, view.run.batch_size
    margin = f"{prediction.margin:.0%} margin"
    lines = [f"batch: the largest that fits with {margin} (in the best case), per GPU"]
    if any(prediction.has_whole_epoch(row.fit.largest.high) for row in view.rows):
        lines.append(f"all {prediction.epoch_samples:,}: the whole epoch in one batch, made by one worker")
    if run.asked:
        lines.append(f"{batch}: GiB reserved without margin / available (yes: at worst, no: at best)")
    if any(one.compute is not None for one in run.asked):
        lines.append(f"compute, loader: samples/s of each GPU at batch {batch}; the lower is the limit")
    return (*lines, *_checkpointing(view))


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


def _parts(view: _View) -> tuple[Block, ...]:
    """Return what takes each GPU's memory, in GiB."""
    rows = [row for row in view.rows if row.fit.peak is not None]
    sizes = [row.fit.peak.by_purpose for row in rows if row.fit.peak is not None]
    purposes = [one for one in Purpose if any(size.get(one, 0) >= _LEAST_GIB * GIB for size in sizes)]

    def part(purpose: Purpose) -> Column[_Row]:
        def cell(row: _Row) -> str:
            return _gib_text(row.fit.peak.by_purpose.get(purpose, 0)) if row.fit.peak else _ABSENT

        return Column(purpose.split()[0], cell)

    columns: list[Column[_Row]] = [
        Column("GPU", lambda row: row.name, is_numeric=False),
        Column("batch", lambda row: f"{view.size_text(row.fit.batch_size)} {row.fit.precision}"),
        *map(part, purposes),
        Column(
            "other", lambda row: _gib_text(row.facts.outside.context.high + row.facts.outside.workspace.high)
        ),
    ]
    title = "GiB at the peak of the largest batch with margin (predicted)"
    note = "other: CUDA context and workspaces outside torch, at most"
    return (table_of(title, columns, rows), Passage("", (note,))) if rows else ()


# --- what the prediction goes by -------------------------------------------------------------


def _basis(view: _View) -> tuple[str, ...]:
    """Return what the prediction goes by, a line each."""
    run, prediction = view.run, view.prediction
    sizes = " and ".join(map(str, prediction.traced_sizes))
    elsewhere = "any other GPU" if prediction.path is PredictionPath.LOOP_ON_GPU else "a GPU"
    traces = [one.details.trace for one in run.trials if one.details and one.details.trace]
    here = "" if (factor := prediction.speed_factor) is None else f", times {factor:.2f} as measured here"
    known = prediction.checkpointing
    lines = [
        f"Traced here: {prediction.path}, at batch sizes {sizes}; nothing ran on {elsewhere}.",
        *(f"Not all was traced: {trace.why_ended}." for trace in traces if trace.why_ended),
        "Memory: the traced allocations at each batch size, replayed by the rules of torch's allocator; "
        f"margin {prediction.margin:.0%} either way.",
        *_outside(run),
        f"Compute: a roofline model of each traced op{here}, +-{ERROR:.0%}; memory layout, fusion and "
        "torch.compile are not modelled.",
        _loader(run, prediction),
    ]
    if known is not None:
        what = known.why_not or f"{blocks_text(known)}, {cost_text(known.extra_flops)}"
        lines.append(f"Gradient checkpointing: {what}.")
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


def _loader(run: FitsRun, prediction: DevicePrediction) -> str:
    measured, cpus = prediction.loader_measured, prediction.loader_cpus
    seen = next((done for one in reversed(run.trials) if (done := one.measurement or one.dry)), None)
    isolated = seen.details.floors if seen and seen.details else None
    if measured is None or cpus is None:
        return f"Loader: n/a here ({isolated.why_not if isolated and isolated.why_not else 'not measured'})."
    workers = count_text(seen.loop.num_workers if seen else 0, "worker")
    work = isolated.loader_work if isolated else None
    waits = (
        ""
        if work is None or work.cpu_share is None
        else f", {1 - work.cpu_share:.0%} of it waiting for storage or CPUs"
    )
    return (
        f"Loader: {rate_text(measured)} samples/s measured with {workers}, {count_text(cpus, 'CPU')}{waits}; "
        "there one worker per vCPU, at most one per batch of an epoch, each at 50% to 100% of the speed here."
    )
