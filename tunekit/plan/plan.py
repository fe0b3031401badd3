"""Makes a plan from one measured rate: every machine, the chosen ones, and findings."""

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from tunekit.diagnose.plan import PlanFacts, plan_findings
from tunekit.errors import UsageError
from tunekit.plan import interruptions
from tunekit.plan.offers import LONGEST_H, measured_machine, offered_machines
from tunekit.predict import scaling, speed_ratio
from tunekit.records.interval import Interval
from tunekit.records.plan import Choice, ChoiceKind, Plan, PlanRequest, PlanRow
from tunekit.records.profile import Profile
from tunekit.units import count_text

BALANCED_COST = 2.0
"""Maximum cost of a balanced choice, as a multiple of the cheapest."""
SOON_H = 1.0
"""Machines that finish within this time count as equally fast: rent is by the hour, and set-up takes time."""


def make_plan(
    request: PlanRequest, profiles: Mapping[str, Profile], today: date, ignored: Collection[str] = ()
) -> Plan:
    """Return the training's cost on every machine in the profiles.

    Args:
        request: the training and its measured rate.
        profiles: every GPU's profile by id.
        today: the date for judging the age of prices.
        ignored: codes of findings to leave out.

    Raises:
        UsageError: a provider has no machine in any profile, or the training would never end.
    """
    _refuse_endless(request)
    _refuse_unknown_providers(request, profiles)
    measured = profiles.get(request.measured_on)
    offered = sorted(
        offered_machines(request, profiles, today), key=lambda row: _order(row, request.may_use_spot)
    )
    max_h = request.max_hours or math.inf
    kept = [row for row in offered if row.done_in_hours is None or row.done_in_hours.value <= max_h]
    rows = (measured_machine(request, measured), *kept)
    choices = choose(rows, request.may_use_spot, request.max_hours)
    facts = PlanFacts(request, rows, choices, left_out=len(offered) - len(kept))
    return Plan(
        made_on=today.isoformat(),
        request=request,
        rows=rows,
        choices=choices,
        findings=plan_findings(facts, ignored),
        model_assumptions=(speed_ratio.ASSUMPTION,) if _has_other_gpu(rows, request) else (),
        sources=_sources(rows, choices, request),
    )


def _order(row: PlanRow, may_use_spot: bool) -> tuple[bool, float, float, str, str, str]:
    """Return the sort key: available machines first, then by price, then by time."""
    price = row.lower_usd if may_use_spot else row.usd_on_demand
    usd = price.value if price else math.inf
    hours = row.hours.value if row.hours else math.inf
    return (row.obstacle is not None, usd, hours, row.profile_id, row.provider or "", row.instance or "")


def _sources(rows: Sequence[PlanRow], choices: Sequence[Choice], request: PlanRequest) -> tuple[str, ...]:
    chosen = [rows[index] for index in dict.fromkeys(choice.row for choice in choices)]
    machines: dict[str, list[str]] = {}
    for row in chosen:
        if row.price_source:
            machines.setdefault(row.price_source, []).append(f"{row.provider} {row.instance}")
    prices = [f"{', '.join(names)}: {source}" for source, names in machines.items()]
    has_checkpoints = any(row.usd_spot or row.checkpoint_interval_s for row in rows)
    return (
        *(" ".join(line.split()) for line in prices),
        *([speed_ratio.SOURCE] if _has_other_gpu(rows, request) else []),
        *([scaling.SOURCE] if any(row.scaling_is_predicted for row in rows) else []),
        *([interruptions.SOURCE] if has_checkpoints else []),
    )


def _has_other_gpu(rows: Sequence[PlanRow], request: PlanRequest) -> bool:
    known = {request.measured_on, *(one.profile_id for one in request.predicted)}
    return any(row.how is not None and row.profile_id not in known for row in rows)


def _refuse_endless(request: PlanRequest) -> None:
    rate = request.rate_samples_per_s
    hours = request.samples / rate.low / 3600
    if hours > LONGEST_H:
        raise UsageError(
            f"{count_text(request.epochs, 'epoch')} of {request.samples_per_epoch:,} samples at {rate.low:g} "
            f"samples/s take {hours:.3g} h; check rate, samples and epochs"
        )


