"""From one measured rate to a plan: every machine, the ones that stand out, and what to know."""

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from tunekit.diagnose.plan import PlanFacts, plan_findings
from tunekit.errors import UsageError
from tunekit.plan import interruptions
from tunekit.plan.choices import BALANCED_COST, SOON_H, Figures, stand_out
from tunekit.plan.offers import LONGEST_H, measured_machine, offered_machines
from tunekit.predict import roofline, scaling
from tunekit.records.interval import Interval
from tunekit.records.plan import Choice, ChoiceKind, Plan, PlanRequest, PlanRow
from tunekit.records.profile import Profile
from tunekit.units import count_text

_YEAR_H = 365 * 24.0


def make_plan(
    request: PlanRequest, profiles: Mapping[str, Profile], today: date, ignored: Collection[str] = ()
) -> Plan:
    """Return what the training costs on every machine of the profiles.

    Args:
        request: the training and its measured rate.
        profiles: every GPU by id.
        today: the day to judge prices by.
        ignored: codes of findings to leave out.

    Raises:
        UsageError: a provider has no machine in any profile, or the training would never end.
    """
    refuse_endless(request)
    _refuse_unknown_providers(request, profiles)
    measured = profiles.get(request.measured_on)
    offered = sorted(
        offered_machines(request, profiles, today), key=lambda row: _order(row, request.may_use_spot)
    )
    most_h = math.inf if request.max_hours is None else request.max_hours
    too_slow = [row for row in offered if row.done_in_hours and row.done_in_hours.value > most_h]
    rows = (measured_machine(request, measured), *(row for row in offered if row not in too_slow))
    choices = choose(rows, request.may_use_spot, request.max_hours, too_slow)
    facts = PlanFacts(request, rows, choices, measured, left_out=len(too_slow))
    return Plan(
        made_on=today.isoformat(),
        request=request,
        rows=rows,
        choices=choices,
        findings=plan_findings(facts, ignored),
        model_assumptions=_model_assumptions(rows, profiles),
        sources=_sources(rows, choices),
    )


def _order(row: PlanRow, may_use_spot: bool) -> tuple[bool, float, float, str, str, str]:
    """Machines that can be had come first, then what is cheap, then what is fast."""
    price = row.lower_usd if may_use_spot else row.usd_on_demand
    usd = price.value if price else math.inf
    hours = row.hours.value if row.hours else math.inf
    return (row.obstacle is not None, usd, hours, row.profile_id, row.provider or "", row.instance or "")


def _model_assumptions(rows: Sequence[PlanRow], profiles: Mapping[str, Profile]) -> tuple[str, ...]:
    own, *others = rows
    converted = [row for row in others if row.how is not None and row.profile_id != own.profile_id]
    if not converted:
        return ()
    used = {(row.profile_id, row.precision) for row in (own, *converted)}
    return roofline.assumptions((profiles[name], precision) for name, precision in sorted(used))


def _sources(rows: Sequence[PlanRow], choices: Sequence[Choice]) -> tuple[str, ...]:
    chosen = [rows[index] for index in dict.fromkeys(choice.row for choice in choices)]
    machines: dict[str, list[str]] = {}
    for row in chosen:
        if row.price_source:
            machines.setdefault(row.price_source, []).append(f"{row.provider} {row.instance}")
    prices = [f"{', '.join(names)}: {source}" for source, names in machines.items()]
    has_other_gpu = any(row.how is not None and row.profile_id != rows[0].profile_id for row in rows)
    has_checkpoints = any(row.usd_spot or row.checkpoint_interval_s for row in rows)
    return (
        *(" ".join(line.split()) for line in prices),
        *([roofline.SOURCE] if has_other_gpu else []),
        *([scaling.SOURCE] if any(row.scaling_is_predicted for row in rows) else []),
        *([interruptions.SOURCE] if has_checkpoints else []),
    )


def refuse_endless(request: PlanRequest, whose: str = "") -> None:
    """Refuse a training that would never end.

    Args:
        request: the training and its measured rate.
        whose: what it is called; by default its samples say which it is.

    Raises:
        UsageError: it takes longer than `LONGEST_H`, or may.
    """
    rate = request.rate_samples_per_s
    hours = request.samples / rate.value / 3600
    if hours > LONGEST_H and whose:
        raise UsageError(
            f"{whose}: {count_text(request.epochs, 'epoch')} at {rate.value:g} samples/s would take more "
            f"than {LONGEST_H / _YEAR_H:,.0f} years; check its data and its epochs"
        )
    if hours > LONGEST_H:
        raise UsageError(
            f"{count_text(request.epochs, 'epoch')} of {request.samples_per_epoch:,} samples at "
            f"{rate.value:g} samples/s take {hours:.3g} h; check rate, samples and epochs"
        )
    if request.samples / rate.low / 3600 > LONGEST_H:
        raise UsageError(
            f"a rate of {rate.value:g} samples/s that may be {rate.low:.3g} is too uncertain to plan with; "
            "measure it in more processes (tunekit search --confirm)"
        )


