"""The three choices, defined once: cheapest, balanced, fastest. Pure.

Each is the best of all ways by one figure, so a limit only filters: what holds it stays what it was.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from tunekit.records.plan import ChoiceKind

BALANCED_COST = 2.0
"""Times the dollars of the cheapest, limits or not, that a balanced choice costs at the most."""
SOON_H = 1.0
"""Machines that are done by then are equally fast: they are rented by the hour, and have to be set up."""

_Way = TypeVar("_Way")


class Figures(NamedTuple):
    """What a way takes, by the expected figures."""

    hours: float
    """By the calendar, `SOON_H` for each machine that is set up at the least."""
    usd: float | None
    """Really paid; None where that is not known."""


def stand_out(
    ways: Sequence[_Way], figures: Callable[[_Way], Figures], holds: Callable[[_Way], bool] = lambda _: True
) -> dict[ChoiceKind, _Way]:
    """Return what stands out of the ways that hold the limits; a choice that none qualifies for is left out.

    Cheapest has the least dollars, fastest the least hours, balanced the least product of the two at up to
    `BALANCED_COST` times the least dollars that there are without limits: it takes twice the speed for less
    than twice the money. Beside a free way, balanced is one of those that are faster. Ties go to the other
    figure, then to the earlier way.

    Args:
        ways: all of them.
        figures: of a way.
        holds: whether a way holds the limits.
    """
    known = [(one, *figures(one)) for one in ways]
    priced = [(one, hours, usd) for one, hours, usd in known if usd is not None]
    found: dict[ChoiceKind, _Way] = {}
    if priced:
        cheap = [entry for entry in priced if holds(entry[0])]
        if cheap:
            found[ChoiceKind.CHEAPEST] = min(cheap, key=lambda entry: (entry[2], entry[1]))[0]
        _, least_h, least_usd = min(priced, key=lambda entry: (entry[2], entry[1]))
        # Times nothing, everything that is free is equal: what costs dollars has to be faster than that.
        worth_it = priced if least_usd else [entry for entry in priced if entry[1] < least_h]
        most_usd = BALANCED_COST * min((entry[2] for entry in worth_it), default=0.0)
        affordable = [entry for entry in worth_it or priced if entry[2] <= most_usd and holds(entry[0])]
        if affordable:
            found[ChoiceKind.BALANCED] = min(
                affordable, key=lambda entry: (entry[1] * entry[2], entry[2], entry[1])
            )[0]
    fast = [entry for entry in known if holds(entry[0])]
    if fast:
        found[ChoiceKind.FASTEST] = min(
            fast, key=lambda entry: (entry[1], entry[2] is None, entry[2] or 0.0)
        )[0]
    return found
