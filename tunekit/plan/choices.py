"""Which machines stand out: the cheapest, the fastest, and the best of both."""

from collections.abc import Sequence
from typing import NamedTuple

from tunekit.records.plan import Choice, ChoiceKind, PlanRow
from tunekit.units import count_text


class _Candidate(NamedTuple):
    """A machine at one of its prices, by expected figures."""

    row: int
    on_spot: bool
    hours: float
    usd: float | None


def choose(rows: Sequence[PlanRow], may_use_spot: bool) -> tuple[Choice, ...]:
    """Return the choices among the machines that can be rented and that nothing known speaks against.

    Cheapest has the least expected dollars, fastest the least expected hours, balanced the least product of
    the two: it takes twice the speed for less than twice the money. Expected is the middle of the interval.
    Ties go to the other figure, then to the earlier row. A choice that no machine qualifies for is left out.
    A GPU that may not hold the training is chosen only where no other GPU qualifies.

    Args:
        rows: the machines.
        may_use_spot: whether a machine may stand at its spot price too, with the hours that it takes there.
    """
    candidates = list(_candidates(rows, may_use_spot))
    priced = [one for one in candidates if one.usd is not None]
    choices = []
    if priced:
        kept, passed_over = _that_hold_it(priced, rows)
        of = f"of {_machines(kept)} with a price{passed_over}"
        cheapest = min(kept, key=lambda one: (one.usd, one.hours, one.row))
        choices.append(_choice(ChoiceKind.CHEAPEST, cheapest, f"least expected dollars {of}"))
        balanced = min(kept, key=lambda one: ((one.usd or 0.0) * one.hours, one.usd, one.row))
        choices.append(_choice(ChoiceKind.BALANCED, balanced, "least dollars x hours"))
    if candidates:
        kept, passed_over = _that_hold_it(candidates, rows)
        fastest = min(kept, key=lambda one: (one.hours, one.usd is None, one.usd or 0.0, one.row))
        of = f"of {_machines(kept)}" + ("" if priced else passed_over)
        choices.append(_choice(ChoiceKind.FASTEST, fastest, f"least expected hours {of}"))
    return tuple(choices)


def _candidates(rows: Sequence[PlanRow], may_use_spot: bool) -> list[_Candidate]:
    found = []
    for index, row in enumerate(rows):
        if not row.can_be_chosen:
            continue
        assert row.hours is not None
        usd = row.usd_on_demand.value if row.usd_on_demand else None
        found.append(_Candidate(index, False, row.hours.value, usd))
        if may_use_spot and row.usd_spot is not None and row.spot_hours is not None:
            found.append(_Candidate(index, True, row.spot_hours.value, row.usd_spot.value))
    return found


def _that_hold_it(candidates: list[_Candidate], rows: Sequence[PlanRow]) -> tuple[list[_Candidate], str]:
    """Return those whose memory is no doubt, or all where there are none, and what was passed over."""
    sure = [one for one in candidates if not rows[one.row].may_not_fit]
    passed_over = [one for one in candidates if rows[one.row].may_not_fit]
    if not sure or not passed_over:
        return candidates, ""
    return sure, f", passing over {_machines(passed_over)} that may have too little memory"


def _choice(kind: ChoiceKind, candidate: _Candidate, reason: str) -> Choice:
    return Choice(kind=kind, row=candidate.row, on_spot=candidate.on_spot, reason=reason)


def _machines(candidates: Sequence[_Candidate]) -> str:
    return count_text(len({one.row for one in candidates}), "machine")
