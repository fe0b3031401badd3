"""From one measured rate to a plan: every machine, the ones that stand out, and what to know."""

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import date

from tunekit.diagnose.plan import PlanFacts, plan_findings
from tunekit.errors import UsageError
from tunekit.plan import interruptions
from tunekit.plan.choices import choose
from tunekit.plan.offers import LONGEST_H, measured_machine, offered_machines
from tunekit.predict import roofline
from tunekit.records.plan import Choice, Plan, PlanRequest, PlanRow
from tunekit.records.profile import Profile


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
    _refuse_endless(request)
    _refuse_unknown_providers(request, profiles)
    measured = profiles.get(request.measured_on)
    offered = list(offered_machines(request, profiles, today))
    kept = [row for row in offered if _is_fast_enough(row, request.max_hours)]
    kept.sort(key=lambda row: _order(row, request.may_use_spot))
    rows = (measured_machine(request, measured), *kept)
    choices = choose(rows, request.may_use_spot)
    facts = PlanFacts(request, rows, choices, measured, left_out=len(offered) - len(kept))
    return Plan(
        made_on=today.isoformat(),
        request=request,
        rows=rows,
        choices=choices,
        findings=plan_findings(facts, ignored),
        model_assumptions=_model_assumptions(rows, profiles),
        sources=_sources(rows, choices),
    )


def known_providers(profiles: Mapping[str, Profile]) -> tuple[str, ...]:
    """Return the providers of all machines, by name."""
    return tuple(sorted({one.provider for profile in profiles.values() for one in profile.instances}))


def _is_fast_enough(row: PlanRow, max_hours: float | None) -> bool:
    return max_hours is None or row.hours is None or row.hours.value <= max_hours


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
        *([interruptions.SOURCE] if has_checkpoints else []),
    )


def _refuse_endless(request: PlanRequest) -> None:
    rate = request.rate_samples_per_s
    hours = request.samples / rate.value / 3600
    if hours > LONGEST_H:
        raise UsageError(
            f"{request.epochs:,} epochs of {request.samples_per_epoch:,} samples at {rate.value:g} samples/s "
            f"take {hours:.3g} h; check rate, samples and epochs"
        )
    if request.samples / rate.low / 3600 > LONGEST_H:
        raise UsageError(
            f"a rate of {rate.value:g} samples/s that may be {rate.low:.3g} is too uncertain to plan with; "
            "measure it in more processes (tunekit search --confirm)"
        )


def _refuse_unknown_providers(request: PlanRequest, profiles: Mapping[str, Profile]) -> None:
    known = known_providers(profiles)
    for provider in request.providers:
        if provider not in known:
            raise UsageError(f"no machine of provider {provider!r} is known; known: {', '.join(known)}")
