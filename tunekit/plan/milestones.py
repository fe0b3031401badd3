"""Milestones on machines: each is a plan of its own, and together they have the cheapest and fastest ways."""

import bisect
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import reduce
from typing import NamedTuple, TypeVar

from tunekit.diagnose.plan import PlanFacts, plan_findings
from tunekit.errors import UsageError
from tunekit.plan.break_even import Search, gpu_break_evens, tuning_break_even
from tunekit.plan.choices import SOON_H, Figures, stand_out
from tunekit.plan.plan import candidates, make_plan, refuse_endless, that_hold_it
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.milestones import (
    GivenUp,
    Hardware,
    HardwareKind,
    Milestone,
    MilestoneOption,
    MilestonePlan,
    Programme,
    RunsWay,
)
from tunekit.records.plan import (
    Choice,
    ChoiceKind,
    Plan,
    PlanAssumptions,
    PlanRequest,
    PlanRow,
    cheapest_purchase,
)
from tunekit.records.profile import Instance, Profile
from tunekit.units import count_text, hours_text

_Item = TypeVar("_Item")

_H = 3600.0


class Limits(NamedTuple):
    """What the milestones may take and cost together."""

    max_usd: float | None = None
    deadline: str | None = None
    """As it was written."""
    deadline_h: float | None = None


def plan_milestones(
    request: PlanRequest,
    milestones: Sequence[Milestone],
    profiles: Mapping[str, Profile],
    today: date,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    drops_last: bool = True,
    search: Search | None = None,
    ignored: Collection[str] = (),
) -> MilestonePlan:
    """Return what milestones take and cost on the machines that stand out.

    Args:
        request: the training that they are made of, and its measured rate.
        milestones: at least one; they follow one another.
        profiles: every GPU by id.
        today: the day to judge prices by.
        limits: that the choices have to hold.
        drops_last: whether an epoch leaves out its last, partial batch.
        search: that the rate comes from.
        ignored: codes of findings to leave out.

    Raises:
        UsageError: a milestone's hardware can't be chosen, or it would never end.
    """
    found = [_options(request, one, profiles, today) for one in milestones]
    made = [
        [option.changed(**_figures(request, one, option, drops_last)) for option in options]
        for one, options in zip(milestones, found, strict=True)
    ]
    all_ways = _programmes([_undominated(options, _of_option) for options in made])
    choices = stand_out(all_ways, _figures_of, lambda one: _holds(one, limits))
    out = {kind: one for kind, one in stand_out(all_ways, _figures_of).items() if not _holds(one, limits)}
    nearest = {} if choices else _nearest(all_ways, limits)
    base = make_plan(request, profiles, today, ignored)
    shown = [option for one in (*choices.values(), *nearest.values()) for option in one.options]
    return MilestonePlan(
        made_on=today.isoformat(),
        request=request,
        milestones=tuple(milestones),
        drops_last=drops_last,
        max_usd=limits.max_usd,
        deadline=limits.deadline,
        deadline_h=limits.deadline_h,
        choices=_with_given_up([_programme(kind, one, limits) for kind, one in choices.items()]),
        left_out=tuple(_programme(kind, one, limits) for kind, one in out.items()),
        nearest=tuple(_programme(kind, one, limits) for kind, one in nearest.items()),
        together=tuple(option for options in made for option in _together(options)),
        gpu_break_evens=gpu_break_evens(base, search),
        tuning=tuning_break_even(base, milestones, search),
        with_quota=tuple(
            f"{row.provider} {row.instance}"
            for row in base.rows
            if row.hours_per_week is not None and row.can_be_chosen and not row.is_mostly_idle
        ),
        findings=_findings(base, shown, profiles.get(request.measured_on), ignored),
        sources=_sources(shown),
    )


def milestone_request(request: PlanRequest, one: Milestone) -> PlanRequest:
    """Return the plan that one run of a milestone asks for."""
    assumed = request.assumptions.changed(checkpoint_every_s=one.checkpoint_every_s)
    return request.changed(
        samples_per_epoch=one.samples_per_epoch,
        epochs=one.epochs,
        validation_share=one.validation_share,
        assumptions=assumed,
    )


# --- the machines of one milestone -----------------------------------------------------------


