"""Predicts the planned training on each machine: rate, hours, dollars."""

from collections.abc import Iterator, Mapping
from datetime import date
from functools import partial
from typing import NamedTuple

from tunekit.plan.interruptions import (
    WeeklyQuota,
    daly_interval_s,
    spot_time_s,
    under_quota,
    with_checkpoints_s,
)
from tunekit.predict.loader_rate import usual_instance
from tunekit.predict.scaling import link_between, scaled_step
from tunekit.predict.speed_ratio import speed_ratio
from tunekit.recommend.tiers import POLICIES
from tunekit.records.config import Precision
from tunekit.records.interval import EXACTLY_ONE, Interval
from tunekit.records.plan import (
    PlanAssumptions,
    PlanRequest,
    PlanRow,
    RateSource,
    UnitPurchase,
    cheapest_purchase,
)
from tunekit.records.profile import NO_TORCH_BUILD, Instance, Profile, SpotPrice
from tunekit.records.recommendation import Tier
from tunekit.records.scaling import OneGpuStep, ScaledStep

LONGEST_H = 1e7
"""A thousand years; a training that takes longer counts as endless."""

_H = 3600.0


def measured_machine(request: PlanRequest, profile: Profile | None) -> PlanRow:
    """Return the training on the GPUs that the rate is known for, at an unknown price."""
    return PlanRow(
        profile_id=request.measured_on,
        device_name=profile.device_names[0] if profile else request.measured_on,
        gpus=request.measured_gpus,
        is_measured_machine=True,
        how=request.rate_source,
        rate_samples_per_s=request.rate_samples_per_s,
        basis=f"{request.rate_source} on {request.measured_on}",
        precision=request.precision,
        hours=_hours(request, request.rate_samples_per_s),
        fits=True,
    )


def offered_machines(request: PlanRequest, profiles: Mapping[str, Profile], today: date) -> Iterator[PlanRow]:
    """Yield the training on every machine of every GPU, and on a single GPU if nobody rents it out.

    Args:
        request: the training; its filters apply except for the longest time.
        profiles: every GPU's profile by id.
        today: the date for judging the age of prices.
    """
    measured = profiles.get(request.measured_on)
    for profile in profiles.values():
        if profile.is_cpu or (request.only and profile.id not in request.only):
            continue
        gpu_rate = _rate_of_gpu(request, measured, profile)
        row = partial(_row, request, profile, gpu_rate, _has_less_memory(profile, measured), today)
        for instance in profile.instances:
            if not request.providers or instance.provider in request.providers:
                yield row(instance)
        if not profile.instances and not request.providers and profile.id != request.measured_on:
            yield row(None)


class _GpuRate(NamedTuple):
    """The rate of one GPU without its loader; None if it is unknown."""

    samples_per_s: Interval | None
    precision: Precision
    why: str


def _rate_of_gpu(request: PlanRequest, measured: Profile | None, profile: Profile) -> _GpuRate:
    known, own = request.rate_samples_per_s.times(1 / request.measured_gpus), request.predicted_on(profile.id)
    if own is not None:
        return _GpuRate(
            own.rate, own.precision, f"predicted from traced steps at a batch of {own.batch_size}"
        )
    if profile.id == request.measured_on:
        return _GpuRate(known, request.precision, f"{request.rate_source} on {profile.id}")
    if request.measured_on == "cpu":
        why = "measured on a CPU, which says nothing of a GPU's speed (tunekit fits predicts it)"
        return _GpuRate(None, request.precision, why)
    if measured is None:
        return _GpuRate(None, request.precision, f"no profile of {request.measured_on} to compare with")
    speed = speed_ratio(measured, profile, request.precision)
    if speed.ratio is None:
        return _GpuRate(None, speed.precision, speed.why)
    factor = f"x {speed.ratio.value:.2f} ({speed.ratio.low:.2f} to {speed.ratio.high:.2f})"
    return _GpuRate(known.times(speed.ratio), speed.precision, f"{speed.why}: {factor}")


