"""Results of `tunekit scale` from its trials: rates, efficiency, step breakdown, fitted law. Pure."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from tunekit.predict.scaling import fit_scaling, fitted_efficiency, link_between, scaled_step
from tunekit.recommend.learning_rate import base_learning_rate, rule_of
from tunekit.recommend.noise import noise_floor, rate_interval, speedup
from tunekit.recommend.scaling import batch_warnings
from tunekit.records.interval import EXACTLY_ONE, Interval
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.profile import Profile
from tunekit.records.recommendation import LearningRateRule
from tunekit.records.run import SearchOptions
from tunekit.records.scaling import OneGpuStep, ScaledStep, ScalingMode
from tunekit.records.scaling_run import ScaledCount, ScalingRun, StepSplit
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Measured, measured

_FELT_SHARE = 0.05
"""Share of an iteration spent waiting for data from which the fitted law can't predict more processes."""
_WIDEST = 2.0
"""Largest ratio of high to low end of the largest count's efficiency at which the law still predicts more."""
_FURTHER = (2, 4)
"""Multiples of the largest count that the fitted law predicts."""


def with_figures(run: ScalingRun, here: Profile) -> ScalingRun:
    """Return a run with everything derived from its trials, except findings.

    Args:
        run: the run with its trials.
        here: profile of the device that the trials ran on.
    """
    least = measured(trials_of(run, run.options.processes[0]))
    if not least:
        return run.changed(counts=tuple(_missing(run, n) for n in run.options.processes))
    rule = rule_of(run.discovery)
    counts = tuple(_count(run, processes, least, rule) for processes in run.options.processes)
    run = run.changed(
        counts=counts,
        mode=_mode(counts, run.options.mode),
        fit=None,
        expected=(),
        noise_floor=noise_floor([_rate(one) for one in least]),
        lr_rule=rule,
    )
    return run if run.is_without_wrapper else _by_the_law(run, least, here)


def _by_the_law(run: ScalingRun, least: Sequence[Measured], here: Profile) -> ScalingRun:
    """Return a run with the prediction from one process, the fitted law, and what it expects beyond."""
    predict = _predictor(run, least, here)
    rates = {
        one.processes: one.rate_samples_per_s.value
        * one.step.time_s
        / (one.step.time_s - one.step.data_wait_s)
        for one in run.measured
        if one.rate_samples_per_s and one.step and one.step.compute_s
    }
    fit = fit_scaling(rates, run.mode)

    def beside_the_law(one: ScaledCount) -> ScaledCount:
        fitted = fitted_efficiency(fit, one.processes) if fit else None
        return one.changed(predicted=predict(one.processes), fitted=fitted) if one.rate_samples_per_s else one

    run = run.changed(fit=fit, counts=tuple(map(beside_the_law, run.counts)))
    largest, alone = run.measured[-1], run.measured[0].rate_samples_per_s
    if fit is None or why_no_further(largest):
        return run
    assert largest.efficiency is not None and alone is not None
    spread, expected = largest.efficiency.times(1 / largest.efficiency.value), []
    for n in (times * max(rates) for times in _FURTHER):
        share, linear = fitted_efficiency(fit, n), n * alone.value
        expected.append(
            ScaledCount(
                processes=n,
                rate_samples_per_s=spread.times(linear * share),
                linear_samples_per_s=linear,
                efficiency=spread.times(share),
                fitted=share,
            )
        )
    return run.changed(expected=tuple(expected))


# --- rates and efficiency ------------------------------------------------------------------


def trials_of(run: ScalingRun, processes: int, no_sync: bool = False) -> tuple[TrialRecord, ...]:
    """Return a count's trials, failed ones included, without those that only discovered its loop."""
    return tuple(
        one
        for one in run.trials
        if one.processes == processes
        and one.no_sync == no_sync
        and (one.round is not None or one.failure is not None)
    )


def _missing(run: ScalingRun, processes: int) -> ScaledCount:
    records = trials_of(run, processes)
    failure = next((record.failure for record in records if record.failure), None)
    why = failure.with_remedy if failure else run.left_out.get(processes, "not run")
    return ScaledCount(processes=processes, trials=tuple(one.number for one in records), why_missing=why)


def _rate(one: Measured) -> float:
    """Return samples/s of all processes in steady steps; epoch boundaries depend on the count."""
    loop = one.loop
    return loop.rate_samples_per_s * loop.steady_samples / loop.steady_time_s / loop.rank_rate_samples_per_s


def _rate_interval(rounds: Sequence[Measured]) -> Interval:
    return rate_interval([_rate(one) for one in rounds], rounds[0].loop)


def _efficiency(rounds: Sequence[Measured], least: Sequence[Measured]) -> Interval:
    """Return a process's rate as a share of that at the smallest count.

    Rounds are paired; with fewer than two pairs the range comes from the ranges of both rates.
    """
    ours, theirs = ({one.record.round: _rate(one) for one in rows} for rows in (rounds, least))
    paired = [number for number in ours if number in theirs]
    factor = speedup([ours[one] for one in paired], [theirs[one] for one in paired], None)
    if factor is None:
        own, other = _rate_interval(rounds), _rate_interval(least)
        factor = Interval.bounded(
            own.low / other.high, own.value / other.value, own.high / max(other.low, 1e-12)
        )
    return factor.times(least[0].loop.world_size / rounds[0].loop.world_size)