def _options(
    request: PlanRequest, one: Milestone, profiles: Mapping[str, Profile], today: date
) -> list[MilestoneOption]:
    """Return the ways in which a milestone can be had; on the measured machine where none is offered."""
    asked = milestone_request(request, one)
    refuse_endless(asked, f"milestone {one.name!r}, {one.data}")
    plan = make_plan(asked, profiles, today)
    if one.hardware is not None and one.hardware.kind is HardwareKind.MEASURED:
        _refuse_other_than_measured(one, asked, plan.rows[0])
        return [_on_machine(one, plan.rows[0])]
    rows = [
        row
        for row in plan.rows
        if _is_meant(one.hardware, row.profile_id, row.instance, row.provider)
        and one.gpus in (None, row.gpus)
    ]
    options = list(_on_machines(one, rows, asked.may_use_spot))
    if one.runs > 1:
        options += _on_parts(one, asked, profiles, today)
    priced = [option for option in options if option.usd is not None]
    if priced:
        return priced
    if not _filters(asked) and one.hardware is None and one.gpus is None and one.instances is None:
        return [_on_machine(one, plan.rows[0])]
    raise UsageError(_without_machine(one, asked, rows, profiles))


def _refuse_other_than_measured(one: Milestone, asked: PlanRequest, own: PlanRow) -> None:
    """Refuse what the machine of the rate is not, or does not hold."""
    if one.gpus not in (None, own.gpus):
        why = f"that was on {count_text(own.gpus, 'GPU')}, not gpus: {one.gpus}; drop gpus"
    elif (one.instances or 1) > 1:
        why = f"that is one machine, not instances: {one.instances}; drop instances"
    elif asked.max_hours is not None and own.hours is not None and own.hours.value > asked.max_hours:
        hours = hours_text(own.hours.value)
        why = f"a run takes {hours} there, more than --max-hours {asked.max_hours:,g}; give more hours"
    else:
        return
    raise UsageError(
        f"milestone {one.name!r} can't be planned where the rate was measured: {why}, or name other hardware"
    )


def _filters(asked: PlanRequest) -> tuple[str, ...]:
    """Return the flags that leave machines out."""
    named = (("--provider", asked.providers), ("--only", asked.only))
    hours = [] if asked.max_hours is None else [f"--max-hours {asked.max_hours:,g}"]
    return (*(f"{flag} {name}" for flag, names in named for name in names), *hours)


def _is_meant(hardware: Hardware | None, profile_id: str, instance: str | None, provider: str | None) -> bool:
    if hardware is None:
        return True
    named = {
        HardwareKind.GPU: profile_id,
        HardwareKind.INSTANCE: instance,
        HardwareKind.PROVIDER: provider,
    }
    return named[hardware.kind] == hardware.name


def _on_machines(one: Milestone, rows: Sequence[PlanRow], may_use_spot: bool) -> Iterator[MilestoneOption]:
    """Yield the milestone on whole machines that can be rented, fed and hold it.

    A weekly quota is left out: all runs of all milestones would share it.
    """
    lasting = [row for row in rows if row.hours_per_week is None]
    for chosen in that_hold_it(candidates(lasting, may_use_spot), lasting)[0]:
        row = lasting[chosen.row]
        if not (_gives_one_at_a_time(row) and (one.instances or 1) > 1):
            yield _on_machine(one, row, chosen.on_spot)


def _gives_one_at_a_time(row: PlanRow) -> bool:
    """Return whether it is a notebook service's, or nobody's offer, of which there is one."""
    return row.max_session_s is not None or row.provider is None


def _on_machine(one: Milestone, row: PlanRow, on_spot: bool = False) -> MilestoneOption:
    """Return the milestone with each run on all GPUs of a machine."""
    hours, usd = (row.spot_hours, row.usd_spot) if on_spot else (row.hours, row.usd_on_demand)
    assert hours is not None
    machines = 1 if _gives_one_at_a_time(row) else min(one.instances or one.runs, one.runs)
    several = RunsWay.IN_TURN if machines == 1 else RunsWay.INSTANCES
    return MilestoneOption(
        milestone=one.name,
        way=RunsWay.ONE if one.runs == 1 else several,
        machines=machines,
        machine_gpus=row.gpus,
        row=row,
        on_spot=on_spot,
        hours=hours.times(math.ceil(one.runs / machines)),
        usd=_usd_of_runs(row, one.runs, usd),
        epoch_hours=hours.times(1 / one.epochs),
        iterations_per_epoch=None,
        sessions=row.sessions.times(one.runs) if row.sessions else None,
    )