def _row(
    request: PlanRequest,
    profile: Profile,
    gpu_rate: _GpuRate,
    has_less_memory: bool,
    today: date,
    instance: Instance | None,
) -> PlanRow:
    """Return the training on a machine; None stands for a single GPU that no known provider offers."""
    fits = _fits(request, profile, gpu_rate)
    row = PlanRow(
        profile_id=profile.id,
        device_name=profile.device_names[0],
        provider=instance.provider if instance else None,
        instance=instance.name if instance else None,
        region=instance.region if instance else None,
        gpus=instance.gpus if instance else 1,
        vcpus=instance.vcpus if instance else None,
        basis=gpu_rate.why,
        precision=gpu_rate.precision,
        fits=fits,
        may_not_fit=fits is None and (has_less_memory or request.predicted_on(profile.id) is not None),
        obstacle=_obstacle(request, profile, fits),
    )
    if gpu_rate.samples_per_s is not None:
        row = _with_rate(row, request, profile, gpu_rate.samples_per_s)
    return row if instance is None else _priced(row, instance, request.assumptions, today)


def _priced(row: PlanRow, instance: Instance, assumed: PlanAssumptions, today: date) -> PlanRow:
    """Return the row with costs and sessions, from the machine's prices and the hours of work."""
    price, spot, units_per_h = instance.usd_per_h, instance.spot, instance.compute_units_per_h
    if spot is not None:
        row = _on_spot(row, spot, assumed)
    longest_s = _longest_session_s(instance, assumed)
    if longest_s is not None:
        row = _in_sessions(row, assumed, longest_s, instance.hours_per_week)
    hours = row.hours
    usd = None if hours is None or price is None else hours.times(price)
    units = None if hours is None or units_per_h is None else hours.times(units_per_h)
    purchases = _purchases(instance, today, assumed.stale_after_days)
    bought = None if units is None else cheapest_purchase(units, purchases)
    return row.changed(
        hours_per_week=instance.hours_per_week,
        usd_on_demand=usd if units is None or bought is None else bought.paid(units),
        compute_units=units,
        usd_of_units=usd if bought else None,
        purchases=purchases if units else (),
        price_as_of=instance.as_of,
        spot_as_of=spot.as_of if spot else None,
        is_stale=is_stale(instance.as_of, today, assumed.stale_after_days),
        is_spot_stale=spot is not None and is_stale(spot.as_of, today, assumed.stale_after_days),
        is_outdated=any(
            is_stale(as_of, today, assumed.outdated_after_days)
            for as_of in (instance.as_of, *([bought.as_of] if bought else []))
        ),
        is_spot_outdated=spot is not None and is_stale(spot.as_of, today, assumed.outdated_after_days),
        price_source=instance.source,
    )


def _purchases(instance: Instance, today: date, stale_after_days: int) -> tuple[UnitPurchase, ...]:
    """Return the ways to buy a notebook service's compute units."""
    months = [(one.name, one.units_per_month, one.usd_per_month, one.as_of) for one in instance.subscriptions]
    packs = [(f"pack of {one.units:g}", one.units, one.usd, one.as_of) for one in instance.unit_packs]
    return tuple(
        UnitPurchase(
            name=name,
            units=units,
            usd=usd,
            is_monthly=is_monthly,
            as_of=as_of,
            is_stale=is_stale(as_of, today, stale_after_days),
        )
        for is_monthly, sold in ((False, packs), (True, months))
        for name, units, usd, as_of in sold
    )


