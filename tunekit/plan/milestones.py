"""Plans a project's milestones, each on its cheapest machine."""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import reduce
from typing import NamedTuple

from tunekit.errors import UsageError
from tunekit.plan.plan import choose, make_plan
from tunekit.records.interval import Interval
from tunekit.records.milestones import Milestone, MilestoneCost, MilestonePlan
from tunekit.records.plan import ChoiceKind, PlanRequest, PlanRow, cheapest_purchase
from tunekit.records.profile import Profile

HERE = "here"
"""The machine that the rate was measured on."""


class Limits(NamedTuple):
    """The limits for all milestones together."""

    max_usd: float | None = None
    deadline: str | None = None
    deadline_h: float | None = None


def plan_milestones(
    request: PlanRequest,
    milestones: Sequence[Milestone],
    profiles: Mapping[str, Profile],
    today: date,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
) -> MilestonePlan:
    """Return the time and cost of milestones, each on its cheapest machine.

    Args:
        request: the training that the milestones vary, with its measured rate.
        milestones: at least one milestone, in the order of their execution.
        profiles: every GPU's profile by id.
        today: the date for judging the age of prices.
        limits: the limits to check the totals against.

    Raises:
        UsageError: no machine can be chosen for a milestone, or it would never end.
    """
    costs = tuple(_cost(request, one, profiles, today) for one in milestones)
    priced = [one.usd for one in costs if one.usd is not None]
    return MilestonePlan(
        made_on=today.isoformat(),
        request=request,
        milestones=costs,
        hours=reduce(Interval.plus, (one.hours for one in costs)),
        usd=reduce(Interval.plus, priced) if priced else None,
        **limits._asdict(),
    )


def _cost(
    request: PlanRequest, one: Milestone, profiles: Mapping[str, Profile], today: date
) -> MilestoneCost:
    asked = one.request(request)
    try:
        rows = make_plan(asked, profiles, today).rows
        row, on_spot = _chosen(one, asked, rows)
    except UsageError as error:
        raise UsageError(f"milestone {one.name!r}: {error}") from error
    hours = row.spot_hours if on_spot else row.done_in_hours
    assert hours is not None
    # A notebook service allows one session at a time, and the measured machine exists only once.
    machines = 1 if row.max_session_s is not None or row.provider is None else one.runs
    return MilestoneCost(
        milestone=one,
        row=row,
        on_spot=on_spot,
        machines=machines,
        hours=hours.times(one.runs / machines),
        usd=_usd(row, on_spot, one.runs),
    )


def _chosen(one: Milestone, asked: PlanRequest, rows: Sequence[PlanRow]) -> tuple[PlanRow, bool]:
    """Return the cheapest machine that the milestone allows, and whether it is on spot."""
    if one.hardware == HERE:
        return rows[0], False
    offered = [
        row
        for row in rows[1:]
        # Machines with a weekly quota are excluded: all runs would share it.
        if row.hours_per_week is None
        and one.hardware in (None, row.profile_id, row.instance, row.provider)
        and one.gpus in (None, row.gpus)
    ]
    choices = choose(offered, asked.may_use_spot, asked.max_hours)
    found = next((choice for choice in choices if choice.kind is ChoiceKind.CHEAPEST), None)
    if found is not None:
        return offered[found.row], found.on_spot
    is_filtered = asked.providers or asked.only or asked.max_hours
    if one.hardware is None and one.gpus is None and not is_filtered:
        return rows[0], False
    raise UsageError("no machine with a price can be chosen; change hardware, gpus or the plan's filters")


def _usd(row: PlanRow, on_spot: bool, runs: int) -> Interval | None:
    """Return the dollars of all runs; purchased compute units are shared between them."""
    if row.compute_units is not None and row.purchases:
        units = row.compute_units.times(runs)
        bought = cheapest_purchase(units, row.purchases)
        return bought.paid(units) if bought else None
    usd = row.usd_spot if on_spot else row.usd_on_demand
    return None if usd is None else usd.times(runs)
