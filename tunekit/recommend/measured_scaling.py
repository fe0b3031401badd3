"""What the trials of `tunekit scale` come to: rates, efficiency, where steps' time goes, the law. Pure."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from tunekit.predict.scaling import fit_scaling, fitted_efficiency, link_between, scaled_step
from tunekit.recommend.learning_rate import base_learning_rate, rule_of
from tunekit.recommend.noise import mean_interval, noise_floor, speedup
from tunekit.recommend.scaling import batch_warnings, scaled_lr
from tunekit.records.config import TrainConfig
from tunekit.records.data_parallel import DdpSettings
from tunekit.records.interval import EXACTLY_ONE, Interval
from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.records.profile import Profile
from tunekit.records.recommendation import LearningRateRule, NoiseFloor
from tunekit.records.run import SearchOptions
from tunekit.records.scaling import OneGpuStep, ScaledStep, ScalingMode
from tunekit.records.scaling_run import (
    DdpGain,
    ExpectedCount,
    ScaledCount,
    ScalingRun,
    StepSplit,
)
from tunekit.records.trial import TrialRecord

AS_IT_IS = DdpSettings()
APART = DdpSettings(sync_gradients=False)
"""No gradient is summed: what a step gains by that is communication that the backward pass doesn't hide."""

KNOBS = {
    "gradient_as_bucket_view": DdpSettings(gradient_as_bucket_view=True),
    "static_graph": DdpSettings(static_graph=True),
    "bucket_cap_mb 10": DdpSettings(bucket_cap_mb=10),
    "bucket_cap_mb 100": DdpSettings(bucket_cap_mb=100),
}
"""What is tried of DistributedDataParallel; buckets have 25 MiB by default."""

_FELT_SHARE = 0.05
"""Of an iteration, from which on waiting for data says more of further processes than the fitted law."""
_WIDEST = 2.0
"""Ends of the largest count's efficiency, high over low, up to which the law speaks of further ones."""
_FURTHER = (2, 4)
"""Times the largest count that the fitted law is asked for."""


class _Round(NamedTuple):
    """One measured trial of a count."""

    record: TrialRecord
    measurement: Measurement
    config: TrainConfig

    @property
    def loop(self) -> LoopMeasurement:
        return self.measurement.loop


def with_figures(run: ScalingRun, here: Profile) -> ScalingRun:
    """Return a run with everything that follows from its trials, but for findings.

    Args:
        run: with its trials.
        here: profile of the device that they ran on.
    """
    least = _rounds(run, run.options.processes[0], AS_IT_IS)
    if not least:
        return run.changed(counts=tuple(_missing(run, n) for n in run.options.processes), gains=())
    rule = rule_of(run.discovery)
    counts = tuple(_count(run, processes, least, rule) for processes in run.options.processes)
    mode = _mode(counts, run.options.mode)
    trains_together = not run.changed(counts=counts).is_without_wrapper
    predict = _predictor(run, least, here, mode)
    counts = tuple(
        one.changed(predicted=predict(one.world_size))
        if one.world_size is not None and run.options.hosts is None and trains_together
        else one
        for one in counts
    )
    rates = {
        one.world_size: one.rate_samples_per_s.value
        * one.step.time_s
        / (one.step.time_s - one.step.data_wait_s)
        for one in counts
        if one.world_size and one.rate_samples_per_s and one.step and one.step.compute_s
    }
    fit = fit_scaling(rates, mode) if trains_together else None
    expected: tuple[ExpectedCount, ...] = ()
    alone = counts[0]
    if fit is not None and alone.rate_samples_per_s is not None:
        counts = tuple(
            one.changed(fitted=fitted_efficiency(fit, one.world_size)) if one.world_size else one
            for one in counts
        )
        largest = next(one for one in reversed(counts) if one.efficiency is not None)
        further = () if why_no_further(largest) else tuple(times * max(rates) for times in _FURTHER)
        assert largest.efficiency is not None
        spread = largest.efficiency.times(1 / largest.efficiency.value)
        expected = tuple(
            ExpectedCount(
                processes=n,
                efficiency=spread.times(fitted_efficiency(fit, n)),
                rate_samples_per_s=spread.times(
                    n * alone.rate_samples_per_s.value * fitted_efficiency(fit, n)
                ),
            )
            for n in further
        )
    return run.changed(
        counts=counts,
        mode=mode,
        fit=fit,
        expected=expected,
        gains=_gains(run),
        noise_floor=noise_floor([_rate(one) for one in least]),
        lr_rule=rule,
    )