def _with_rate(row: PlanRow, request: PlanRequest, profile: Profile, per_gpu: Interval) -> PlanRow:
    """Return the row with the rate of all its GPUs, as far as its CPUs can feed them."""
    used, is_same_gpu = request.measured_vcpus_per_gpu, row.profile_id == request.measured_on
    rate, scaling, step, basis = request.rate_samples_per_s, None, None, row.basis
    if is_same_gpu and row.gpus == request.measured_gpus:
        has_fewer_cpus = used is not None and row.vcpus is not None and row.vcpus < used * row.gpus
        if request.rate_source is not RateSource.PREDICTED and not has_fewer_cpus:
            return row.changed(how=request.rate_source, rate_samples_per_s=rate, hours=_hours(request, rate))
        basis += f"; only {row.vcpus} CPUs here" if has_fewer_cpus else ""
    else:
        step = _predicted_step(request, profile, row.gpus, per_gpu.value)
        scaling = step.efficiency if step else _assumed_efficiency(request, row.gpus, is_same_gpu)
        rate = per_gpu.times(scaling or EXACTLY_ONE).times(row.gpus)
    loader = _loader(request, profile, row)
    fed = rate if loader is None else rate.at_most(loader)
    is_assumed = request.loader_samples_per_s_per_cpu is None or row.vcpus is None
    if loader is not None and is_assumed:  # it may load more
        fed = rate.changed(low=fed.low)
    return row.changed(
        how=RateSource.PREDICTED,
        rate_samples_per_s=fed,
        basis=basis,
        scaling=scaling,
        scaling_is_predicted=step is not None,
        hours=_hours(request, fed),
        loader_samples_per_s=loader,
        gpu_busy=min(1.0, fed.value / rate.value),
        loader_is_assumed=loader is not None and is_assumed,
    )


def _loader(request: PlanRequest, profile: Profile, row: PlanRow) -> Interval | None:
    """Return the loader's rate on a machine; None if unknown.

    If the machine's CPUs are unknown, those of the GPU's usual machine are assumed, else as many per GPU as
    were measured.
    """
    per_cpu, usual = request.loader_per_cpu, usual_instance(profile)
    each: float | None = request.measured_vcpus_per_gpu
    if usual is not None and usual.vcpus is not None:
        each = usual.vcpus / usual.gpus
    cpus = row.vcpus or (each and each * row.gpus)
    return None if per_cpu is None or not cpus else per_cpu.times(cpus)


def _predicted_step(
    request: PlanRequest, profile: Profile, gpus: int, samples_per_s: float
) -> ScaledStep | None:
    """Predict the step on several GPUs; None if the user gave the scaling, or too little is known.

    The loader is not included: it is considered for the whole machine.
    """
    batch, gradients_bytes = request.samples_per_step, request.gradients_bytes
    link = link_between(profile, gpus)
    if request.assumptions.scaling_is_given or request.measured_gpus > 1 or gpus == 1:
        return None
    if batch is None or gradients_bytes is None or link is None:
        return None
    return scaled_step(OneGpuStep(step_s=batch / samples_per_s, gradients_bytes=gradients_bytes), gpus, link)


def _assumed_efficiency(request: PlanRequest, gpus: int, same_gpu: bool) -> Interval | None:
    """Return the rate per GPU relative to the measured number of GPUs; None for the same rate.

    More GPUs lose the assumed efficiency, fewer regain it. The same number of another model may do either,
    since their links differ.
    """
    measured = request.measured_gpus
    low, high = request.assumptions.scaling_low, request.assumptions.scaling_high
    if gpus != measured:
        more = Interval.between(low, high)
        return more if gpus > measured else more.divide_into(1.0)
    return Interval.between(low / high, high / low) if gpus > 1 and not same_gpu else None


def _hours(request: PlanRequest, rate: Interval) -> Interval:
    return rate.divide_into(request.samples / _H)


def _longest_session_s(instance: Instance, assumed: PlanAssumptions) -> float | None:
    """Return the longest session of a notebook service; None for a machine rented by the hour.

    A machine paid with compute units, or with sessions or a quota, is a notebook service.
    """
    own = [h * _H for h in (instance.max_session_h, instance.hours_per_week) if h is not None]
    if not own and instance.compute_units_per_h is None:
        return None
    return min([assumed.max_session_s, *own])


