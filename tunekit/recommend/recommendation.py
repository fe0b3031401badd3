"""A tier's pick, confirmed by fresh processes and compared with the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tunekit.recommend.data_check import data_checks
from tunekit.recommend.efficiency import efficiency
from tunekit.recommend.learning_rate import global_batch, recommended
from tunekit.recommend.memory import failed_on_largest_samples, memory_need
from tunekit.recommend.noise import mean_interval, speedup, verdict
from tunekit.recommend.planned_training import NOTHING_PLANNED, PlannedTraining, planned_training
from tunekit.recommend.tiers import balanced_tolerance, run_noise, violations
from tunekit.records.config import TrainConfig
from tunekit.records.data_check import DataCheck, Sameness
from tunekit.records.host import Host
from tunekit.records.interval import Interval
from tunekit.records.measurement import samples_of_epoch
from tunekit.records.profile import Profile
from tunekit.records.recommendation import (
    ConfigFigures,
    NoiseFloor,
    Recommendation,
    SetAside,
    Tier,
)
from tunekit.records.run import Run, SearchOptions
from tunekit.records.target import Discovery
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Measured, Trials, measured

ANSWER_ORDER = (Tier.BALANCED, Tier.CONSERVATIVE, Tier.AGGRESSIVE)
"""Tiers in order of preference for the search's answer."""


def answer_of(recommendations: Sequence[Recommendation]) -> Recommendation | None:
    """Return the recommendation that answers the search: the first tier with a gain, else the first one."""
    in_order = sorted(recommendations, key=lambda one: ANSWER_ORDER.index(one.tier))
    gains = (one for one in in_order if not one.is_baseline and one.speedup and one.speedup.low > 1)
    return next(gains, in_order[0] if in_order else None)


MIN_PAIRED_ROUNDS = 2
"""Fewest rounds for a noise floor, and for a speedup unless the user asked for one round."""


@dataclass(frozen=True)
class Comparison:
    """What every tier of a run is compared with and judged by."""

    host: Host
    options: SearchOptions
    noise: NoiseFloor | None
    discovery: Discovery | None
    """What the baseline learned about the target."""
    baseline: TrialRecord | None
    """The first baseline trial; it may have failed."""
    baseline_confirm: tuple[TrialRecord, ...]
    """Fresh processes of the baseline, interleaved with the tiers'."""
    planned: PlannedTraining = NOTHING_PLANNED
    """The planned training; if its finish time counts, speedups cover all of it."""
    script_scales_lr: bool = False
    """Whether the script scales its learning rate itself."""
    data_checks: Mapping[TrainConfig, DataCheck] = field(default_factory=dict)
    """Data checks of the configs that were examined."""
    flops_per_sample: float | None = None
    """As traced; None if the steps were not."""
    device: Profile | None = None
    """The GPU that the trials ran on; None if it is not the one that was asked for."""

    @property
    def baseline_config(self) -> TrainConfig | None:
        """The user's current knob values."""
        return self.baseline.config if self.baseline else None


def comparison_of(run: Run, trials: Trials) -> Comparison:
    """Return the baseline's side of every comparison of a run."""
    return Comparison(
        host=run.rank_host,
        options=run.options,
        noise=run_noise(trials),
        discovery=trials.discovery,
        baseline=trials.baseline,
        baseline_confirm=trials.baseline_confirm,
        script_scales_lr=run.script_scales_lr,
        planned=planned_training(run.options, trials.records),
        data_checks=data_checks(trials),
        flops_per_sample=run.prediction.flops_per_sample if run.prediction else None,
        device=None if run.is_emulated else run.profile,
    )


def recommend(
    tier: Tier,
    pick: TrialRecord,
    confirm: Sequence[TrialRecord],
    against: Comparison,
    *,
    earlier: Sequence[Recommendation] = (),
) -> Recommendation | None:
    """Return the tier's pick with its evidence; None if too few processes confirmed it.

    Rate, it/s and speedup come only from the confirming processes: the trial that won the search won partly
    by luck.

    Args:
        tier: the tier of the pick.
        pick: the search or baseline trial that was chosen; it has a config.
        confirm: fresh processes of that config; some may have failed.
        against: the baseline's side of the comparison.
        earlier: recommendations of the previous tiers, to find one with the same config.
    """
    config, confirmed = pick.config, measured(confirm)
    if config is None or not is_confirmed(pick, against, confirm):
        return None
    loops = [one.loop for one in confirmed]
    is_baseline = pick.is_baseline_config or config == against.baseline_config
    ratio = speedup_over_baseline(confirm, against)
    return Recommendation(
        tier=tier,
        search_trial=pick.number,
        confirm_trials=tuple(one.record.number for one in confirmed),
        same_as=_same_as(config, earlier),
        is_baseline=is_baseline,
        it_per_s=mean_interval([loop.epoch_it_per_s for loop in loops], against.noise),
        speedup=ratio,
        **dict(config_figures(config, confirmed, against)),
        float32_matmul_precision=loops[0].float32_matmul_precision,
        data_check=None if is_baseline else _data_check(config, against),
        learning_rate=None
        if against.script_scales_lr
        else recommended(
            against.discovery,
            against.options,
            against.baseline_config,
            global_batch(config, loops[0].world_size),
        ),
    )


def is_confirmed(pick: TrialRecord, against: Comparison, confirm: Sequence[TrialRecord]) -> bool:
    """Return whether enough fresh processes of a pick were measured; the baseline's config needs one."""
    is_baseline = pick.config == against.baseline_config
    return len(measured(confirm)) >= min(
        against.options.confirm_rounds, 1 if is_baseline else MIN_PAIRED_ROUNDS
    )