# --- rates and efficiency ------------------------------------------------------------------


def trials_of(run: ScalingRun, processes: int, ddp: DdpSettings = AS_IT_IS) -> tuple[TrialRecord, ...]:
    """Return a count's trials under some settings, those that failed too, without those that only learnt."""
    return tuple(
        one
        for one in run.trials
        if one.processes == processes
        and (one.ddp or AS_IT_IS) == ddp
        and (one.round is not None or one.failure is not None)
    )


def why_none(records: Sequence[TrialRecord]) -> str:
    """Return why there is no figure of some trials."""
    failure = next((record.failure for record in records if record.failure), None)
    if failure is None:
        return "not run"
    remedy = f"; {failure.remedy}" if failure.remedy else ""
    return f"{failure.text}{remedy}"


def _rounds(run: ScalingRun, processes: int, ddp: DdpSettings) -> list[_Round]:
    return [
        _Round(one, one.measurement, one.config)
        for one in trials_of(run, processes, ddp)
        if one.measurement is not None and one.config is not None
    ]


def _missing(run: ScalingRun, processes: int) -> ScaledCount:
    records = trials_of(run, processes)
    numbers = tuple(record.number for record in records)
    why = run.left_out.get(processes) or why_none(records)
    return ScaledCount(processes=processes, trials=numbers, why_missing=why)


def _rate(one: _Round) -> float:
    """Return samples/s of all processes in steady steps: how often epochs end follows from the count."""
    loop = one.loop
    return loop.rate_samples_per_s * loop.steady_samples / loop.steady_time_s / loop.rank_rate_samples_per_s


def _rate_interval(rounds: Sequence[_Round]) -> Interval:
    """Return the rate over rounds; that of one has the range that it gives itself, if it gives one."""
    rates = [_rate(one) for one in rounds]
    own = rounds[0].loop.rate_interval_relative
    if len(rates) > 1 or own is None:
        return mean_interval(rates)
    half = min(1.0, own)
    return Interval(value=rates[0], low=rates[0] * (1 - half), high=rates[0] * (1 + half))


def _efficiency(rounds: Sequence[_Round], least: Sequence[_Round]) -> Interval:
    """Return the rate of a process as a share of that of the least count, paired by round."""
    if rounds[0].loop.world_size == least[0].loop.world_size:
        return EXACTLY_ONE
    return _over(rounds, least).times(least[0].loop.world_size / rounds[0].loop.world_size)


def _over(rounds: Sequence[_Round], others: Sequence[_Round], noise: NoiseFloor | None = None) -> Interval:
    """Return the rate over that of others, paired by round; without two pairs by the ranges of both."""
    ours, theirs = ({one.record.round: _rate(one) for one in rows} for rows in (rounds, others))
    paired = [number for number in ours if number in theirs]
    factor = speedup([ours[one] for one in paired], [theirs[one] for one in paired], noise)
    if factor is not None:
        return factor
    own, other = _rate_interval(rounds), _rate_interval(others)
    return Interval.bounded(own.low / other.high, own.value / other.value, own.high / max(other.low, 1e-12))


