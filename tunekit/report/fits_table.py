"""The table of what fits which GPU: a row for each, and its figures. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tunekit.plain_text import printable
from tunekit.records.config import Precision
from tunekit.records.fits import AskedBatch, FitsRun, GpuFacts, Verdict
from tunekit.records.interval import Interval
from tunekit.records.prediction import DevicePrediction, PredictedFit
from tunekit.report.columns import Column
from tunekit.report.memory_bar import memory_bar
from tunekit.report.text import UNKNOWN
from tunekit.units import GIB, short_rate_text

ABSENT = "-"
OTHER, UNKNOWN_LOADER = "*", "?"
HALVES = (Precision.BF16, Precision.FP16)
CAPACITY, LARGEST, RATE, BOUND = "GiB", "batch, ", "samples/s", "bound by"
BAR, BAR_WIDTH = "memory at the peak", 24


@dataclass(frozen=True)
class Row:
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


_Figure = Callable[[Row], str]


def fits_rows(run: FitsRun, prediction: DevicePrediction) -> list[Row]:
    """Return a row for each GPU, by memory and then by rate."""
    rows = []
    for facts in run.gpus:
        own = [fit for fit in prediction.fits if fit.profile_id == facts.profile_id]
        if not own:
            continue
        is_here = facts.profile_id == run.measured_on
        rows.append(
            Row(
                name=facts.profile_id + (" (here)" if is_here else ""),
                facts=facts,
                whole=next((fit for fit in own if fit.precision not in HALVES), None),
                half=next((fit for fit in own if fit.precision in HALVES), None),
                asked=tuple(one for one in run.asked if one.profile_id == facts.profile_id),
            )
        )
    return sorted(rows, key=lambda row: (row.shown.capacity_bytes, _middle_rate(row), row.name))


def _middle_rate(row: Row) -> float:
    rate = row.shown.rate
    return 0.0 if rate is None else rate.value


def by_kind(every: Sequence[PredictedFit]) -> list[tuple[str, list[PredictedFit]]]:
    """Return the fits in 32 bit, then in 16 bit, each with the precision that was traced."""
    whole = [fit for fit in every if fit.precision not in HALVES]
    half = [fit for fit in every if fit.precision in HALVES]
    return [(main_precision(fits), fits) for fits in (whole, half) if fits]


def main_precision(fits: Iterable[PredictedFit]) -> str:
    """Return the precision that was traced: fp32 and fp16 stand in for TF32 and bf16 where a GPU has none."""
    found = {fit.precision for fit in fits}
    order = (Precision.TF32, Precision.BF16, Precision.FP32, Precision.FP16)
    return str(next(one for one in order if one in found))


# --- its columns ---------------------------------------------------------------------------


def fits_columns(run: FitsRun, prediction: DevicePrediction) -> list[Column[Row]]:
    """Return every column; where a batch was asked for, what is told of it stays longest."""
    kinds = by_kind(prediction.fits)
    is_asked = run.options.batch_size is not None
    columns: list[Column[Row]] = [
        Column("GPU", lambda row: printable(row.name), is_numeric=False),
        Column(CAPACITY, lambda row: f"{row.shown.capacity_bytes / GIB:.1f}", drop=4),
    ]
    for what, fits in kinds:
        figure = _largest_of(what, fits, prediction)
        columns.append(Column(f"{LARGEST}{what}", figure, drop=2 if is_asked else 0))
    if is_asked:
        for what, fits in kinds:
            columns.append(Column(f"{run.batch_size}, {what}", _verdict_of(_is_half(fits))))
    are_known = not has_unknown_loader(prediction)
    if any(one.rate is not None for one in run.asked):
        columns.append(Column(asked_rate_title(run), _asked_rate_of(are_known), drop=1 if is_asked else 2))
    columns += [
        Column(RATE, _rate_of(are_known), drop=3),
        Column(BOUND, bound_text, is_numeric=False, drop=5),
        Column("vCPUs", _vcpus_text, drop=6, is_optional=True),
        Column(BAR, lambda row: bar_of(row, BAR_WIDTH), is_numeric=False, drop=7, is_optional=True),
        Column("machine", _machine_text, is_numeric=False, drop=8, is_optional=True),
    ]
    return columns


def has_unknown_loader(prediction: DevicePrediction) -> bool:
    """Return whether a rate is of the GPU alone, as the loader of its usual machine is not known."""
    return any(fit.rate is not None and fit.loader is None for fit in prediction.fits)


def _is_half(fits: Sequence[PredictedFit]) -> bool:
    return fits[0].precision in HALVES


def _largest_of(what: str, fits: Sequence[PredictedFit], prediction: DevicePrediction) -> _Figure:
    """Return what draws the largest batch in a precision, marked where the GPU has another in its place."""
    is_half, has_others = _is_half(fits), len({fit.precision for fit in fits}) > 1

    def text(row: Row) -> str:
        fit = row.half if is_half else row.whole
        mark = "" if not has_others else OTHER if fit and str(fit.precision) != what else " "
        return (ABSENT if fit is None else _largest_text(fit, prediction)) + mark

    return text


def _largest_text(fit: PredictedFit, prediction: DevicePrediction) -> str:
    """Return the largest batch, "all 50,000" where memory holds every sample of an epoch."""
    low, high = fit.largest.low, fit.largest.high
    if not high:
        return "nothing fits"
    trusted = trusted_text(fit, prediction)
    if low == high or prediction.has_whole_epoch(low):
        return trusted
    most = "all" if prediction.has_whole_epoch(high) else _count(high)
    return f"{trusted} (to {most})"


def trusted_text(fit: PredictedFit, prediction: DevicePrediction) -> str:
    """Return the batch that is told of, 0 where none is."""
    is_all = prediction.has_whole_epoch(fit.batch_size)
    return all_text(fit.batch_size) if is_all else _count(fit.batch_size)


def all_text(samples: int) -> str:
    """Return a batch of all samples of an epoch, such as "all 50,000"."""
    return f"all {samples:,}"


def _count(samples: int) -> str:
    """Return a batch size as it is typed, from 100,000 on in thousands or millions, cut off."""
    if samples < 100_000:
        return str(samples)
    return f"{samples // 1000}k" if samples < 1_000_000 else f"{samples // 10_000 / 100:.2f}M"


def _verdict_of(is_half: bool) -> _Figure:
    """Return what draws whether the batch that was asked for fits: "yes 12.1/19.5" in GiB."""

    def text(row: Row) -> str:
        found = (one for one in row.asked if (one.precision in HALVES) == is_half)
        one = next(found, None)
        if one is None:
            return ABSENT
        room = one.most_bytes if one.verdict is Verdict.NO else one.least_bytes
        return f"{one.verdict} {one.reserved_bytes / GIB:.1f}/{room / GIB:.1f}"

    return text


def asked_rate_title(run: FitsRun) -> str:
    """Return the title of the rates at the batch that was asked for, else the script's own."""
    return f"{RATE} at {run.batch_size}"


