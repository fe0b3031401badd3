"""Everything that is shown of what fits which GPU, computed once. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tunekit.records.config import Precision
from tunekit.records.finding import Severity
from tunekit.records.fits import AskedBatch, FitsRun, GpuFacts, Verdict
from tunekit.records.prediction import DevicePrediction, PredictedFit
from tunekit.records.run import RunStatus
from tunekit.report.columns import Column, fitted_table
from tunekit.report.commands import command_text
from tunekit.report.fits_basis import basis_lines
from tunekit.report.memory_bar import legend_text, memory_bar
from tunekit.report.table import Passage, Table
from tunekit.report.text import UNKNOWN, Note, printable
from tunekit.units import GIB, count_text, rate_text

ABSENT = "-"
_OTHER = "*"
_HALVES = (Precision.BF16, Precision.FP16)
_BAR, _BAR_WIDTH, _LEAST_BAR = "memory at the peak", 24, 20
_MOST_BARS = 8
"""GPUs whose bars are worth a table of their own."""


@dataclass(frozen=True)
class FitsView:
    """What is shown of a prediction, in its order."""

    answer: str
    parts: tuple[Table | Passage, ...]
    notes: tuple[Note, ...]
    """What may be otherwise on a GPU."""
    next_steps: tuple[str, ...]


@dataclass(frozen=True)
class _Row:
    """One GPU."""

    name: str
    facts: GpuFacts
    whole: PredictedFit | None
    """In fp32 or TF32."""
    half: PredictedFit | None
    """In 16 bit."""
    asked: tuple[AskedBatch, ...]

    @property
    def shown(self) -> PredictedFit:
        """The one that rate and bar are of: in 16 bit where that fits."""
        either = [one for one in (self.half, self.whole) if one is not None]
        return next((one for one in either if one.peak is not None), either[0])


_Figure = Callable[[_Row], str]


def fits_view(run: FitsRun, folder: str = "FOLDER", width: int = 80) -> FitsView:
    """Return everything that is shown of what fits which GPU.

    Args:
        run: as it was saved.
        folder: where it lies.
        width: the terminal's, in letters; the table drops columns to fit.
    """
    prediction = run.prediction
    if prediction is None or not prediction.fits:
        return FitsView(_nothing(run), (), (), ())
    rows = _rows(run, prediction)
    table = fitted_table("What fits which GPU (predicted), by memory", _columns(run, prediction), rows, width)
    return FitsView(
        answer=_answer(run, prediction),
        parts=(
            table,
            Passage("", _below(run, rows, table)),
            *_bars(rows, table, width),
            Passage("How it was predicted", basis_lines(run, prediction)),
        ),
        notes=tuple(Note(Severity.WARNING, printable(one)) for one in prediction.doubts),
        next_steps=_next_steps(run),
    )


def _nothing(run: FitsRun) -> str:
    if run.why_not is not None:
        return printable(f"Nothing can be predicted: {run.why_not}.")
    failed = next((one.failure for one in run.trials if one.failure is not None), None)
    if failed is not None:
        return printable(f"Nothing was predicted: the script failed ({failed.kind}): {failed.message}.")
    why = "it was interrupted" if run.status is RunStatus.INTERRUPTED else f"status: {run.status}"
    return f"Nothing was predicted yet ({why})."


def _rows(run: FitsRun, prediction: DevicePrediction) -> list[_Row]:
    """Return a row for each GPU, by memory and then by rate."""
    rows = []
    for facts in run.gpus:
        own = [fit for fit in prediction.fits if fit.profile_id == facts.profile_id]
        if not own:
            continue
        is_here = facts.profile_id == run.measured_on
        rows.append(
            _Row(
                name=facts.profile_id + (" (here)" if is_here else ""),
                facts=facts,
                whole=next((fit for fit in own if fit.precision not in _HALVES), None),
                half=next((fit for fit in own if fit.precision in _HALVES), None),
                asked=tuple(one for one in run.asked if one.profile_id == facts.profile_id),
            )
        )
    return sorted(rows, key=lambda row: (row.shown.capacity_bytes, _middle_rate(row), row.name))


def _middle_rate(row: _Row) -> float:
    rate = row.shown.rate
    return 0.0 if rate is None else rate.value


# --- the answer ----------------------------------------------------------------------------


def _answer(run: FitsRun, prediction: DevicePrediction) -> str:
    """Return on how many GPUs the batch fits that was asked for, else the script's own."""
    own = next((trial.config for trial in run.trials if trial.config is not None), None)
    asked = run.options.batch_size
    batch = asked or (own.batch_size if own else None)
    if batch is None:
        return f"What fits {count_text(len({fit.profile_id for fit in prediction.fits}), 'GPU')}: predicted."
    name = f"Batch {batch}" if asked else f"Your batch of {batch}"
    first, *rest = (_fitting(fits, batch) for _, fits in _by_kind(prediction.fits))
    return f"{name} surely fits {', '.join([first.replace(' in ', ' GPUs in ', 1), *rest])} (predicted)."


