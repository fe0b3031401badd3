"""The rate below which a search trial is given up early, because no tier could choose its config. Pure."""

import math
from collections.abc import Sequence

from tunekit.recommend.loss_guard import Mode, guarded_modes
from tunekit.recommend.noise import t_quantile
from tunekit.recommend.numerics import LossOutcome
from tunekit.recommend.planned_training import PlannedTraining, planned_training
from tunekit.recommend.tiers import balanced_tolerance
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.recommendation import NoiseFloor, Tier
from tunekit.records.run import SearchOptions
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Trials
from tunekit.search.assemble import pick_tiers, run_noise

UNKNOWN_FLOOR = 0.10
"""By how much fresh processes of one config are taken to differ until the run has shown it."""


def rate_to_beat(
    records: Sequence[TrialRecord], host: Host, options: SearchOptions, config: TrainConfig | None = None
) -> float | None:
    """Return the steady samples/s of one rank below which a config can't be any tier's choice.

    It is the lowest over the tiers of what the tier's present pick is worth at the least: the lower end of
    its interval, less what fresh processes differ by, and for Balanced less what it gives up for a smaller
    config. Tiers choose by whole epochs, the agent judges steady batches: a boundary costs time, so what a
    steady rate promises is more than the whole epochs hold. Where boundaries were seen to save time, the
    figure is lowered by the most that they saved.

    Where the finish of the planned training counts, the pick's rate over all of it takes the place of that
    over epochs: no config's steady rate is less than what its training comes to with its start.

    Picks whose precision or compile may yet be barred for their losses don't count, unless the config has the
    same: then it would be barred with them.

    Args:
        records: all trials so far.
        host: the machine whose limits hold.
        options: what the user asked.
        config: the candidate; None for one of the baseline's precision and compile.

    Returns:
        The rate; None before a baseline, and while a tier has no pick or the pick's interval is unknown.
    """
    trials = Trials(tuple(records))
    if trials.baseline is None:
        return None
    noise = run_noise(trials)
    modes = _lasting_modes(records) | ({Mode.of(config)} if config is not None else set())
    lasting = [one for one in trials.candidates if one.config is not None and Mode.of(one.config) in modes]
    picks = pick_tiers(trials, host, options, lasting)
    planned = planned_training(options, records)
    least = [_at_least(tier, picks[tier], noise, planned) for tier in Tier if tier in picks]
    known = [rate for rate in least if rate is not None]
    if len(known) < len(Tier):
        return None
    return min(known) / _most_saved(records)


def _lasting_modes(records: Sequence[TrialRecord]) -> set[Mode]:
    """Return the modes that no run for losses will bar any more: the baseline's, and those that agree."""
    own = next((record.config for record in records if record.is_baseline_config and record.config), None)
    agreeing = {one.mode for one in guarded_modes(records) if one.verdict.outcome is LossOutcome.OK}
    return agreeing | ({Mode.of(own)} if own is not None else set())


def _at_least(
    tier: Tier, pick: TrialRecord, noise: NoiseFloor | None, planned: PlannedTraining
) -> float | None:
    """Return the samples/s of one rank below which nothing takes the pick's place; None if unknown."""
    loop = pick.measurement.loop if pick.measurement else None
    if loop is None or loop.rate_interval_relative is None:
        return None
    rank_rate = planned.objective_samples_per_s(pick.config, loop) / loop.world_size
    lowest = rank_rate * max(0.0, 1 - loop.rate_interval_relative) * _kept(noise)
    if tier is Tier.BALANCED:
        lowest *= 1 - balanced_tolerance(noise.relative if noise else UNKNOWN_FLOOR)
    return lowest or None


def _kept(noise: NoiseFloor | None) -> float:
    """Return the factor that the next process of a config stays above, beside one that was measured."""
    if noise is None:
        return 1 / (1 + UNKNOWN_FLOOR)
    return math.exp(-min(t_quantile(noise.pairs) * math.log1p(noise.relative), 700.0))


def _most_saved(records: Sequence[TrialRecord]) -> float:
    """Return the largest rate over whole epochs as a factor of the steady rate; at least 1."""
    loops = [record.measurement.loop for record in records if record.measurement]
    return max([1.0, *(loop.rank_rate_samples_per_s / _steady_rate(loop) for loop in loops)])


def _steady_rate(loop: LoopMeasurement) -> float:
    return loop.steady_samples / loop.steady_time_s