def _asked_rate_of(are_known: bool) -> _Figure:
    """Return what draws the rate at that batch, in the row's precision."""

    def text(row: Row) -> str:
        one = next((one for one in row.asked if one.precision is row.shown.precision), None)
        if one is None or one.verdict is Verdict.NO:
            return ABSENT + _mark(are_known, True)
        return _range_text(one.rate) + _mark(are_known, one.loader is not None or one.rate is None)

    return text


def _rate_of(are_known: bool) -> _Figure:
    """Return what draws the rate at the batch to trust."""

    def text(row: Row) -> str:
        fit = row.shown
        if fit.peak is None:
            return ABSENT + _mark(are_known, True)
        return _range_text(fit.rate) + _mark(are_known, fit.loader is not None or fit.rate is None)

    return text


def _mark(are_known: bool, is_known: bool) -> str:
    """Return the mark of a rate without a loader, blank beside those that have one where not all have."""
    return "" if are_known else " " if is_known else UNKNOWN_LOADER


def _range_text(rate: Interval | None) -> str:
    return UNKNOWN if rate is None else f"{short_rate_text(rate.low)} to {short_rate_text(rate.high)}"


def bound_text(row: Row) -> str:
    """Return what holds the rate down; "either" where compute and loader are too close to tell."""
    fit = row.shown
    if fit.bound_by is None or fit.bound_by == "VRAM":
        return fit.bound_by or UNKNOWN
    if fit.loader is None or fit.compute is None:
        return f"{fit.bound_by}{UNKNOWN_LOADER}"
    overlap = fit.loader.low <= fit.compute.high and fit.compute.low <= fit.loader.high
    return "either" if overlap else fit.bound_by


def _vcpus_text(row: Row) -> str:
    if row.shown.peak is None:
        return ABSENT
    if row.shown.instance is None or row.facts.vcpus is None:
        return UNKNOWN
    return f"{row.facts.vcpus:g}"


def _machine_text(row: Row) -> str:
    return ABSENT if row.shown.peak is None else printable(row.shown.instance or UNKNOWN)


def bar_of(row: Row, width: int) -> str:
    """Return the memory at the peak of the batch to trust, in so many letters."""
    return memory_bar(row.shown, row.facts.outside, width)
