"""Figures of planned machines as text, the same in a plan and in its milestones. Pure."""

from collections.abc import Callable
from dataclasses import replace

from tunekit.records.interval import Interval
from tunekit.records.plan import PlanRequest, PlanRow, RateSource
from tunekit.report.blocks import Table
from tunekit.report.text import UNKNOWN, taken_text
from tunekit.units import digits_text, duration_text, hours_text, rate_text, usd_text

FigureText = Callable[[float | None], str]
"""How a figure is written."""

PREDICTED_MARK = "~"
_STALE_MARK, _MAY_NOT_FIT_MARK, _DOES_NOT_FIT_MARK = "*", "?", "!"
_MARKS = {
    PREDICTED_MARK: "predicted",
    _STALE_MARK: "stale price",
    _MAY_NOT_FIT_MARK: "may not fit its memory",
    _DOES_NOT_FIT_MARK: "does not fit it",
}
_HOURS = " h"
_FREE = "free"


def with_legend(table: Table) -> Table:
    """Return a table whose title explains the marks in its cells."""
    cells = "".join(cell for row in table.rows for cell in row)
    legend = ", ".join(f"{mark} {meaning}" for mark, meaning in _MARKS.items() if mark in cells)
    return replace(table, title=f"{table.title} ({legend})") if legend else table


def price_text(usd: float | None) -> str:
    """Return what has to be paid."""
    return _FREE if usd == 0 else usd_text(usd)


def whole_text(count: float | None) -> str:
    """Return a number of whole things, such as sessions."""
    return UNKNOWN if count is None else f"{count:,.0f}"


def ends_text(interval: Interval, text: FigureText) -> str:
    """Return "LOW to HIGH"; nothing where both read the same."""
    low, high = text(interval.low), text(interval.high)
    if high.endswith(_HOURS):
        low = low.removesuffix(_HOURS)
    return "" if low == high.removesuffix(_HOURS) else f"{low} to {high}"


def figure_text(
    interval: Interval | None, text: FigureText, is_predicted: bool = False, unit: str = ""
) -> str:
    """Return "MIDDLE (LOW to HIGH)", without the range where it reads the same, and marked if predicted."""
    if interval is None:
        return UNKNOWN
    figure, ends = text(interval.value), ends_text(interval, text)
    mark = PREDICTED_MARK * (is_predicted and figure not in (UNKNOWN, _FREE))
    return f"{mark}{figure}{unit}{f' ({ends})' if ends else ''}"


def dollars_text(row: PlanRow, on_spot: bool) -> str:
    """Return the dollars of the training on a machine, marked where its price is stale."""
    usd, is_stale = (row.usd_spot, row.is_spot_stale) if on_spot else (row.usd_on_demand, row.is_stale)
    text = figure_text(usd, price_text, on_spot or row.how is RateSource.PREDICTED)
    return text + _STALE_MARK * (is_stale and usd is not None)


def machine_name(row: PlanRow) -> str:
    """Return provider and instance, or what stands for them."""
    if row.is_measured_machine:
        return "(as measured)"
    return "(no offer known)" if row.instance is None else f"{row.provider} {row.instance}"


def gpus_text(row: PlanRow) -> str:
    """Return number and model of its GPUs, marked where their memory is too small or may be."""
    mark = _DOES_NOT_FIT_MARK if row.fits is False else _MAY_NOT_FIT_MARK if row.may_not_fit else ""
    return f"{row.gpus}x {row.profile_id}{mark}"


def rate_basis(asked: PlanRequest) -> str:
    """Return the measured rate, with where it comes from."""
    rate = figure_text(asked.rate_samples_per_s, rate_text, unit=" samples/s")
    assumed = ", assumed" if asked.precision_is_assumed else ""
    return f"{rate} in {asked.precision}{assumed} ({asked.source}).{taken_text(asked.taken_names)}"


def machine_remarks(asked: PlanRequest, row: PlanRow, on_spot: bool) -> str:
    """Return what else there is to know of a machine; nothing where there is nothing.

    Args:
        asked: the training.
        row: the machine.
        on_spot: whether at its spot price.
    """
    parts = []
    if row.precision is not asked.precision:
        parts.append(f"in {row.precision}")
    if row.sessions is not None and row.sessions.high > 1:
        longest = duration_text(row.max_session_s or asked.assumptions.max_session_s)
        weeks = ""
        if row.weeks is not None:
            weeks = f" over {figure_text(row.weeks, whole_text)} weeks of {row.hours_per_week:g} h"
        parts.append(f"{figure_text(row.sessions, whole_text)} sessions of up to {longest}{weeks}")
    if row.checkpoint_interval_s is not None and (on_spot or row.sessions is not None):
        parts.append(f"a checkpoint every {_checkpoint_text(asked, row, row.checkpoint_interval_s)}")
    if bought := _purchase_text(row):
        parts.append(bought)
    return "; ".join([*parts, *_warnings(asked, row, on_spot)])


def _warnings(asked: PlanRequest, row: PlanRow, on_spot: bool) -> list[str]:
    """Return what speaks against booking a machine by its figures alone."""
    parts = []
    hours, is_stale = (row.spot_hours, row.is_spot_stale) if on_spot else (row.hours, row.is_stale)
    if asked.max_hours is not None and hours is not None and hours.high > asked.max_hours:
        parts.append(f"up to {hours_text(hours.high)}, beyond --max-hours {asked.max_hours:,g}")
    if is_stale and (row.usd_spot if on_spot else row.usd_on_demand) is not None:
        parts.append(f"price of {row.spot_as_of if on_spot else row.price_as_of}")
    if row.may_not_fit:
        parts.append("its memory may be too small")
    rate = row.rate_samples_per_s
    if rate is not None and row.is_loader_bound:
        unknown = "loader speed unknown, assuming the measured rate"
        bound = unknown if row.loader_is_assumed else "loader-bound"
        parts.append(f"{bound}, GPUs {row.gpu_busy:.0%} busy")
    elif rate is not None and row.how is RateSource.PREDICTED and rate.value > asked.rate_samples_per_s.value:
        needed = ends_text(rate, rate_text) or rate_text(rate.value)
        parts.append(f"needs {needed} samples/s from the loader")
    return parts


def _checkpoint_text(asked: PlanRequest, row: PlanRow, interval_s: float) -> str:
    """Return the time between two checkpoints, in steps where these are known, and in epochs."""
    samples = interval_s * (row.rate_samples_per_s or asked.rate_samples_per_s).value
    steps = ""
    if asked.samples_per_step is not None:  # each GPU keeps its batch
        steps = f"{max(1.0, samples / asked.samples_per_step * asked.measured_gpus / row.gpus):,.0f} steps, "
    epochs = samples / asked.samples_per_epoch
    few = rate_text(epochs) if epochs >= 0.1 else digits_text(epochs, ".1g")
    return f"{duration_text(interval_s)} ({steps}{few} epochs)"


def _purchase_text(row: PlanRow) -> str:
    """Return what a notebook's units are bought as, beside what they are worth; nothing elsewhere."""
    units, bought = row.compute_units, row.purchase
    if units is None or bought is None:
        return ""
    counts = bought.count(units)
    count = ends_text(counts, whole_text) or whole_text(counts.value)
    of = f"months of {bought.name}" if bought.is_monthly else f"packs of {bought.units:g}"
    worth = f" ({usd_text(row.usd_of_units.value)})" if row.usd_of_units else ""
    return f"{rate_text(units.value)} units{worth}, sold as {count} {of} at {usd_text(bought.usd)}"
