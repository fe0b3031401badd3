"""When to stop: a search if no trial is worth its time, a trial if no tier could choose its config."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tunekit.recommend.noise import t_quantile
from tunekit.recommend.numerics import Mode, guarded_modes
from tunekit.recommend.planned_training import PlannedTraining, planned_training
from tunekit.recommend.tiers import balanced_tolerance, pick_tiers, run_noise
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.recommendation import LossOutcome, NoiseFloor, Tier
from tunekit.records.run import SearchOptions
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Trials
from tunekit.tune.acquisition import Criteria, Proposal
from tunekit.tune.study import Study
from tunekit.units import rate_text

MIN_TRIALS = 4
"""Search trials that run even if little is expected of them, so that a wrong model is noticed."""


@dataclass(frozen=True)
class Stop:
    """The decision to run no further search trial."""

    why: str | None = None
    """The reason; None if the budget has no room for another trial."""


def next_trial(
    study: Study, criteria: Criteria, search_trials: int, pending: Sequence[TrainConfig] = ()
) -> Proposal | Stop:
    """Return what to try next, or why to stop.

    Args:
        study: the run's study.
        criteria: what the trial must promise and how much it may cost.
        search_trials: number of finished search trials.
        pending: configs that other hosts are measuring.
    """
    proposal = study.propose(criteria, pending)
    if proposal is not None and (search_trials < MIN_TRIALS or _why_rejected(proposal, criteria) is None):
        return proposal
    best = study.propose(replace(criteria, max_s=math.inf, max_again_s=math.inf), pending)
    if best is None:
        return Stop(study.why_none())
    if proposal is None or _why_rejected(best, criteria) is None:
        # A trial may be worth its time, but there isn't enough left.
        return Stop()
    return Stop(_why_rejected(best, criteria))


def _why_rejected(proposal: Proposal, criteria: Criteria) -> str | None:
    """Return why the proposal misses the criteria; None if it meets them or nothing was measured yet."""
    if proposal.gain is not None and proposal.gain < criteria.min_gain:
        return f"no untried config is expected to be more than {criteria.min_gain:.1%} faster"
    if not proposal.pays:
        return "no untried config is expected to save the planned run more time than its trial costs"
    return None


def expectation(rate: float | None, ranks: int, best_samples_per_s: float | None) -> str:
    """Return the expectation for a proposal, such as "model: 1,210 samples/s expected (+18%)"."""
    if rate is None or best_samples_per_s is None:
        return "nothing was measured yet: a small batch"
    more = rate * ranks / best_samples_per_s - 1
    return f"model: {rate_text(rate * ranks)} samples/s expected ({more:+.0%})"


# --- giving a trial up early -----------------------------------------------------------------

UNKNOWN_FLOOR = 0.10
"""Assumed difference between fresh processes of one config until the run has measured it."""


def rate_to_beat(
    records: Sequence[TrialRecord], host: Host, options: SearchOptions, config: TrainConfig | None = None
) -> float | None:
    """Return the steady samples/s of one rank below which no tier can choose a config.

    This is the smallest over the tiers of a lower bound for the tier's current pick: the low end of its
    interval, minus the difference between fresh processes, and for Balanced minus what it gives up for a
    smaller config. Tiers compare rates over whole epochs while the agent sees steady batches. A boundary
    usually costs time, so the steady rate is an upper bound of the epoch rate; if boundaries were seen to
    save
    time, the result is lowered by the most that they saved.

    If the finish time of the planned training counts, the pick's rate over that training replaces the one
    over
    epochs: a config's steady rate is never below its rate over the training with start-up.

    Picks whose precision or compile may still be excluded for their losses are left out, unless the config
    has
    the same mode and would be excluded with them. If they stay, though, they may limit the choice of lower
    tiers, so the minimum over both cases is returned.

    Returns:
        The rate; None before a baseline, and while a tier has no pick or the pick's interval is unknown.
    """
    trials = Trials(tuple(records))
    if trials.baseline is None:
        return None
    noise = run_noise(trials)
    modes = _admissible_modes(trials) | ({Mode.of(config)} if config is not None else set())
    lasting = [one for one in trials.candidates if one.config is not None and Mode.of(one.config) in modes]
    planned = planned_training(options, records)
    known = []
    for candidates in (lasting, trials.candidates):
        picks = pick_tiers(trials, host, options, candidates)
        least = [_at_least(tier, picks[tier], noise, planned) for tier in Tier if tier in picks]
        known += [rate for rate in least if rate is not None]
    if len(known) < 2 * len(Tier):
        return None
    return min(known) / _most_saved(records)


def _admissible_modes(trials: Trials) -> set[Mode]:
    """Return the modes that losses can no longer exclude: the baseline's, and those that passed the check."""
    own = trials.baseline.config if trials.baseline else None
    agreeing = {one.mode for one in guarded_modes(trials.records) if one.verdict.outcome is LossOutcome.OK}
    return agreeing | ({Mode.of(own)} if own else set())


def _at_least(
    tier: Tier, pick: TrialRecord, noise: NoiseFloor | None, planned: PlannedTraining
) -> float | None:
    """Return the samples/s of one rank below which nothing can replace the pick; None if unknown."""
    loop = pick.measurement.loop if pick.measurement else None
    if loop is None or loop.rate_interval_relative is None:
        return None
    rank_rate = planned.objective_samples_per_s(pick.config, loop) / loop.world_size
    lowest = rank_rate * max(0.0, 1 - loop.rate_interval_relative) * _kept(noise)
    if tier is Tier.BALANCED:
        lowest *= 1 - balanced_tolerance(noise.relative if noise else UNKNOWN_FLOOR)
    return lowest or None


def _kept(noise: NoiseFloor | None) -> float:
    """Return the smallest likely ratio of a config's next process to a measured one."""
    if noise is None:
        return 1 / (1 + UNKNOWN_FLOOR)
    return math.exp(-min(t_quantile(noise.pairs) * math.log1p(noise.relative), 700.0))


def _most_saved(records: Sequence[TrialRecord]) -> float:
    """Return the largest rate over whole epochs as a factor of the steady rate; at least 1."""
    loops = [record.measurement.loop for record in records if record.measurement]
    saved = (one.rank_rate_samples_per_s * one.steady_time_s / one.steady_samples for one in loops)
    return max([1.0, *saved])
