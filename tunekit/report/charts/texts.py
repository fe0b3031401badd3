"""What a chart writes beside its points. Pure."""

from tunekit.plain_text import printable
from tunekit.records.interval import Interval
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.report.charts.chart import Point
from tunekit.report.text import config_text, interval_text, is_too_wide

_MOST_LETTERS = 200
"""Of a failure's reason: the rest stands in the table of trials."""


def trial_note(record: TrialRecord) -> str:
    """Return which trial it was, and its config."""
    role = record.role.value if record.round is None else f"{record.role.value} {record.round + 1}"
    own = " (baseline)" if record.is_baseline_config and record.role.value != "baseline" else ""
    early = ", given up early as too slow" if record.is_abandoned else ""
    return f"trial {record.number}, {role}{own}{early}: {config_text(record.config)}"


def failure_text(record: TrialRecord) -> str:
    """Return why a trial has no figure; "refused" for one that was not run."""
    assert record.failure is not None
    kind, message = record.failure.kind, printable(record.failure.message)
    if len(message) > _MOST_LETTERS:
        message = f"{message[: _MOST_LETTERS - 3]}..."
    return f"{'refused' if kind is OutcomeKind.REFUSED else kind.value}: {message}"


def is_refused(record: TrialRecord) -> bool:
    """Return whether a trial was not run, for it would not fit."""
    return record.failure is not None and record.failure.kind is OutcomeKind.REFUSED


def rate_point(x: float | str, rate: Interval, note: str = "") -> Point:
    """Return samples/s with their range; a range that says nothing is not drawn."""
    has_range = rate.low < rate.high and not is_too_wide(rate)
    return Point(
        x=x,
        y=rate.value,
        text=interval_text(rate, " samples/s"),
        low=rate.low if has_range else None,
        high=rate.high if has_range else None,
        note=note,
    )
