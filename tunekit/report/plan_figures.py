"""Figures of planned machines as text, the same in a plan and in its milestones. Pure."""

from collections.abc import Callable

from tunekit.plain_text import printable
from tunekit.records.interval import Interval
from tunekit.records.plan import PlanRequest, PlanRow
from tunekit.report.text import UNKNOWN
from tunekit.units import digits_text, duration_text, rate_text, usd_text

FigureText = Callable[[float | None], str]
"""How a figure is written."""

PREDICTED_MARK = "~"
STALE_MARK = "*"
MAY_NOT_FIT_MARK = "?"
DOES_NOT_FIT_MARK = "!"
_HOURS = " h"
_FREE = "free"


def price_text(usd: float | None) -> str:
    """Return what has to be paid."""
    return _FREE if usd == 0 else usd_text(usd)


def few_text(count: float) -> str:
    """Return a number of epochs, that may be far below one."""
    return rate_text(count) if count >= 0.1 else digits_text(count, ".1g")


def whole_text(count: float | None) -> str:
    """Return a number of whole things, such as sessions."""
    return UNKNOWN if count is None else f"{count:,.0f}"


def middle_text(interval: Interval | None, text: FigureText) -> str:
    """Return an expected figure."""
    return UNKNOWN if interval is None else text(interval.value)


def ends_text(interval: Interval | None, text: FigureText) -> str:
    """Return "LOW to HIGH"; nothing where both read the same."""
    if interval is None:
        return ""
    low, high = text(interval.low), text(interval.high)
    if high.endswith(_HOURS):
        low = low.removesuffix(_HOURS)
    return "" if low == high.removesuffix(_HOURS) else f"{low} to {high}"


def range_text(interval: Interval | None, text: FigureText, unit: str = "") -> str:
    """Return "MIDDLE (LOW to HIGH)", without the range where it reads the same."""
    ends = ends_text(interval, text)
    return middle_text(interval, text) + unit + (f" ({ends})" if ends else "")


def figure_text(interval: Interval | None, text: FigureText, is_predicted: bool) -> str:
    """Return an expected figure with its mark."""
    figure = middle_text(interval, text)
    return PREDICTED_MARK + figure if is_predicted and figure not in (UNKNOWN, _FREE) else figure


def starred(text: str, is_stale: bool) -> str:
    """Return a price with its mark, or with the mark's place so that figures stand below each other."""
    return text + (STALE_MARK if is_stale and text != UNKNOWN else " ")


def machine_name(row: PlanRow) -> str:
    """Return provider and instance, or what stands for them."""
    if row.is_measured_machine:
        return "(as measured)"
    return "(no offer known)" if row.instance is None else printable(f"{row.provider} {row.instance}")


def gpus_text(row: PlanRow) -> str:
    """Return number and model of its GPUs."""
    return printable(f"{row.gpus}x {row.profile_id}")


def marked_gpus(row: PlanRow) -> str:
    """Return number and model of its GPUs, marked where their memory is too small or may be."""
    return gpus_text(row) + (
        DOES_NOT_FIT_MARK if row.fits is False else MAY_NOT_FIT_MARK if row.may_not_fit else ""
    )


def weeks_text(weeks: Interval) -> str:
    """Return calendar weeks, with their range."""
    return f"{range_text(weeks, whole_text)} week{'s' if weeks.high > 1 else ''}"


def checkpoint_text(asked: PlanRequest, row: PlanRow, interval_s: float) -> str:
    """Return the time between two checkpoints, in steps where these are known, and in epochs."""
    rate = row.rate_samples_per_s
    if rate is None:
        return duration_text(interval_s)
    samples = interval_s * rate.value
    epochs = samples / asked.samples_per_epoch
    if asked.samples_per_step is None:
        return f"{duration_text(interval_s)} ({few_text(epochs)} epochs; steps: give --batch)"
    # Each GPU keeps its batch.
    steps = samples / asked.samples_per_step * asked.measured_gpus / row.gpus
    return f"{duration_text(interval_s)} ({max(1.0, steps):,.0f} steps, {few_text(epochs)} epochs)"


def purchase_text(row: PlanRow) -> str:
    """Return what a notebook's units are bought as, beside what they are worth; nothing elsewhere."""
    units, bought = row.compute_units, row.purchase
    if units is None or bought is None:
        return ""
    counts = bought.count(units)
    count = ends_text(counts, whole_text) or whole_text(counts.value)
    many = "s" if counts.high > 1 else ""
    of = f"month{many} of {bought.name}" if bought.is_monthly else f"pack{many} of {bought.units:g}"
    worth = f" ({usd_text(row.usd_of_units.value)})" if row.usd_of_units else ""
    return f"{rate_text(units.value)} units{worth}, sold as {count} {of} at {usd_text(bought.usd)}"