def _count(
    run: ScalingRun, processes: int, least: Sequence[Measured], rule: LearningRateRule | None
) -> ScaledCount:
    rounds = measured(trials_of(run, processes))
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
        rate_samples_per_s=_rate_interval(rounds),
        linear_samples_per_s=_rate_interval(least).value * processes / least[0].loop.world_size,
        efficiency=EXACTLY_ONE if processes == least[0].loop.world_size else _efficiency(rounds, least),
        step=_split(loops, [one.loop for one in measured(trials_of(run, processes, no_sync=True))]),
        batch_size=batch,
        global_batch=global_batch,
        epoch_samples=loop.epoch_samples,
        threads=loop.threads.intra_op if loop.threads else None,
        workers=processes * loop.num_workers,
        ram_bytes=max(one.measurement.memory.peak_pss_bytes for one in rounds),
        lr_linear=base.scaled(global_batch, LearningRateRule.LINEAR) if base else None,
        lr_sqrt=base.scaled(global_batch, LearningRateRule.SQRT) if base else None,
        warnings=tuple(batch_warnings(global_batch, base.batch if base else None, rule)),
    )


def _mode(counts: Sequence[ScaledCount], asked: ScalingMode) -> ScalingMode:
    """Return the measured mode: whether each process's batch or the global batch stayed the same."""
    known = [one for one in counts if one.batch_size is not None]
    if len(known) < 2:
        return asked
    first, last = known[0], known[-1]
    assert first.batch_size and last.batch_size
    kept = first.batch_size * first.processes
    is_shared = last.batch_size < first.batch_size and math.isclose(
        last.batch_size * last.processes, kept, rel_tol=last.processes / kept
    )
    return ScalingMode.STRONG if is_shared else ScalingMode.WEAK


def why_no_further(largest: ScaledCount) -> str | None:
    """Return why the fitted law can't predict more processes than were measured, or None."""
    step, efficiency = largest.step, largest.efficiency
    if step is not None and step.data_wait_s > _FELT_SHARE * step.time_s:
        return "they wait for data, which the law leaves out"
    if efficiency is not None and efficiency.high > _WIDEST * efficiency.low:
        return f"the efficiency on {largest.processes} is too uncertain; more --rounds would narrow it"
    return None


# --- where an iteration's time goes --------------------------------------------------------


def _split(together: Sequence[LoopMeasurement], apart: Sequence[LoopMeasurement]) -> StepSplit:
    """Return where the time of an iteration goes.

    Args:
        together: loops of the unchanged training.
        apart: loops that summed no gradients; empty for one process, or if they failed.
    """
    time_s, wait_s = fmean(one.step_time_s for one in together), fmean(map(_wait_s, together))
    exposed_s = straggler_s = None
    if apart:
        # By the ranks' own clocks, if each was timed.
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
    """Seconds per iteration that a count loses compared with the smallest one, by part.

    A part may exceed the total if other parts got faster; removing it can't gain more than linear scaling.
    """

    time_s: float
    """Time of the whole iteration."""
    total_s: float
    """Time lost compared with linear scaling."""
    exposed_s: float
    straggler_s: float
    data_wait_s: float
    compute_s: float

    def at_most(self, part_s: float) -> float:
        """Return the most that removing a part can save."""
        return min(part_s, self.total_s)

    def gain(self, part_s: float) -> float:
        """Return the speedup from removing a part."""
        return self.time_s / (self.time_s - self.at_most(part_s))

    def is_felt(self, part_s: float, share: float) -> bool:
        """Return whether removing a part saves at least a share of the iteration."""
        return part_s > 0 and self.at_most(part_s) >= share * self.time_s


def losses_of(least: ScaledCount, other: ScaledCount) -> Losses:
    """Return what an iteration of a measured count loses compared with the smallest count."""
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
    """Return an iteration's data wait; on a GPU by its own clock, as queued work hides the host's wait."""
    if loop.device_parts is not None:
        return loop.device_parts.stall_s / loop.device_parts.batches
    return loop.parts.data_wait_s / loop.steady_batches


def _first_over_mean(loop: LoopMeasurement) -> float:
    """Return the rate of rank 0 over the mean of all; 1 if they were not timed."""
    rates = [one.samples_per_s for one in loop.ranks] or [1.0]
    return rates[0] / fmean(rates)


# --- predicted -----------------------------------------------------------------------------


def _predictor(
    run: ScalingRun, least: Sequence[Measured], here: Profile
) -> Callable[[int], ScaledStep | None]:
    """Return a function that predicts the step on several GPUs from that on one, or None if it can't."""
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
        return scaled_step(one, gpus, link, run.mode) if link is not None else None

    return predicted


def gradients_of(run: ScalingRun) -> int | None:
    """Return the bytes of gradients that a process sends, as reported by DDP, else by its model."""
    loops = [one.measurement.loop for one in run.trials if one.measurement]
    sent = (one.data_parallel.gradient_bytes for one in loops if one.data_parallel)
    own = (one.model.gradients_bytes for one in loops if one.model)
    return next((size for size in (*sent, *own) if size is not None), None)