def _by_kind(every: Sequence[PredictedFit]) -> list[tuple[str, list[PredictedFit]]]:
    """Return the fits in 32 bit, then in 16 bit, each with the precision that was traced."""
    whole = [fit for fit in every if fit.precision not in _HALVES]
    half = [fit for fit in every if fit.precision in _HALVES]
    return [(_main(fits), fits) for fits in (whole, half) if fits]


def _fitting(fits: Sequence[PredictedFit], batch: int) -> str:
    """Return on how many GPUs a batch fits, such as "3 of 7 in bf16 or fp16, and perhaps 1 more"."""
    surely = sum(batch <= fit.largest.low for fit in fits)
    tight = sum(fit.largest.low < batch <= fit.largest.high for fit in fits)
    main = _main(fits)
    what = " or ".join(sorted({str(fit.precision) for fit in fits}, key=lambda name: (name != main, name)))
    return f"{surely} of {len(fits)} in {what}" + (f" (perhaps {tight} more)" if tight else "")


def _main(fits: Iterable[PredictedFit]) -> str:
    """Return the precision that was traced: fp32 and fp16 stand in for TF32 and bf16 where a GPU has none."""
    found = {fit.precision for fit in fits}
    order = (Precision.TF32, Precision.BF16, Precision.FP32, Precision.FP16)
    return str(next(one for one in order if one in found))


# --- the table -----------------------------------------------------------------------------


def _columns(run: FitsRun, prediction: DevicePrediction) -> list[Column[_Row]]:
    columns: list[Column[_Row]] = [
        Column("GPU", lambda row: printable(row.name), is_numeric=False),
        Column("GiB", lambda row: f"{row.shown.capacity_bytes / GIB:.1f}", drop=2),
    ]
    kinds = _by_kind(prediction.fits)
    for what, fits in kinds:
        columns.append(Column(f"batch, {what}", _largest_of(what, _is_half(fits), _has_others(fits))))
    if run.options.batch_size is not None:
        for what, fits in kinds:
            columns.append(Column(f"{run.options.batch_size}, {what}", _verdict_of(_is_half(fits))))
    columns += [
        Column("samples/s", _rate_text, drop=3),
        Column("bound by", _bound_text, is_numeric=False, drop=4),
        Column("vCPUs", _vcpus_text, drop=5, is_optional=True),
        Column(_BAR, lambda row: _bar(row, _BAR_WIDTH), is_numeric=False, drop=6, is_optional=True),
        Column("machine", _machine_text, is_numeric=False, drop=7, is_optional=True),
    ]
    return columns


def _is_half(fits: Sequence[PredictedFit]) -> bool:
    return fits[0].precision in _HALVES


def _has_others(fits: Sequence[PredictedFit]) -> bool:
    return len({fit.precision for fit in fits}) > 1


def _largest_of(what: str, is_half: bool, has_others: bool) -> _Figure:
    """Return what draws the largest batch in a precision, marked where the GPU has another in its place."""

    def text(row: _Row) -> str:
        fit = row.half if is_half else row.whole
        mark = "" if not has_others else _OTHER if fit and str(fit.precision) != what else " "
        return (ABSENT if fit is None else _largest_text(fit)) + mark

    return text


def _largest_text(fit: PredictedFit) -> str:
    low, high = fit.largest.low, fit.largest.high
    if not high:
        return "nothing fits"
    return _count(low) if low == high else f"{_count(low)} (to {_count(high)})"


def _count(samples: int) -> str:
    """Return a batch size as it is typed, from 100,000 on in millions, cut off."""
    return str(samples) if samples < 100_000 else f"{samples // 10_000 / 100:.2f}M"


def _verdict_of(is_half: bool) -> _Figure:
    """Return what draws whether the batch that was asked for fits: "yes 12.1/19.5" in GiB."""

    def text(row: _Row) -> str:
        found = (one for one in row.asked if (one.precision in _HALVES) == is_half)
        one = next(found, None)
        if one is None:
            return ABSENT
        room = one.most_bytes if one.verdict is Verdict.NO else one.least_bytes
        return f"{one.verdict} {one.reserved_bytes / GIB:.1f}/{room / GIB:.1f}"

    return text