def _count(
    run: ScalingRun, processes: int, least: Sequence[_Round], rule: LearningRateRule | None
) -> ScaledCount:
    rounds = _rounds(run, processes, AS_IT_IS)
    if not rounds:
        return _missing(run, processes)
    loops = [one.loop for one in rounds]
    loop, config = loops[0], rounds[0].config
    batch = loop.batch_size or round(loop.steady_samples / loop.steady_batches)
    global_batch = batch * loop.world_size * config.accumulate_grad_batches
    given = SearchOptions(base_lr=run.options.base_lr, base_batch=run.options.base_batch)
    base = base_learning_rate(run.discovery, given, least[0].config)
    return ScaledCount(
        processes=processes,
        trials=tuple(one.record.number for one in rounds),
        world_size=loop.world_size,
        rate_samples_per_s=_rate_interval(rounds),
        it_per_s=fmean(one.steady_it_per_s for one in loops),
        efficiency=_efficiency(rounds, least),
        step=_split(loops, [one.loop for one in _rounds(run, processes, APART)]),
        batch_size=batch,
        global_batch=global_batch,
        epoch_samples=loop.epoch_samples,
        threads=loop.threads.intra_op if loop.threads else None,
        workers=processes * loop.num_workers,
        ram_bytes=max(one.measurement.memory.peak_pss_bytes for one in rounds),
        lr_linear=scaled_lr(base, global_batch, LearningRateRule.LINEAR),
        lr_sqrt=scaled_lr(base, global_batch, LearningRateRule.SQRT),
        warnings=tuple(batch_warnings(global_batch, base, rule)),
    )


def _mode(counts: Sequence[ScaledCount], asked: ScalingMode) -> ScalingMode:
    """Return what stayed as it was: each process's batch, or the global one, which a script may keep."""
    known = [one for one in counts if one.batch_size is not None and one.world_size is not None]
    if len(known) < 2:
        return asked
    first, last = known[0], known[-1]
    assert first.batch_size and first.world_size and last.batch_size and last.world_size
    kept = first.batch_size * first.world_size
    is_shared = last.batch_size < first.batch_size and math.isclose(
        last.batch_size * last.world_size, kept, rel_tol=last.world_size / kept
    )
    return ScalingMode.STRONG if is_shared else ScalingMode.WEAK


def why_no_further(largest: ScaledCount) -> str | None:
    """Return why the fitted law does not speak of more processes than were measured; None where it does."""
    step, efficiency = largest.step, largest.efficiency
    if step is not None and step.data_wait_s > _FELT_SHARE * step.time_s:
        return "they wait for data, which the law leaves out"
    if efficiency is not None and efficiency.high > _WIDEST * efficiency.low:
        return f"the efficiency on {largest.world_size} is too uncertain; more --rounds would narrow it"
    return None


# --- where an iteration's time goes --------------------------------------------------------


def _split(together: Sequence[LoopMeasurement], apart: Sequence[LoopMeasurement]) -> StepSplit:
    """Return where the time of an iteration goes.

    Args:
        together: trials of the training as it is.
        apart: those that summed no gradients; empty for one process, and where they failed.
    """
    time_s, wait_s = fmean(one.step_time_s for one in together), fmean(map(_wait_s, together))
    exposed_s = straggler_s = None
    if apart:
        # By the ranks' own clocks, where each was timed.
        means = [one.step_time_s * _first_over_mean(one) for one in apart]
        slowest = [mean / (one.slowest_rank_share or 1.0) for mean, one in zip(means, apart, strict=True)]
        mean_s, slowest_s = fmean(means), fmean(slowest)
        exposed_s = max(0.0, time_s - slowest_s)
        straggler_s = max(0.0, min(time_s, slowest_s) - mean_s)
    rest_s = time_s - (exposed_s or 0.0) - (straggler_s or 0.0)
    wait_s = min(wait_s, rest_s)
    return StepSplit(
        time_s=time_s,
        compute_s=max(0.0, rest_s - wait_s),
        exposed_s=exposed_s,
        straggler_s=straggler_s,
        data_wait_s=wait_s,
    )


class Losses(NamedTuple):
    """Seconds of an iteration that a count loses against the least one, by part.

    A part may be longer than the whole, where others take less than they did alone: what mending it brings
    ends at linear scaling.
    """

    time_s: float
    """Of the iteration."""
    total_s: float
    """What it takes beyond linear scaling."""
    exposed_s: float
    straggler_s: float
    data_wait_s: float
    compute_s: float

    def at_most(self, part_s: float) -> float:
        """Return what mending a part saves at most."""
        return min(part_s, self.total_s)

    def gain(self, part_s: float) -> float:
        """Return the rate without a part, as a factor of the present one."""
        return self.time_s / (self.time_s - self.at_most(part_s))

    def is_felt(self, part_s: float, share: float) -> bool:
        """Return whether mending a part saves at least a share of the iteration."""
        return part_s > 0 and self.at_most(part_s) >= share * self.time_s