def settle(
    recommendation: Recommendation, against: Comparison, *, earlier: Sequence[Recommendation] = ()
) -> Recommendation:
    """Return the recommendation, or a better one: a smaller tier's config, or the baseline's.

    A pick is kept if it is faster than the baseline or, except for Aggressive, smaller and as fast.
    Aggressive, which takes the fastest config, keeps one that isn't slower. No pick is kept if a smaller
    tier's confirmed gain is larger, for Balanced by more than it gives up. It is replaced by the config of a
    smaller tier with a confirmed gain, or by the baseline's, provided that all the baseline's measured
    processes are within the tier's limits and none ran out of memory on the largest samples. `same_as` is
    then updated and the pick is kept as `set_aside`.

    Args:
        recommendation: the tier's confirmed pick.
        against: the baseline's side of the comparison.
        earlier: settled recommendations of the previous tiers.
    """
    kept = recommendation.changed(same_as=_same_as(recommendation.config, earlier))
    ratio = recommendation.speedup
    if recommendation.is_baseline or ratio is None:
        return kept
    smaller = next((one for one in reversed(earlier) if _is_confirmed(one, against)), None)
    noise = against.noise.relative if against.noise else None
    kept_share = 1 - balanced_tolerance(noise) if recommendation.tier is Tier.BALANCED else 1.0
    is_beaten = smaller and smaller.speedup and ratio.value < kept_share * smaller.speedup.value
    if _is_better(recommendation, ratio, against) and not is_beaten:
        return kept
    aside = SetAside(
        config=recommendation.config,
        search_trial=recommendation.search_trial,
        confirm_trials=recommendation.confirm_trials,
        speedup=ratio,
    )
    if smaller is not None:
        return smaller.changed(
            tier=recommendation.tier, same_as=smaller.same_as or smaller.tier, set_aside=aside
        )
    trials = ((against.baseline,) if against.baseline else ()) + against.baseline_confirm
    ran = [record for record in trials if record.measurement is not None]
    if not ran or failed_on_largest_samples(against.baseline_confirm):
        return kept
    if any(violations(record, recommendation.tier, against.host, ran) for record in ran):
        return kept
    own = recommend(recommendation.tier, ran[0], against.baseline_confirm, against, earlier=earlier)
    return own.changed(set_aside=aside) if own else kept


def _is_confirmed(recommendation: Recommendation, against: Comparison) -> bool:
    """Return whether a tier's gain is confirmed."""
    ratio = recommendation.speedup
    return not recommendation.is_baseline and ratio is not None and verdict(ratio, against.noise) == "faster"


def _is_better(recommendation: Recommendation, ratio: Interval, against: Comparison) -> bool:
    """Return whether a pick is preferable to the baseline's config."""
    judged = verdict(ratio, against.noise)
    if judged in ("faster", "slower"):
        return judged == "faster"
    if recommendation.tier is Tier.AGGRESSIVE:
        return ratio.value >= 1
    own = against.baseline_config
    is_smaller = own is not None and _size(recommendation.config) < _size(own)
    return is_smaller and verdict(ratio, against.noise, seeks_gain=False) == "no difference"


def _size(config: TrainConfig) -> tuple[int, int, int, bool]:
    return (config.batch_size, config.queue_batches, config.num_workers, config.compile)


def speedup_over_baseline(confirm: Sequence[TrialRecord], against: Comparison) -> Interval | None:
    """Return the speedup of a config's confirming processes, paired with the baseline's by round.

    None if too few rounds have both, or if only one has and the noise floor is unknown.
    """
    planned, confirmed, baseline = against.planned, measured(confirm), measured(against.baseline_confirm)
    ours, theirs = _by_round(confirmed, planned), _by_round(baseline, planned)
    rounds = sorted(ours.keys() & theirs.keys())
    is_enough = len(rounds) >= min(MIN_PAIRED_ROUNDS, against.options.confirm_rounds)
    rates = ([ours[one] for one in rounds], [theirs[one] for one in rounds])
    return speedup(*rates, against.noise) if is_enough else None


def config_figures(config: TrainConfig, processes: Sequence[Measured], against: Comparison) -> ConfigFigures:
    """Return the figures of a config from its measured processes, at least one."""
    loops = [one.loop for one in processes]
    rate = mean_interval([loop.rate_samples_per_s for loop in loops], against.noise)
    epoch_samples = samples_of_epoch(loops)
    return ConfigFigures(
        config=config,
        rate_samples_per_s=rate,
        epoch_time_s=epoch_samples / rate.value if epoch_samples is not None else None,
        finish_time_s=against.planned.mean_finish_time_s(config, loops),
        **efficiency(config, processes, rate.value, against.flops_per_sample, against.device),
        **dict(memory_need(config, [one.measurement for one in processes], against.host)),
    )


def baseline_figures(run: Run) -> ConfigFigures | None:
    """Return the measured figures of the baseline; None if it wasn't measured."""
    config, measured = run.baseline_config, run.history.evidence(None)
    return config_figures(config, measured, comparison_of(run, run.history)) if config and measured else None


def _by_round(confirmed: Sequence[Measured], planned: PlannedTraining) -> dict[int, float]:
    return {
        one.record.round: planned.objective_samples_per_s(one.config, one.loop)
        for one in confirmed
        if one.record.round is not None
    }


def _data_check(config: TrainConfig, against: Comparison) -> DataCheck | None:
    if against.options.skip_data_check:
        return DataCheck(verdict=Sameness.NOT_CHECKED, why_not="--skip-data-check")
    return against.data_checks.get(config)


def _same_as(config: TrainConfig, earlier: Sequence[Recommendation]) -> Tier | None:
    return next((other.tier for other in earlier if other.config == config), None)