def _in_sessions(
    row: PlanRow, assumed: PlanAssumptions, longest_s: float, hours_per_week: float | None
) -> PlanRow:
    """Return the row with its number of sessions, weeks and hours, or with the obstacle to them."""
    work, cost_s, overhead_s, interval_s = row.hours, assumed.checkpoint_cost_s, 0.0, None
    row = row.changed(max_session_s=longest_s)
    if work is None:
        return row
    if cost_s is not None:  # a session may end at any time
        overhead_s, every_s = cost_s + assumed.restart_cost_s, daly_interval_s(cost_s, longest_s)
        work = work.map_increasing(lambda h: with_checkpoints_s(h * _H, every_s, cost_s, longest_s) / _H)
        interval_s = every_s
    if work.high * _H > longest_s and (cost_s is None or overhead_s >= longest_s):
        why = "a session is too short for one restart and one checkpoint"
        if cost_s is None:
            why = "it may take longer than a session, and the script writes no checkpoints"
        return row.changed(hours=None, obstacle=row.obstacle or why)
    weekly_s = None if hours_per_week is None else hours_per_week * _H

    def cut(hours: float) -> WeeklyQuota:
        return under_quota(hours * _H, longest_s, overhead_s, weekly_s)

    sessions = work.map_increasing(lambda h: cut(h).sessions)
    return row.changed(
        hours=work.map_increasing(lambda h: h + (cut(h).sessions - 1) * overhead_s / _H),
        sessions=sessions,
        checkpoint_interval_s=interval_s if interval_s and interval_s < work.value * _H else None,
        weeks=work.map_increasing(lambda h: cut(h).weeks) if weekly_s else None,
        elapsed_hours=work.map_increasing(lambda h: cut(h).elapsed_s / _H) if weekly_s else None,
    )


def _on_spot(row: PlanRow, price: SpotPrice, assumed: PlanAssumptions) -> PlanRow:
    """Return the row with its spot price; unchanged if interruptions would keep it from finishing."""
    work, every_s, cost_s = row.hours, assumed.interrupted_every_s, assumed.checkpoint_cost_s
    if work is None or (cost_s is None and work.value * _H > every_s):
        return row

    def with_interruptions(hours: float) -> float:
        return spot_time_s(hours * _H, cost_s, every_s, assumed.restart_cost_s) / _H

    if with_interruptions(work.high) > LONGEST_H:
        return row
    hours = work.map_increasing(with_interruptions)
    per_h = Interval.between(price.low_usd_per_h, price.high_usd_per_h)
    interval_s = None if cost_s is None else daly_interval_s(cost_s, every_s)
    is_worth_it = interval_s is not None and interval_s < work.value * _H
    return row.changed(
        spot_hours=hours,
        usd_spot=hours.times(per_h),
        checkpoint_interval_s=interval_s if is_worth_it else None,
    )


def _fits(request: PlanRequest, profile: Profile, gpu_rate: _GpuRate) -> bool | None:
    """Return whether the measured peak fits; None if unknown, for instance in another precision."""
    own = request.predicted_on(profile.id)
    if own is not None or profile.id == request.measured_on:
        return own.fits if own else True
    memory_bytes = profile.capacity_bytes
    if request.peak_reserved_bytes is None or memory_bytes is None:
        return None
    if request.peak_reserved_bytes > POLICIES[Tier.AGGRESSIVE].vram_share * memory_bytes:
        return False
    return True if gpu_rate.precision in (request.precision, request.precision.alike) else None


def _has_less_memory(profile: Profile, measured: Profile | None) -> bool:
    if measured is None or profile.memory_bytes is None or measured.memory_bytes is None:
        return False
    return profile.memory_bytes < measured.memory_bytes


def _obstacle(request: PlanRequest, profile: Profile, fits: bool | None) -> str | None:
    """Return what prevents training on this GPU; None if nothing does, as on the measured one."""
    if fits is False:
        return "the peak does not fit its memory; a smaller batch may"
    return None if profile.id == request.measured_on or profile.runs_current_torch else NO_TORCH_BUILD


def is_stale(as_of: str, today: date, stale_after_days: int) -> bool:
    """Return whether a price may be older than it should be.

    Args:
        as_of: such as "2026-03-10"; "2026-03" or "2026" mean the first day.
        today: the current date.
        stale_after_days: the maximum age in days.
    """
    year, month, day = (*map(int, as_of.split("-")), 1, 1)[:3]
    return (today - date(year, month, day)).days > stale_after_days