def losses_of(least: ScaledCount, other: ScaledCount) -> Losses:
    """Return what an iteration of a measured count loses, held against that of the least count."""
    before, after = least.step, other.step
    assert before is not None and after is not None and other.efficiency is not None
    share = other.batch_size / least.batch_size if other.batch_size and least.batch_size else 1.0
    return Losses(
        time_s=after.time_s,
        total_s=after.time_s * max(0.0, 1 - other.efficiency.value),
        exposed_s=after.exposed_s or 0.0,
        straggler_s=after.straggler_s or 0.0,
        data_wait_s=max(0.0, after.data_wait_s - before.data_wait_s * share),
        compute_s=max(0.0, after.compute_s - before.compute_s * share),
    )


def _wait_s(loop: LoopMeasurement) -> float:
    """Return what an iteration waits for data: on a GPU by its own clock, as queued work hides the host's."""
    if loop.device_parts is not None:
        return loop.device_parts.stall_s / loop.device_parts.batches
    return loop.data_wait_s / loop.steady_batches


def _first_over_mean(loop: LoopMeasurement) -> float:
    """Return the rate of rank 0 over the mean of all; 1 where they were not timed."""
    rates = [one.samples_per_s for one in loop.ranks]
    return rates[0] / fmean(rates) if rates else 1.0


# --- predicted -----------------------------------------------------------------------------


def _predictor(
    run: ScalingRun, least: Sequence[_Round], here: Profile, mode: ScalingMode
) -> Callable[[int], ScaledStep | None]:
    """Return what predicts the step on a number of GPUs from that on one; None where nothing can."""
    first = least[0]
    gradients_bytes = gradients_of(run)
    if first.loop.world_size != 1 or gradients_bytes is None:
        return lambda _: None
    batches = first.config.accumulate_grad_batches
    split = _split([one.loop for one in least], ())
    work = first.loop.loader_work
    loader_s = batches * work.cpu_s / work.batches / run.host.cpus if work and work.batches else 0.0
    one = OneGpuStep(
        step_s=batches * max(split.compute_s, 1e-9),
        gradients_bytes=gradients_bytes,
        loader_s=loader_s if first.loop.num_workers else 0.0,
    )

    def predicted(gpus: int) -> ScaledStep | None:
        link = link_between(here, gpus)
        return scaled_step(one, gpus, link, mode) if link is not None else None

    return predicted


def gradients_of(run: ScalingRun) -> int | None:
    """Return the bytes of gradients that a process sends: as DDP has them, else those of its model."""
    loops = [one.measurement.loop for one in run.trials if one.measurement]
    sent = (one.data_parallel.gradient_bytes for one in loops if one.data_parallel)
    own = (one.model.gradients_bytes for one in loops if one.model)
    return next((size for size in (*sent, *own) if size is not None), None)


# --- settings of DDP -----------------------------------------------------------------------


def settings_to_try(run: ScalingRun, processes: int) -> dict[str, DdpSettings]:
    """Return the settings that are not in force already, by name; those that can't be told are tried."""
    loops = [one.loop for one in _rounds(run, processes, AS_IT_IS)]
    seen = next((one.data_parallel.settings for one in loops if one.data_parallel), None)
    in_force = seen.asked() if seen is not None else {}
    return {
        name: settings
        for name, settings in KNOBS.items()
        if any(in_force.get(field) != value for field, value in settings.asked().items())
    }


def _gains(run: ScalingRun) -> tuple[DdpGain, ...]:
    gains = []
    for name, settings in KNOBS.items():
        processes = next((one.processes for one in run.trials if one.ddp == settings), None)
        if processes is None:
            continue
        records = trials_of(run, processes, settings)
        ours, plain = (_rounds(run, processes, ddp) for ddp in (settings, AS_IT_IS))
        noise = noise_floor([_rate(one) for one in plain])
        gains.append(
            DdpGain(
                name=name,
                settings=settings,
                processes=processes,
                trials=tuple(record.number for record in records),
                factor=_over(ours, plain, noise) if ours and plain else None,
                why_missing=None if ours else why_none(records),
            )
        )
    return tuple(gains)
