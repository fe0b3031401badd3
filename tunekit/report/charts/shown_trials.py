"""Which trials of a long search a chart has room for. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tunekit.records.trial import TrialRecord

_One = TypeVar("_One")

MOST_MEASURED = 400
MOST_FAILED = 200


@dataclass(frozen=True)
class ShownTrials:
    """The trials that are drawn, in their order."""

    measured: tuple[TrialRecord, ...]
    failed: tuple[TrialRecord, ...]
    """Refused ones among them."""
    left_out: str
    """How many are not drawn, as a sentence that follows another; empty if all are."""


def shown_trials(
    records: Sequence[TrialRecord], most_measured: int = MOST_MEASURED, most_failed: int = MOST_FAILED
) -> ShownTrials:
    """Return the trials to draw: all if there is room, else evenly over the search, the best among them.

    Args:
        records: of the run, in their order.
        most_measured: measured trials that there is room for; at least 2.
        most_failed: failed ones; at least 2.
    """
    measured = [one for one in records if one.measurement is not None]
    failed = [one for one in records if one.measurement is None]
    kept, kept_failed = evenly(measured, most_measured), evenly(failed, most_failed)
    if len(kept) < len(measured):
        best = max(measured, key=lambda one: one.rate_samples_per_s or 0.0)
        if all(one is not best for one in kept):
            nearest = min(range(1, len(kept)), key=lambda place: abs(kept[place].number - best.number))
            kept[nearest] = best
    hidden = [
        f"{len(whole) - len(part):,} of {len(whole):,} {what} trials"
        for what, whole, part in (("measured", measured, kept), ("failed", failed, kept_failed))
        if len(part) < len(whole)
    ]
    left_out = f" Not drawn, for want of room: {' and '.join(hidden)}." if hidden else ""
    return ShownTrials(_in_order(kept, measured), tuple(kept_failed), left_out)


def evenly(items: Sequence[_One], most: int) -> list[_One]:
    """Return at most so many items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def _in_order(kept: Sequence[TrialRecord], measured: Sequence[TrialRecord]) -> tuple[TrialRecord, ...]:
    chosen = {id(one) for one in kept}
    return tuple(one for one in measured if id(one) in chosen)
