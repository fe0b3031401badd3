"""What fits which GPU, in words: the answer on one screen; every GPU and the basis in full. Pure."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from tunekit.plain_text import printable
from tunekit.predict.checkpointing import EXTRA_TIME, blocks_text, cost_text
from tunekit.predict.roofline import ERROR
from tunekit.records.config import Precision
from tunekit.records.details import IsolatedRates
from tunekit.records.finding import Severity
from tunekit.records.interval import Interval
from tunekit.records.prediction import (
    BytesRange,
    DevicePrediction,
    LargestBatch,
    PredictedFit,
    PredictionPath,
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
    fitting_columns,
)
from tunekit.report.memory_bar import legend_text, memory_bar
from tunekit.report.text import UNKNOWN
from tunekit.trial.typed_commands import command_text, quoted
from tunekit.units import GIB, bytes_text, count_text, rate_text, short_rate_text

_ABSENT = "-"
_OTHER = "*"
_HALVES = (Precision.BF16, Precision.FP16)
_TITLE = "What fits which GPU (predicted), by memory"
_LEAST_BAR, _MOST_BAR = 20, 60
"""Shortest and longest memory bar, in letters."""
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


@dataclass(frozen=True)
class _Row:
    """One GPU."""

    name: str
    facts: GpuFacts
    whole: PredictedFit | None
    """In fp32 or TF32."""
    half: PredictedFit | None
    """In 16 bit."""
    is_half: bool
    """Whether the script trains in 16 bit."""
    asked: tuple[RequestedBatch, ...]

    @property
    def own(self) -> PredictedFit | None:
        """In the script's own precision; None on a GPU that has neither that nor what takes its place."""
        return self.half if self.is_half else self.whole

    @property
    def shown(self) -> PredictedFit:
        """The fit that the memory columns show: in the script's own precision where that fits."""
        either = [one for one in (self.own, self.half, self.whole) if one is not None]
        return next((one for one in either if one.peak is not None), either[0])

    def asked_in(self, is_half: bool) -> RequestedBatch | None:
        """Return what is known of the batch that was asked for, else the script's own."""
        return next((one for one in self.asked if (one.precision in _HALVES) == is_half), None)

    def rated(self, is_half: bool) -> RequestedBatch | None:
        """Return the same where that batch may fit, so that its rates are of use."""
        one = self.asked_in(is_half)
        return None if one is None or one.verdict is BatchFit.NO else one