def _refuse_unknown_providers(request: PlanRequest, profiles: Mapping[str, Profile]) -> None:
    known = sorted({one.provider for profile in profiles.values() for one in profile.instances})
    for provider in request.providers:
        if provider not in known:
            raise UsageError(f"no machine of provider {provider!r} is known; known: {', '.join(known)}")


# --- which machines stand out ----------------------------------------------------------------


class Candidate(NamedTuple):
    """A machine at one of its prices, by expected figures."""

    row: int
    on_spot: bool
    hours: float
    """By the calendar."""
    usd: float | None


def choose(
    rows: Sequence[PlanRow],
    may_use_spot: bool,
    max_hours: float | None = None,
    too_slow: Sequence[PlanRow] = (),
) -> tuple[Choice, ...]:
    """Return the choices, as `stand_out` defines them, among the machines that nothing known speaks against.

    GPUs that would mostly wait for the loader are never chosen; a GPU that may not hold the training is
    chosen only where there is no other.

    Args:
        rows: the machines.
        may_use_spot: whether a machine may stand at its spot price too, with the hours that it takes there.
        max_hours: the most that a choice may take.
        too_slow: machines that take more, which are never chosen.
    """
    known = (*rows, *too_slow)
    found, passed_over = that_hold_it(candidates(known, may_use_spot), known)
    most_h = math.inf if max_hours is None else max_hours

    def holds(one: Candidate) -> bool:
        return one.row < len(rows) and one.hours <= most_h

    chosen, unlimited = stand_out(found, _figures, holds), stand_out(found, _figures)
    held = [one for one in found if holds(one)]
    priced = [one for one in held if one.usd is not None]
    is_free = any(one.usd == 0 for one in found)
    whose = " of those faster than the free one," if is_free else ""
    reasons = {
        ChoiceKind.CHEAPEST: f"least expected dollars of {_machines(priced)} with a price{passed_over}",
        ChoiceKind.BALANCED: f"least dollars x hours{whose} for at most {BALANCED_COST:g} times the "
        "cheapest's dollars",
        ChoiceKind.FASTEST: f"least expected hours of {_machines(held)}{'' if priced else passed_over}",
    }
    return tuple(
        Choice(
            kind=kind,
            row=one.row,
            on_spot=one.on_spot,
            is_by_limit=one != unlimited[kind],
            reason=reasons[kind] + (f" within --max-hours {most_h:,g}" if one != unlimited[kind] else ""),
        )
        for kind, one in chosen.items()
    )


def _figures(one: Candidate) -> Figures:
    return Figures(max(SOON_H, one.hours), one.usd)


def candidates(rows: Sequence[PlanRow], may_use_spot: bool) -> list[Candidate]:
    """Return the machines that can be rented and fed, at each of their prices."""
    found = []
    for index, row in enumerate(rows):
        done_in = row.done_in_hours
        if done_in is None or not row.can_be_chosen or row.is_mostly_idle:
            continue
        found.append(Candidate(index, False, done_in.value, _value(row.usd_on_demand)))
        if may_use_spot and row.usd_spot is not None and row.spot_hours is not None:
            found.append(Candidate(index, True, row.spot_hours.value, row.usd_spot.value))
    return found


def _value(figure: Interval | None) -> float | None:
    return None if figure is None else figure.value


def that_hold_it(found: list[Candidate], rows: Sequence[PlanRow]) -> tuple[list[Candidate], str]:
    """Return those whose memory is no doubt, or all where there are none, and what was passed over."""
    sure = [one for one in found if not rows[one.row].may_not_fit]
    passed_over = [one for one in found if rows[one.row].may_not_fit]
    if not sure or not passed_over:
        return found, ""
    return sure, f", passing over {_machines(passed_over)} that may have too little memory"


def _machines(candidates: Sequence[Candidate]) -> str:
    return count_text(len({one.row for one in candidates}), "machine")