def _rate_text(row: _Row) -> str:
    rate = row.shown.rate
    if row.shown.peak is None:
        return ABSENT
    return UNKNOWN if rate is None else f"{rate_text(rate.low)} to {rate_text(rate.high)}"


def _bound_text(row: _Row) -> str:
    """Return what holds the rate down; "either" where compute and loader are too close to tell."""
    fit = row.shown
    if fit.bound_by is None or fit.bound_by == "VRAM":
        return fit.bound_by or UNKNOWN
    if fit.loader is None or fit.compute is None:
        return f"{fit.bound_by}?"
    overlap = fit.loader.low <= fit.compute.high and fit.compute.low <= fit.loader.high
    return "either" if overlap else fit.bound_by


def _vcpus_text(row: _Row) -> str:
    if row.shown.peak is None:
        return ABSENT
    if row.shown.instance is None or row.facts.vcpus is None:
        return UNKNOWN
    return f"{row.facts.vcpus:g}"


def _machine_text(row: _Row) -> str:
    return ABSENT if row.shown.peak is None else printable(row.shown.instance or UNKNOWN)


def _bar(row: _Row, width: int) -> str:
    return memory_bar(row.shown, row.facts.outside, width)


# --- below the table -----------------------------------------------------------------------


def _below(run: FitsRun, rows: Sequence[_Row], table: Table) -> tuple[str, ...]:
    """Return how the table is read."""
    lines = ["batch: the one to trust (to the largest that fits if everything is at its best), on one GPU"]
    loop = next((one.measurement.loop for one in run.trials if one.measurement), None)
    samples = loop.epoch_samples if loop else None
    if samples and any(row.shown.largest.low > samples for row in rows):
        lines.append(f"an epoch has {samples:,} samples: no larger batch can be made, however much fits")
    fits = [fit for row in rows for fit in (row.half, row.whole) if fit is not None]
    for what, own in _by_kind(fits):
        others = {str(fit.precision) for fit in own} - {what}
        lines += [f"{_OTHER} {other}: the GPU has no {what}" for other in others]
    if run.options.batch_size is not None:
        lines.append(
            f"{run.options.batch_size}: whether it fits; GiB that torch would reserve, without the margin / "
            "that it surely can have (at best, with no)"
        )
    if "samples/s" in table.columns:
        lines.append(
            "samples/s: of one GPU at the batch to trust, in 16 bit where that is known; bound by the slower "
            "of compute and loader" + _marks(rows)
        )
    if "vCPUs" in table.columns:
        lines.append("vCPUs: a GPU's share of the loader's machine, the cheapest of those with fewest GPUs")
    if _BAR in table.columns:
        lines.append(_bar_text([_bar(row, _BAR_WIDTH) for row in rows]))
    elif len(rows) > _MOST_BARS:
        lines.append("what takes the memory: on a wider terminal, or with --gpu NAME")
    return tuple(lines)


def _marks(rows: Sequence[_Row]) -> str:
    marks = {_bound_text(row) for row in rows}
    told = "; either: too close to tell" if "either" in marks else ""
    return told + ("; ?: the loader there is not known" if any(one.endswith("?") for one in marks) else "")


def _bar_text(bars: Iterable[str]) -> str:
    return f"memory at the peak of that batch: {legend_text(bars)}"


def _bars(rows: Sequence[_Row], table: Table, width: int) -> tuple[Table | Passage, ...]:
    """Return the bars of a few GPUs in a table of their own, where the first has no room for them."""
    having = [row for row in rows if row.shown.peak is not None]
    if _BAR in table.columns or not having or len(rows) > _MOST_BARS:
        return ()
    labels = [
        (printable(row.name), f"{_count(row.shown.largest.low)} {row.shown.precision}") for row in having
    ]
    taken = sum(max(len(label[place]) for label in labels) for place in (0, 1)) + 2 * 2
    bars = [_bar(row, max(_LEAST_BAR, width - taken)) for row in having]
    return (
        Table(
            "Memory at the peak of the batch to trust (predicted)",
            ("", "", ""),
            tuple((*label, bar) for label, bar in zip(labels, bars, strict=True)),
        ),
        Passage("", (legend_text(bars),)),
    )


def _next_steps(run: FitsRun) -> tuple[str, ...]:
    gpu = run.options.gpus[0] if len(run.options.gpus) == 1 else "NAME"
    if run.target.builtin:
        return ("on your own script: tunekit fits -- python train.py",)
    return (
        f"measure it where the GPU is: {command_text('search', run.target, gpu)}",
        "hours and prices from that search: tunekit plan RUN",
    )