def _usd_of_runs(row: PlanRow, runs: int, usd: Interval | None) -> Interval | None:
    """Return the dollars of all runs together: of lots that are sold, they share what is left over."""
    if row.compute_units is not None and row.purchases:
        units = row.compute_units.times(runs)
        bought = cheapest_purchase(units, row.purchases)
        return bought.paid(units) if bought else None
    return None if usd is None else usd.times(runs)


def _on_parts(
    one: Milestone, asked: PlanRequest, profiles: Mapping[str, Profile], today: date
) -> Iterator[MilestoneOption]:
    """Yield the milestone with a run on each GPU of machines with several, at their price on demand.

    A preempted machine would take all its runs with it, so there is none on spot.
    """
    parts: dict[tuple[str, str, str | None], int] = {}
    split: dict[str, Profile] = {}
    for key, profile in profiles.items():
        several = [one for one in profile.instances if one.gpus > 1 and one.hours_per_week is None]
        parts |= {(key, machine.name, machine.region): machine.gpus for machine in several}
        split[key] = profile.changed(instances=tuple(map(_part, several)))
    known = {machine.provider for profile in split.values() for machine in profile.instances}
    wanted = tuple(name for name in asked.providers if name in known)
    if asked.providers and not wanted:
        return
    rows = [
        row
        for row in make_plan(asked.changed(providers=wanted), split, today).rows
        if row.instance is not None
        and _is_meant(one.hardware, row.profile_id, row.instance, row.provider)
        and one.gpus in (None, parts[row.profile_id, row.instance, row.region])
    ]
    for chosen in that_hold_it(candidates(rows, may_use_spot=False), rows)[0]:
        row = rows[chosen.row]
        assert row.instance is not None
        yield _on_part(one, row, parts[row.profile_id, row.instance, row.region])


