"""The best config that a search found but didn't recommend, because its gain is still open. Pure."""

from tunekit.recommend.learning_rate import global_batch, recommended
from tunekit.recommend.memory import memory_need
from tunekit.recommend.noise import mean_of_known, verdict
from tunekit.recommend.numerics import Mode, unchecked_modes
from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.recommendation import answer_of, comparison_of, speedup_over_baseline
from tunekit.recommend.tiers import best_of, same_training
from tunekit.records.config import TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.recommendation import OWN_NAME, Candidate
from tunekit.records.run import Run
from tunekit.records.trials import measured


def candidate_of(run: Run) -> Candidate | None:
    """Return the config whose gain is still open, in a run whose answer is to keep the baseline's config.

    None if another config is recommended or its gain is confirmed, if this one's rounds exclude a gain, if
    its only trial was no faster than the baseline, or if no other config was measured.
    """
    best = answer_of(run.recommendations)
    if best is not None and not best.is_baseline:
        return None
    others = [(one.speedup, one) for one in run.recommendations if not one.is_baseline and one.speedup]
    if any(verdict(speedup, run.noise_floor) == "faster" for speedup, _ in others):
        return None
    if best is not None and (aside := best.set_aside) is not None:
        is_open = verdict(aside.speedup, run.noise_floor) == "inconclusive"
        rounds = len(aside.confirm_trials)
        return _candidate(run, aside.config, aside.search_trial, aside.speedup, rounds) if is_open else None
    if others:
        speedup, one = max(others, key=lambda pair: pair[0].value)
        return _candidate(run, one.config, one.search_trial, speedup, len(one.confirm_trials))
    planned = planned_training(run.options, run.trials)
    beside = [one for one in run.history.candidates if not one.is_baseline_config]
    found = best_of(same_training(beside, run.history), planned)
    own = [planned.objective_samples_per_s(one.config, one.loop) for one in run.history.evidence(None)]
    baseline = mean_of_known(own)
    if found is None or baseline is None:
        return None
    again = [one for one in run.history.confirm_of(found.config) if one.measurement]
    is_unchecked = Mode.of(found.config) in unchecked_modes(run.trials, [found.record])
    ratio = None if is_unchecked else speedup_over_baseline(again, comparison_of(run, run.history))
    factor = planned.objective_samples_per_s(found.config, found.loop) / baseline.value
    if ratio is None and factor <= 1:
        return None
    return _candidate(run, found.config, found.record.number, ratio, len(again), factor)


def _candidate(
    run: Run, config: TrainConfig, trial: int, speedup: Interval | None, rounds: int, factor: float = 0.0
) -> Candidate | None:
    tier = next((one.tier.value for one in run.recommendations if one.config == config), OWN_NAME)
    batch = global_batch(config, run.world_size)
    ran = measured(run.history.confirm_of(config)) or measured(r for r in run.trials if r.number == trial)
    if not ran:
        return None
    return Candidate(
        name=tier,
        config=config,
        trial=trial,
        factor=speedup.value if speedup else factor,
        speedup=speedup,
        rounds=rounds,
        learning_rate=None
        if run.script_scales_lr
        else recommended(run.discovery, run.options, run.baseline_config, batch),
        float32_matmul_precision=ran[0].loop.float32_matmul_precision,
        memory=memory_need(config, [one.measurement for one in ran], run.rank_host),
    )