def fits_report(run: FitsRun, width: int = 80) -> Report:
    """Return everything that is shown of what fits which GPU."""
    title = printable(f"What fits which GPU: {run.target.name}")
    prediction = run.prediction
    if prediction is None or not prediction.fits:
        return Report(title, (Lead(_nothing(run)),))
    rows = _rows(run, prediction)
    return Report(
        title,
        (
            Lead(_answer(run, prediction)),
            Section("fits", "What fits which GPU", "GPUs"),
            *_memory(run, prediction, rows, width),
            Section("rates", "How fast", "Speed"),
            *_speed(run, prediction, rows, width),
            Section("peak", "What takes the memory", "Memory"),
            *_bars(prediction, rows, width),
            Section("basis", "How it was predicted", "Basis"),
            Passage("How it was predicted", _basis_lines(run, prediction)),
            *(Note(Severity.WARNING, printable(one)) for one in prediction.doubts),
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
    prediction = run.prediction
    if prediction is None or not prediction.fits:
        return fits_report(run, width).blocks
    rows = _rows(run, prediction)
    checkpointing = _checkpointing_lines(prediction, is_short=True)
    taken = sum(math.ceil(len(line) / width) for line in checkpointing)
    shown = _screen_rows(run, rows, _SCREEN_ROWS - taken)
    largest, asked = _largest_columns(run, prediction), _asked_columns(run, prediction)
    rates = _asked_rates(run, prediction, is_own=True)
    by_kind = largest if run.options.batch_size is None else asked
    more = _checkpointed_columns(prediction) if by_kind is largest else []
    columns = [_NAME, *([_CAPACITY] if by_kind is largest else []), *by_kind, *more, *rates]
    table, kept = fitted_table(_TITLE, columns, shown, width), fitting_columns(columns, shown, width)
    kinds = zip(by_kind, _by_kind(prediction.fits), strict=True)
    in_table = [fit for column, (_, fits) in kinds if column in kept for fit in fits]
    names = {row.facts.profile_id for row in shown}
    lines = (
        *(_asked_lines(run) if run.options.batch_size is not None else _largest_lines(prediction, shown)),
        *_other_lines(prediction, (fit for fit in in_table if fit.profile_id in names)),
        *_rate_lines(run, rates, shown),
        *checkpointing,
    )
    doubts = f"{count_text(len(prediction.doubts), 'doubt')}, " if prediction.doubts else ""
    every = f"all {len(rows)} GPUs, " if len(rows) > len(shown) else ""
    return (
        Lead(_answer(run, prediction)),
        table,
        Passage("", lines),
        Line(
            f"{every}{doubts}memory and method: tunekit report {printable(quoted(folder))} --full",
            is_quiet=True,
        ),
        _next_steps(run),
    )


def _screen_rows(run: FitsRun, rows: Sequence[_Row], most: int) -> list[_Row]:
    """Return all GPUs where they are few, else the fastest of each memory size.

    Where these are too many, the ones from a little below what the batch needs.
    """
    if len(rows) <= most:
        return list(rows)
    by_size: dict[int, _Row] = {}
    for row in rows:
        size = round(row.shown.capacity_bytes / GIB / _SAME_GIB)
        other = by_size.get(size)
        if other is None or _preference(run, row) > _preference(run, other):
            by_size[size] = row
    kept = list(by_size.values())
    batch = run.batch_size or 1
    first_fit = next((place for place, row in enumerate(kept) if row.shown.largest.low >= batch), len(kept))
    start = max(0, min(first_fit - _SMALLER_ROWS, len(kept) - most))
    return kept[start : start + most]


def _preference(run: FitsRun, row: _Row) -> tuple[bool, bool, float]:
    """Return what a GPU stands before others of its memory size by: it is here, it is rented, it is fast."""
    rate = row.own.rate if row.own else None
    is_here = row.facts.profile_id == run.measured_on
    return is_here, row.facts.instance is not None, rate.value if rate else 0.0


def _nothing(run: FitsRun) -> str:
    if run.why_not is not None:
        return printable(f"Nothing can be predicted: {run.why_not}.")
    failed = next((one.failure for one in run.trials if one.failure is not None), None)
    if failed is not None:
        return printable(f"Nothing was predicted: the script failed ({failed.kind}): {failed.message}.")
    why = "it was interrupted" if run.status is RunStatus.INTERRUPTED else f"status: {run.status}"
    return f"Nothing was predicted yet ({why})."


def _next_steps(run: FitsRun) -> Commands:
    gpu = run.options.gpus[0] if len(run.options.gpus) == 1 else "NAME"
    if run.target.builtin:
        return Commands("Next, with your own script", ("tunekit fits -- python train.py",))
    search = command_text("search", run.target, gpu)
    return Commands("Next, on a machine with that GPU", (search, "tunekit plan RUN  # hours and dollars"))


# --- the answer ------------------------------------------------------------------------------


def _answer(run: FitsRun, prediction: DevicePrediction) -> str:
    asked, batch = run.options.batch_size, run.batch_size
    gpus = list(dict.fromkeys(fit.profile_id for fit in prediction.fits))
    if batch is None:
        return f"What fits {count_text(len(gpus), 'GPU')}: predicted."
    name = f"Batch {batch}" if asked else f"Your batch of {batch}"
    if len(gpus) == 1:
        fit = ", ".join(f"{_fit_text(one, batch)} in {one.precision}" for one in prediction.fits)
        sentence = f"{name} on {printable(gpus[0])} with {prediction.margin:.0%} margin: {fit} (predicted)."
    else:
        first, *rest = (_fit_count_text(fits, batch) for _, fits in _by_kind(prediction.fits))
        on = ", ".join([first.replace(" in ", " GPUs in ", 1), *rest])
        sentence = f"{name} fits with {prediction.margin:.0%} margin on {on} (predicted)."
    samples = prediction.epoch_samples
    if asked is None or samples is None or asked <= samples:
        return sentence
    return f"{sentence} No such batch can be made: an epoch has {samples:,} samples."


def _fit_text(fit: PredictedFit, batch: int) -> str:
    if batch <= fit.largest.low:
        return "fits"
    return "fits only in the best case" if batch <= fit.largest.high else "does not fit"


def _fit_count_text(fits: Sequence[PredictedFit], batch: int) -> str:
    """Return on how many GPUs a batch fits, such as "3 of 7 in bf16 or fp16 (1 more in the best case)"."""
    fitting = sum(batch <= fit.largest.low for fit in fits)
    tight = sum(fit.largest.low < batch <= fit.largest.high for fit in fits)
    main = _main_precision(fits)
    what = " or ".join(sorted({str(fit.precision) for fit in fits}, key=lambda name: (name != main, name)))
    whole = "both" if len(fits) == 2 else f"all {fitting}"
    count = whole if fitting == len(fits) else f"{fitting} of {len(fits)}"
    return f"{count} in {what}" + (f" ({tight} more in the best case)" if tight else "")


def _by_kind(every: Sequence[PredictedFit]) -> list[tuple[str, list[PredictedFit]]]:
    """Return the fits in 32 bit, then in 16 bit, each with the precision that was traced."""
    whole = [fit for fit in every if fit.precision not in _HALVES]
    half = [fit for fit in every if fit.precision in _HALVES]
    return [(_main_precision(fits), fits) for fits in (whole, half) if fits]


def _are_half(fits: Sequence[PredictedFit]) -> bool:
    return fits[0].precision in _HALVES


def _main_precision(fits: Iterable[PredictedFit]) -> str:
    """Return the precision that was traced: fp32 and fp16 stand in for TF32 and bf16 where a GPU has none."""
    found = {fit.precision for fit in fits}
    order = (Precision.TF32, Precision.BF16, Precision.FP32, Precision.FP16)
    return str(next(one for one in order if one in found))


# --- the table -------------------------------------------------------------------------------


def _rows(run: FitsRun, prediction: DevicePrediction) -> list[_Row]:
    rows = []
    is_half = _is_half(run, prediction)
    for facts in run.gpus:
        own = [fit for fit in prediction.fits if fit.profile_id == facts.profile_id]
        if not own:
            continue
        rows.append(
            _Row(
                name=printable(facts.profile_id + (" (here)" if facts.profile_id == run.measured_on else "")),
                facts=facts,
                whole=next((fit for fit in own if fit.precision not in _HALVES), None),
                half=next((fit for fit in own if fit.precision in _HALVES), None),
                is_half=is_half,
                asked=tuple(one for one in run.asked if one.profile_id == facts.profile_id),
            )
        )
    return sorted(
        rows,
        key=lambda row: (
            row.shown.capacity_bytes,
            row.own.rate.value if row.own and row.own.rate else 0.0,
            row.name,
        ),
    )


def _is_half(run: FitsRun, prediction: DevicePrediction) -> bool:
    """Return whether the script trains in 16 bit, as far as that was predicted of."""
    config, kinds = run.script_config, {fit.precision in _HALVES for fit in prediction.fits}
    is_half = config is not None and config.precision in _HALVES
    return is_half if is_half in kinds else not is_half


_NAME: Column[_Row] = Column("GPU", lambda row: row.name, is_numeric=False)
_CAPACITY: Column[_Row] = Column("GiB", lambda row: f"{row.shown.capacity_bytes / GIB:.1f}", drop=2)


def _largest_columns(run: FitsRun, prediction: DevicePrediction) -> list[Column[_Row]]:
    """Return the largest batch in each precision; that of the script stays longest."""
    own = _is_half(run, prediction)

    def column(what: str, fits: Sequence[PredictedFit]) -> Column[_Row]:
        is_half, marked = _are_half(fits), _marker(what, fits)

        def text(row: _Row) -> str:
            fit = row.half if is_half else row.whole
            return _ABSENT if fit is None else marked(fit, _largest_text(fit.largest, prediction))

        return Column(f"batch, {what}", text, drop=0 if is_half == own else 1)

    return [column(what, fits) for what, fits in _by_kind(prediction.fits)]


def _checkpointed_columns(prediction: DevicePrediction) -> list[Column[_Row]]:
    """Return the largest batch with gradient checkpointing in each precision; none where nobody traced it."""

    def column(what: str, fits: Sequence[PredictedFit]) -> Column[_Row]:
        is_half, marked = _are_half(fits), _marker(what, fits)

        def text(row: _Row) -> str:
            fit = row.half if is_half else row.whole
            if fit is None or fit.checkpointed is None:
                return _ABSENT if fit is None else UNKNOWN
            return marked(fit, _largest_text(fit.checkpointed, prediction))

        return Column(f"checkpointed, {what}", text, drop=3, is_optional=True)

    if prediction.checkpointing is None or prediction.checkpointing.why_not is not None:
        return []
    return [column(what, fits) for what, fits in _by_kind(prediction.fits)]


def _asked_columns(run: FitsRun, prediction: DevicePrediction) -> list[Column[_Row]]:
    """Return whether the batch fits in each precision: "yes 12.1/19.5" in GiB."""
    own = _is_half(run, prediction)

    def column(what: str, fits: Sequence[PredictedFit]) -> Column[_Row]:
        is_half, marked = _are_half(fits), _marker(what, fits)

        def text(row: _Row) -> str:
            one = row.asked_in(is_half)
            return _ABSENT if one is None else marked(one, _verdict_text(one))

        drop = 0 if is_half == own else 1
        return Column(f"{run.batch_size}, {what}", text, drop=drop)

    return [column(what, fits) for what, fits in _by_kind(prediction.fits)]


def _asked_rates(run: FitsRun, prediction: DevicePrediction, is_own: bool) -> list[Column[_Row]]:
    """Return what GPU and loader make at the batch, the GPU in each precision, or in the script's own.

    Nothing of a prediction by an earlier tunekit, which has only the lower of both.
    """
    if not run.asked or any(one.rate is not None and one.compute is None for one in run.asked):
        return []
    own = _is_half(run, prediction)

    def compute(what: str, fits: Sequence[PredictedFit]) -> Column[_Row]:
        is_half, marked = _are_half(fits), _marker(what, fits)

        def text(row: _Row) -> str:
            one = row.rated(is_half)
            return _ABSENT if one is None else marked(one, _rate_text(one.compute))

        return Column(f"compute, {what}", text)

    def loader(row: _Row) -> str:
        one = row.rated(own)
        return _ABSENT if one is None else _rate_text(one.loader)

    kinds = [one for one in _by_kind(prediction.fits) if not is_own or _are_half(one[1]) == own]
    return [*(compute(what, fits) for what, fits in kinds), Column("loader", loader, is_optional=True)]


def _marker(what: str, fits: Sequence[PredictedFit]) -> Callable[[PredictedFit | RequestedBatch, str], str]:
    """Return what marks a text where the GPU has another precision in place of the traced one."""
    has_others = len({fit.precision for fit in fits}) > 1

    def marked(of: PredictedFit | RequestedBatch, text: str) -> str:
        return text + ("" if not has_others else _OTHER if str(of.precision) != what else " ")

    return marked


def _largest_text(largest: LargestBatch, prediction: DevicePrediction) -> str:
    """Return the largest batch, "all 50,000" where memory holds every sample of an epoch."""
    low, high = largest.low, largest.high
    if not high:
        return "nothing fits"
    trusted = f"all {prediction.epoch_samples:,}" if prediction.has_whole_epoch(low) else _count(low)
    if low == high or prediction.has_whole_epoch(low):
        return trusted
    return f"{trusted} (to {'all' if prediction.has_whole_epoch(high) else _count(high)})"


def _batch_size_text(fit: PredictedFit, prediction: DevicePrediction) -> str:
    is_all = prediction.has_whole_epoch(fit.batch_size)
    return f"all {fit.batch_size:,}" if is_all else _count(fit.batch_size)


def _count(samples: int) -> str:
    """Return a batch size as it is typed, from 100,000 on in thousands or millions, cut off."""
    if samples < 100_000:
        return str(samples)
    return f"{samples // 1000}k" if samples < 1_000_000 else f"{samples // 10_000 / 100:.2f}M"


def _verdict_text(asked: RequestedBatch) -> str:
    room = asked.most_bytes if asked.verdict is BatchFit.NO else asked.least_bytes
    return f"{asked.verdict} {_gib_text(asked.reserved_bytes)}/{_gib_text(room)}"


def _gib_text(size_bytes: int) -> str:
    return "<0.1" if 0 < size_bytes < _LEAST_GIB * GIB else f"{size_bytes / GIB:.1f}"


def _rate_text(rate: Interval | None) -> str:
    return UNKNOWN if rate is None else f"{short_rate_text(rate.low)} to {short_rate_text(rate.high)}"


def _machine_text(row: _Row) -> str:
    """Return whose CPUs the loader has, where that is known."""
    facts, has_loader = row.facts, any(one.loader is not None for one in row.asked)
    if facts.instance is None or facts.vcpus is None or not has_loader:
        return ""
    return printable(f"{facts.instance}, {facts.vcpus:g} vCPUs")


# --- everything ------------------------------------------------------------------------------


def _memory(
    run: FitsRun, prediction: DevicePrediction, rows: Sequence[_Row], width: int
) -> tuple[Block, ...]:
    """Return the largest batches, each beside whether the batch that was asked for fits."""
    largest, asked = _largest_columns(run, prediction), _asked_columns(run, prediction)
    below = [asked if run.asked else [], _checkpointed_columns(prediction)]
    columns = [_NAME, _CAPACITY]
    for batch, *others in zip_longest(largest, *below):
        columns += [batch, *(replace(one, is_below=True) for one in others if one is not None)]
    table = fitted_table(_TITLE, _all_kept(columns), rows, width)
    fits = [fit for row in rows for fit in (row.whole, row.half)]
    lines = [
        *_largest_lines(prediction, rows),
        *_asked_lines(run),
        *_checkpointing_lines(prediction),
        *_other_lines(prediction, fits),
    ]
    return table, Passage("", tuple(lines))


def _speed(run: FitsRun, prediction: DevicePrediction, rows: Sequence[_Row], width: int) -> tuple[Block, ...]:
    """Return the rates of GPU and loader, at the batch and at the largest."""
    rates = _asked_rates(run, prediction, is_own=False)
    machine: Column[_Row] = Column("machine", _machine_text, is_below=True, is_optional=True)
    asked = fitted_table(
        f"Samples/s at batch {run.batch_size} (predicted)",
        _all_kept([_NAME, *rates, machine]),
        rows if rates else (),
        width,
    )
    what, fits = next(one for one in _by_kind(prediction.fits) if _are_half(one[1]) == rows[0].is_half)
    marked = _marker(what, fits)

    def of_largest(text: Callable[[PredictedFit], str]) -> Callable[[_Row], str]:
        return lambda row: _ABSENT if row.own is None or row.own.peak is None else text(row.own)

    columns: list[Column[_Row]] = [
        _NAME,
        Column(f"batch, {what}", of_largest(lambda fit: marked(fit, _batch_size_text(fit, prediction)))),
        Column("compute", of_largest(lambda fit: _rate_text(fit.compute))),
        Column("loader", of_largest(lambda fit: _rate_text(fit.loader))),
    ]
    largest = fitted_table("Samples/s at the largest batch (predicted)", columns, rows, width)
    rated = [row.rated(is_half) for row in rows for is_half in (False, True)]
    below = (*_other_lines(prediction, rated), *_rate_lines(run, rates, rows), *_machine_lines(rows))
    own = [row.own for row in rows if row.own is not None and row.own.peak is not None]
    return (
        asked,
        Passage("", below if rates else ()),
        largest,
        Passage("", tuple(_other_lines(prediction, own))),
    )


def _all_kept(columns: Iterable[Column[_Row]]) -> list[Column[_Row]]:
    return [replace(column, drop=0) for column in columns]


def _asked_lines(run: FitsRun) -> list[str]:
    """Return how the columns of a batch that was asked for are read."""
    if not run.asked:
        return []
    at_best = "; for no, at best" if any(one.verdict is BatchFit.NO for one in run.asked) else ""
    return [f"{run.batch_size}: whether it fits, GiB reserved without margin / available at worst{at_best}"]


def _largest_lines(prediction: DevicePrediction, rows: Sequence[_Row]) -> list[str]:
    """Return how the largest batches are read."""
    lines = [f"batch: the largest that fits with {prediction.margin:.0%} margin (in the best case), per GPU"]
    fits = [fit for row in rows for fit in (row.half, row.whole) if fit is not None]
    if any(prediction.has_whole_epoch(fit.largest.high) for fit in fits):
        samples = prediction.epoch_samples
        lines.append(f"all {samples:,}: the whole epoch in one batch, which one worker loads; none is larger")
    return lines


def _checkpointing_lines(prediction: DevicePrediction, is_short: bool = False) -> list[str]:
    """Return what gradient checkpointing gives where memory limits the batch, or why that is not known.

    Args:
        prediction: of all GPUs.
        is_short: whether to say it in a line, and only where it gives more.
    """
    known = prediction.checkpointing
    if known is None:
        return []
    if known.why_not is not None:
        return [] if is_short else [printable(f"gradient checkpointing: n/a, {known.why_not}")]
    pairs = [(fit, fit.largest.low, fit.checkpointed.low) for fit in prediction.fits if fit.checkpointed]
    times = [more / low for fit, low, more in pairs if low and not prediction.has_whole_epoch(low)]
    gains = []
    if times and max(times) > 1:
        low, high = (f"{one:.1f}x" for one in (min(times), max(times)))
        gain = high if low == high else f"{low} to {high}"
        gains.append(f"{gain} the batch")
    only: dict[str, list[str]] = {}
    for fit in (fit for fit, low, more in pairs if more and not low):
        only.setdefault(fit.profile_id, []).append(str(fit.precision))
    if only:
        on = _ids_text([f"{name} in {' and '.join(precisions)}" for name, precisions in only.items()])
        gains.append(f"a batch on {on} where none fits without it")
    if is_short:
        told = f"gradient checkpointing: {', '.join(gains)}, steps up to {EXTRA_TIME} longer"
        return [printable(told)] if gains else []
    of = f"gradient checkpointing of {blocks_text(known)}"
    told = f"{' and '.join(gains)}, {cost_text(known.extra_flops)}" if gains else "no larger batch fits"
    return [printable(f"{of}: {told}")]


def _other_lines(
    prediction: DevicePrediction, shown: Iterable[PredictedFit | RequestedBatch | None]
) -> list[str]:
    """Return which precision stands in for another in what is shown."""
    precisions = {one.precision for one in shown if one is not None}
    lines = []
    for what, fits in _by_kind(prediction.fits):
        others = {str(fit.precision) for fit in fits if fit.precision in precisions} - {what}
        lines += [f"{_OTHER} {other}: the GPU has no {what}" for other in others]
    return lines


def _rate_lines(run: FitsRun, rates: Sequence[Column[_Row]], rows: Iterable[_Row]) -> list[str]:
    """Return what the rates are of, and which one holds."""
    if not rates:
        return []
    is_asked = run.options.batch_size is not None
    whose = "that batch" if is_asked else f"the script's own batch of {run.batch_size}"
    loaders = [one.loader for row in rows if (one := row.rated(row.is_half)) is not None]
    if loaders and not any(loaders):
        return [f"compute: samples/s of each GPU at {whose}; the loader is not known"]
    unknown = "" if all(loaders) else "; n/a: not known there"
    return [f"compute, loader: samples/s of each GPU at {whose}; the lower one holds{unknown}"]


def _machine_lines(rows: Iterable[_Row]) -> list[str]:
    line = "machine: the loader's, the cheapest of those with fewest GPUs; vCPUs of each GPU"
    return [line] if any(map(_machine_text, rows)) else []


def _bars(prediction: DevicePrediction, rows: Sequence[_Row], width: int) -> tuple[Block, ...]:
    """Return what takes each GPU's memory."""
    having = [row for row in rows if row.shown.peak is not None]
    if not having:
        return ()
    labels = [
        (row.name, f"{_batch_size_text(row.shown, prediction)} {row.shown.precision}") for row in having
    ]
    taken = sum(max(len(label[place]) for label in labels) for place in (0, 1)) + 2 * 2
    letters = min(_MOST_BAR, max(_LEAST_BAR, width - taken))
    bars = [memory_bar(row.shown, row.facts.outside, letters) for row in having]
    title = "Peak memory of the largest batch with margin (predicted)"
    cells = tuple((*label, bar) for label, bar in zip(labels, bars, strict=True))
    return Table(title, ("", "", ""), cells), Passage("", (legend_text(bars),))


# --- what the prediction goes by -------------------------------------------------------------


def _basis_lines(run: FitsRun, prediction: DevicePrediction) -> tuple[str, ...]:
    """Return what the prediction goes by, a line each."""
    memory = (_memory_basis(prediction), *_outside(run))
    lines = (_traced(prediction), *_untraced(run), *memory, _rates(prediction), _loader(run, prediction))
    return tuple(map(printable, lines))


def _traced(prediction: DevicePrediction) -> str:
    sizes = " and ".join(str(size) for size in prediction.traced_sizes)
    others = "any other GPU" if prediction.path is PredictionPath.LOOP_ON_GPU else "a GPU"
    return f"Traced here: {prediction.path}, at batch sizes {sizes}; nothing ran on {others}."


def _untraced(run: FitsRun) -> list[str]:
    details = (one.details for one in run.trials if one.details)
    ended = (one.trace.why_ended for one in details if one.trace and one.trace.why_ended)
    return [f"Not all was traced: {why}." for why in ended]


def _memory_basis(prediction: DevicePrediction) -> str:
    doubts = count_text(len(prediction.doubts), "doubt")
    because = f", with {doubts} (below)" if prediction.doubts else ""
    return (
        "Memory: the traced allocations at each batch size, replayed by the rules of torch's allocator; "
        f"margin {prediction.margin:.0%} either way{because}."
    )


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
            has_bounds = known.source.startswith("assumed")  # with its bounds
            lines.append(f"{name.capitalize()}{of}: {'' if has_bounds else f'{size}, '}{known.source}.")
    return lines


def _ids_text(ids: list[str]) -> str:
    return ", ".join(ids) if len(ids) <= _MOST_NAMED else f"{len(ids)} GPUs"


def _rates(prediction: DevicePrediction) -> str:
    factor = prediction.speed_factor
    here = "" if factor is None else f", times {factor:.2f} as measured on the GPU here"
    return (
        f"Compute: a roofline model of each traced op{here}, +-{ERROR:.0%}; memory layout, fusion and "
        "torch.compile are not modelled."
    )


def _loader(run: FitsRun, prediction: DevicePrediction) -> str:
    measured, cpus = prediction.loader_measured, prediction.loader_cpus
    seen = next(
        (one.measurement or one.dry for one in reversed(run.trials) if one.measurement or one.dry), None
    )
    isolated = seen.details.floors if seen and seen.details else None
    if measured is None or cpus is None:
        why = f" ({isolated.why_not})" if isolated and isolated.why_not else ""
        alone = "; there by a batch's cost here" if any(fit.loader for fit in prediction.fits) else ""
        but = "" if alone else ", so samples/s are those of compute alone"
        return f"Loader: n/a here{why}{alone}{but}."
    workers = "" if seen is None else f" with {count_text(seen.loop.num_workers, 'worker')}"
    return (
        f"Loader: {rate_text(measured)} samples/s{workers} on {count_text(cpus, 'CPU')}, measured here; "
        "there by a batch's cost here, with one worker per vCPU and at most one per batch of an epoch, each "
        f"as fast as a CPU here, down to half{_loader_wait_text(isolated)}."
    )


def _loader_wait_text(isolated: IsolatedRates | None) -> str:
    """Return why the loader's range is wide, where its processes had no CPU for most of a batch."""
    work = isolated.loader_work if isolated else None
    share = work.cpu_share if work else None
    if share is None or share >= _BUSY_SHARE:
        return ""
    return f", and less where batches wait {1 - share:.0%} of their time, as here, for storage or busy CPUs"