def _refuse_unknown_providers(request: PlanRequest, profiles: Mapping[str, Profile]) -> None:
    known = sorted({one.provider for profile in profiles.values() for one in profile.instances})
    for provider in request.providers:
        if provider not in known:
            raise UsageError(f"no machine of provider {provider!r} is known; known: {', '.join(known)}")


# --- which machines are chosen ---------------------------------------------------------------


class _Candidate(NamedTuple):
    """A machine at one of its prices, with expected figures."""

    row: int
    on_spot: bool
    hours: float
    """Elapsed time, including waits for a quota."""
    usd: float | None

    @property
    def rented_h(self) -> float:
        """Its hours, at least `SOON_H`."""
        return max(SOON_H, self.hours)


def choose(rows: Sequence[PlanRow], may_use_spot: bool, max_hours: float | None = None) -> tuple[Choice, ...]:
    """Return the cheapest, the balanced and the fastest machine, without those for which none qualifies.

    The cheapest has the lowest cost, the fastest the shortest time, and the balanced one the lowest product
    of the two at up to `BALANCED_COST` times the lowest cost. If a machine is free, the balanced one is
    chosen from those that are faster. Ties are broken by the other figure, then by the order of the rows.

    Only machines that can be rented, at a price of the last year, and whose loader feeds their GPUs are
    chosen; GPUs that may not have enough memory are chosen only if there are no others.

    Args:
        rows: the machines.
        may_use_spot: whether machines may also be chosen at their spot price, with the hours on spot.
        max_hours: the longest time that a choice may take.
    """
    found = [one for one in _candidates(rows, may_use_spot) if one.hours <= (max_hours or math.inf)]
    found = [one for one in found if not rows[one.row].may_not_fit] or found
    priced = sorted(
        ((one.usd, one.rented_h, one) for one in found if one.usd is not None), key=lambda each: each[:2]
    )
    chosen: list[tuple[ChoiceKind, _Candidate]] = []
    if priced:
        min_usd, min_h, cheapest = priced[0]
        chosen.append((ChoiceKind.CHEAPEST, cheapest))
        # A product with a cost of 0 ignores time, so machines that cost money have to be faster.
        worth_it = priced if min_usd else [each for each in priced if each[1] < min_h] or priced[:1]
        affordable = (each for each in worth_it if each[0] <= BALANCED_COST * worth_it[0][0])
        balanced = min(affordable, key=lambda each: (each[0] * each[1], *each[:2]))
        chosen.append((ChoiceKind.BALANCED, balanced[2]))
    if found:
        fastest = min(found, key=lambda one: (one.rented_h, one.usd is None, one.usd or 0.0))
        chosen.append((ChoiceKind.FASTEST, fastest))
    return tuple(
        Choice(kind=kind, row=one.row, on_spot=one.on_spot, rival=_rival(rows, kind, one, found))
        for kind, one in chosen
    )


def _rival(
    rows: Sequence[PlanRow], kind: ChoiceKind, chosen: _Candidate, found: Sequence[_Candidate]
) -> int | None:
    """Return the row of the best machine with another GPU that may be cheaper or faster within the ranges."""

    def figure(one: _Candidate) -> Interval | None:
        row = rows[one.row]
        if kind is ChoiceKind.FASTEST:
            return row.spot_hours if one.on_spot else row.done_in_hours
        return row.usd_spot if one.on_spot else row.usd_on_demand

    own, row = figure(chosen), rows[chosen.row]
    others = [
        (each.value, one.row)
        for one in found
        if rows[one.row].profile_id != row.profile_id
        and own is not None
        and (each := figure(one)) is not None
        and each.low < own.high
        and (kind is not ChoiceKind.FASTEST or own.high > SOON_H)
    ]
    return min(others)[1] if others and kind is not ChoiceKind.BALANCED else None


def _candidates(rows: Sequence[PlanRow], may_use_spot: bool) -> list[_Candidate]:
    """Return the machines that can be rented and whose GPUs are kept busy, at each of their prices."""
    found = []
    for index, row in enumerate(rows):
        done_in = row.done_in_hours
        if done_in is None or not row.can_be_chosen or row.is_mostly_idle:
            continue
        usd = None if row.usd_on_demand is None else row.usd_on_demand.value
        if not row.is_outdated:
            found.append(_Candidate(index, False, done_in.value, usd))
        if may_use_spot and row.usd_spot and row.spot_hours and not row.is_spot_outdated:
            found.append(_Candidate(index, True, row.spot_hours.value, row.usd_spot.value))
    return found