def _part(machine: Instance) -> Instance:
    """Return the part of a machine that belongs to one of its GPUs."""
    return machine.changed(
        gpus=1,
        vcpus=None if machine.vcpus is None else max(1, machine.vcpus // machine.gpus),
        ram_gb=None if machine.ram_gb is None else machine.ram_gb / machine.gpus,
        usd_per_h=None if machine.usd_per_h is None else machine.usd_per_h / machine.gpus,
        compute_units_per_h=None,
        subscriptions=(),
        unit_packs=(),
        spot=None,
    )


def _on_part(one: Milestone, row: PlanRow, gpus: int) -> MilestoneOption:
    """Return the milestone with a run on each GPU; machines are paid whole until the last run is done."""
    assert row.hours is not None
    machines = min(one.instances or 1, math.ceil(one.runs / gpus))
    rounds = math.ceil(one.runs / (gpus * machines))
    usd = row.usd_on_demand
    return MilestoneOption(
        milestone=one.name,
        way=RunsWay.GPUS,
        machines=machines,
        machine_gpus=gpus,
        row=row,
        on_spot=False,
        hours=row.hours.times(rounds),
        usd=usd.times(gpus * machines * rounds) if usd else None,
        epoch_hours=row.hours.times(1 / one.epochs),
        iterations_per_epoch=None,
    )


def _without_machine(
    one: Milestone, asked: PlanRequest, rows: Sequence[PlanRow], profiles: Mapping[str, Profile]
) -> str:
    """Return why a milestone can't be planned on what it asks for, and what would help."""
    named = [one.hardware.name] if one.hardware else []
    named += [count_text(one.gpus, "GPU")] if one.gpus else []
    named += [count_text(one.instances, "instance")] if one.instances and not named else []
    what = f" on {' with '.join(named)}" if named else ""
    why, remedy = _not_offered(one, asked, profiles) or _not_usable(one, asked, rows)
    return f"milestone {one.name!r} can't be planned{what}: {why}; {remedy}"


def _not_offered(
    one: Milestone, asked: PlanRequest, profiles: Mapping[str, Profile]
) -> tuple[str, str] | None:
    """Return what keeps every offer away, and what would help; None where some are left."""
    if asked.measured_on == "cpu":
        return (
            "the rate was measured on a CPU, which says nothing of a GPU's speed",
            "write hardware: here, or plan with the rate of a GPU (--rate and --gpu)",
        )
    offers = [
        (profile.id, machine)
        for profile in profiles.values()
        for machine in profile.instances
        if _is_meant(one.hardware, profile.id, machine.name, machine.provider)
    ]
    if not offers:
        return "no provider is known to offer it", "write another GPU, or add a machine to its profile"
    sold = sorted({machine.gpus for _, machine in offers})
    offers = [(name, machine) for name, machine in offers if one.gpus in (None, machine.gpus)]
    if not offers:
        counts, what = _either([str(gpus) for gpus in sold]), "it is" if one.hardware else "machines are"
        noun = "GPU" if sold == [1] else "GPUs"
        return f"{what} sold with {counts} {noun}", f"write gpus: {counts}, or leave gpus out"
    sellers, models = {machine.provider for _, machine in offers}, {name for name, _ in offers}
    kept = [
        name
        for name, machine in offers
        if machine.provider in (asked.providers or sellers) and name in (asked.only or (name,))
    ]
    if kept:
        return None
    given = _filters(asked.changed(max_hours=None))
    filters = (("--provider", asked.providers, sellers), ("--only", asked.only, models))
    known = " or ".join(f"{flag} {_either(sorted(known))}" for flag, names, known in filters if names)
    verb, flags = ("leaves", "flag") if len(given) == 1 else ("leave", "flags")
    remedy = f"give {known}, or drop the {flags}" if one.hardware else f"give others, or drop the {flags}"
    return f"{' and '.join(given)} {verb} no offer{' of it' if one.hardware else ''}", remedy


def _either(names: Sequence[str]) -> str:
    """Return "a, b or c"."""
    *some, last = names
    return f"{', '.join(some)} or {last}" if some else last


def _ways_out(one: Milestone, asked: PlanRequest) -> list[str]:
    """Return what would leave a milestone more machines."""
    if one.hardware is not None:
        return ["leave its hardware open", "write another"]
    if one.gpus is not None:
        return ["leave gpus out"]
    return [f"drop {flag}" for flag in _filters(asked)] + (["leave instances out"] if one.instances else [])


def _not_usable(one: Milestone, asked: PlanRequest, rows: Sequence[PlanRow]) -> tuple[str, str]:
    """Return what is in the way on machines that are offered, and what would help."""
    offered = [row for row in rows if row.provider is not None]
    ways_out = _ways_out(one, asked)
    if not offered and asked.max_hours is not None:
        others = _ways_out(one, asked.changed(max_hours=None))
        return f"it takes more than --max-hours {asked.max_hours:,g}", _either(["give more hours", *others])
    if any(row.is_mostly_idle for row in offered):
        return (
            "its GPUs would wait for the loader most of the time",
            _either(["make the loader faster (tunekit search)", *ways_out]),
        )
    if quota := next((row for row in offered if row.hours_per_week is not None), None):
        is_given = quota.provider in asked.providers
        alone = "without --milestones" if is_given else f"with --provider {quota.provider}"
        return (
            "all runs of all milestones would share its weekly quota",
            _either([f"plan one run there {alone}", *ways_out]),
        )
    if blocked := next((row.obstacle for row in offered if row.obstacle), None):
        return blocked, _either(ways_out)
    if unknown := next((row.basis for row in rows if row.how is None), None):
        return unknown, _either(ways_out)
    if (one.instances or 1) > 1 and any(map(_gives_one_at_a_time, offered)):
        return "a notebook service gives one machine at a time", _either(["write instances: 1", *ways_out])
    return "no price is known", _either(["add one to its profile", *ways_out])


def _figures(
    request: PlanRequest, one: Milestone, option: MilestoneOption, drops_last: bool
) -> dict[str, object]:
    """Return an option's iterations, and what its validation and checkpoints take."""
    row, assumed = option.row, request.assumptions
    known: dict[str, object] = {"iterations_per_epoch": _iterations(request, one, row.gpus, drops_last)}
    rate, hours = row.rate_samples_per_s, row.spot_hours if option.on_spot else row.hours
    if rate is None or hours is None:
        return known
    times = _times_a_run(one, option)
    usd_per_h = option.usd.value / (hours.value * times) if option.usd else None
    training = rate.under(one.samples_per_epoch * one.epochs / _H)
    work = training.times(1 + one.validation_share)
    spent = {
        "validation": training.times(one.validation_share),
        "checkpoint": _checkpoints(one, option, work, assumed),
    }
    for name, of_a_run in spent.items():
        if of_a_run is not None and of_a_run.high > 0:
            known[f"{name}_hours"] = of_all = of_a_run.times(times)
            known[f"{name}_usd"] = of_all.times(usd_per_h) if usd_per_h else None
    return known


def _times_a_run(one: Milestone, option: MilestoneOption) -> int:
    """Return how many times the hours of a run machines are paid for."""
    if option.way is not RunsWay.GPUS:
        return one.runs
    return option.machines * math.ceil(one.runs / (option.machine_gpus * option.machines))


def _checkpoints(
    one: Milestone, option: MilestoneOption, work: Interval, assumed: PlanAssumptions
) -> Interval | None:
    """Return the hours of a run's checkpoints; what fits one session, or one interval on spot, writes none.

    Args:
        one: the milestone.
        option: where it runs.
        work: hours of a run's training and validation.
        assumed: what a checkpoint costs.
    """
    every_s, cost_s = option.row.checkpoint_interval_s, assumed.checkpoint_cost_s
    # The interval of a machine without sessions is that of its spot price, unless the milestone has one.
    is_written = option.on_spot or option.row.sessions is not None or one.checkpoint_every_s is not None
    if every_s is None or cost_s is None or not is_written:
        return None
    longest_s = option.row.max_session_s or assumed.max_session_s
    least_s = every_s if option.on_spot else longest_s if one.checkpoint_every_s is None else 0.0
    share = cost_s / every_s
    return work.through(lambda hours: hours * share if hours * _H > least_s else 0.0)


def _iterations(request: PlanRequest, one: Milestone, gpus: int, drops_last: bool) -> int | None:
    """Return the optimizer steps of an epoch: each GPU keeps its batch."""
    if request.samples_per_step is None:
        return None
    batch = max(1, request.samples_per_step * gpus // request.measured_gpus)
    whole, rest = divmod(one.samples_per_epoch, batch)
    return max(1, whole if drops_last or not rest else whole + 1)


def _together(options: Sequence[MilestoneOption]) -> Iterator[MilestoneOption]:
    """Yield the cheapest option with an instance of one GPU a run, and with a GPU of several a run."""
    separate = [one for one in options if one.way is RunsWay.INSTANCES and one.machine_gpus == 1]
    shared = [one for one in options if one.way is RunsWay.GPUS]
    for some in (separate, shared):
        if some:
            yield min(some, key=lambda one: (one.usd.value if one.usd else 0.0, one.hours.value))


# --- all milestones together -----------------------------------------------------------------


class _Ways(NamedTuple):
    """An option for each milestone so far, by expected figures."""

    options: tuple[MilestoneOption, ...] = ()
    hours: float = 0.0
    rented_h: float = 0.0
    """With `SOON_H` for each milestone at the least."""
    usd: float | None = None
    """Of those that have a price; None where none has."""

    def then(self, option: MilestoneOption) -> "_Ways":
        """Return the same with one milestone more."""
        hours = option.hours.value
        rented_h = self.rented_h + max(SOON_H, hours)
        usd = self.usd if option.usd is None else (self.usd or 0.0) + option.usd.value
        return _Ways((*self.options, option), self.hours + hours, rented_h, usd)


def _figures_of(ways: _Ways) -> Figures:
    return Figures(ways.rented_h, ways.usd)


def _of_option(option: MilestoneOption) -> tuple[float, float, float]:
    hours = option.hours.value
    return max(SOON_H, hours), option.usd.value if option.usd else 0.0, hours


def _of_ways(ways: _Ways) -> tuple[float, float, float]:
    return ways.rented_h, ways.usd or 0.0, ways.hours


def _undominated(
    items: Iterable[_Item], figures: Callable[[_Item], tuple[float, float, float]]
) -> list[_Item]:
    """Return the items that no other beats in all three figures, those with the least of the first first."""
    kept: list[_Item] = []
    beaten: list[tuple[float, float]] = []  # second and third figure: one rises where the other falls
    for one in sorted(items, key=figures):
        _, second, third = figures(one)
        at = bisect.bisect_right(beaten, (second, third))
        if at and beaten[at - 1][1] <= third:
            continue
        kept.append(one)
        past = at
        while past < len(beaten) and beaten[past][1] >= third:
            past += 1
        beaten[at:past] = [(second, third)]
    return kept


def _programmes(milestones: Sequence[Sequence[MilestoneOption]]) -> list[_Ways]:
    """Return the ways through all milestones of which a choice may be one.

    They are chosen by the hours that are rented, and hold a deadline by those that they take.
    """
    ways = [_Ways()]
    for options in milestones:
        ways = _undominated((one.then(option) for one in ways for option in options), _of_ways)
    return ways


def _holds(ways: _Ways, limits: Limits) -> bool:
    most_usd = math.inf if limits.max_usd is None else limits.max_usd
    return _hours_over(ways.hours, limits) is None and (ways.usd or 0.0) <= most_usd


def _hours_over(hours: float, limits: Limits) -> float | None:
    return hours - limits.deadline_h if limits.deadline_h is not None and hours > limits.deadline_h else None


def _nearest(ways: Sequence[_Ways], limits: Limits) -> dict[ChoiceKind, _Ways]:
    """Return what breaks the deadline least within the dollars, and the dollars least within the deadline."""
    nearest = {}
    if limits.max_usd is not None:
        paid = [one for one in ways if (one.usd or 0.0) <= limits.max_usd]
        nearest[ChoiceKind.CHEAPEST] = min(paid, key=_by_hours) if paid else min(ways, key=_by_usd)
    if limits.deadline_h is not None:
        in_time = [one for one in ways if _hours_over(one.hours, limits) is None]
        nearest[ChoiceKind.FASTEST] = min(in_time, key=_by_usd) if in_time else min(ways, key=_by_hours)
    return nearest


def _by_usd(ways: _Ways) -> tuple[float, float]:
    return ways.usd or 0.0, ways.hours


def _by_hours(ways: _Ways) -> tuple[float, float]:
    return ways.hours, ways.usd or 0.0


def _programme(kind: ChoiceKind, ways: _Ways, limits: Limits) -> Programme:
    hours = reduce(Interval.plus, (one.hours for one in ways.options))
    priced = [one.usd for one in ways.options if one.usd is not None]
    usd = reduce(Interval.plus, priced) if priced else None
    is_dear = limits.max_usd is not None and usd is not None and usd.value > limits.max_usd
    return Programme(
        kind=kind,
        options=ways.options,
        hours=hours,
        usd=usd,
        hours_over=_hours_over(ways.hours, limits),
        usd_over=usd.value - limits.max_usd if is_dear and usd and limits.max_usd else None,
    )


def _with_given_up(programmes: Sequence[Programme]) -> tuple[Programme, ...]:
    """Return the choices with what each takes and costs more than every other."""
    return tuple(
        one.changed(
            given_up=tuple(
                GivenUp(
                    beside=other.kind,
                    hours_more=one.hours.value - other.hours.value,
                    usd_more=one.usd.value - other.usd.value if one.usd and other.usd else None,
                )
                for other in programmes
                if other is not one
            )
        )
        for one in programmes
    )


def _findings(
    base: Plan, options: Sequence[MilestoneOption], measured: Profile | None, ignored: Collection[str]
) -> tuple[Finding, ...]:
    """Return what to know about the machines of options; where none could be chosen, what is in the way."""
    if not base.choices and not _filters(base.request):
        return base.findings
    rows: dict[tuple[str, str | None, str | None, str | None], PlanRow] = {}
    chosen: dict[tuple[int, bool], Choice] = {}
    for one in options:
        row = one.row
        key = (row.profile_id, row.provider, row.instance, row.region)
        rows.setdefault(key, row)
        at = (list(rows).index(key), one.on_spot)
        chosen[at] = Choice(kind=ChoiceKind.CHEAPEST, row=at[0], on_spot=one.on_spot, reason="")
    facts = PlanFacts(base.request, tuple(rows.values()), tuple(chosen.values()), measured, left_out=0)
    return plan_findings(facts, ignored)


def _sources(options: Iterable[MilestoneOption]) -> tuple[str, ...]:
    machines: dict[str, dict[str, None]] = {}
    for one in options:
        if one.row.price_source:
            named = f"{one.row.provider} {one.row.instance}"
            machines.setdefault(" ".join(one.row.price_source.split()), {})[named] = None
    return tuple(f"{', '.join(names)}: {source}" for source, names in machines.items())
