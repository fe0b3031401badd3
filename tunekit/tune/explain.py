"""Why the configs of a run are as fast as they are, by the throughput model. Pure."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np

from tunekit.predict.throughput.model import ThroughputModel, limit_of
from tunekit.predict.throughput.observation import observations
from tunekit.recommend.noise import mean_of_known
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.interval import Interval
from tunekit.records.recommendation import ModelSummary, PredictedLimits, Recommendation, Tier
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.records.trials import Trials, rates_by_config, without_superseded

MIN_TRIALS = 3
"""Fewest measured trials for an explanation by the model."""
_RANGE_95 = 1.96
"""Standard deviations from the middle to either end of a 95% range."""


def explain(
    records: Sequence[TrialRecord], host: Host, recommendations: Sequence[Recommendation]
) -> ModelSummary | None:
    """Return what the throughput model says about the baseline and each tier.

    Returns:
        None with fewer than three measured trials, or if no model fits their figures.
    """
    measured = [
        one for one in records if one.measurement and one.role is not TrialRole.NUMERICS and one.config
    ]
    if len(measured) < MIN_TRIALS:
        return None
    try:
        with np.errstate(all="ignore"):  # extreme figures become infinities, which are left out
            return _summary(records, without_superseded(measured), host, recommendations)
    except (np.linalg.LinAlgError, ArithmeticError):
        return None


def _summary(
    records: Sequence[TrialRecord],
    learned_from: Sequence[TrialRecord],
    host: Host,
    recommendations: Sequence[Recommendation],
) -> ModelSummary | None:
    loop = next(record.measurement.loop for record in records if record.measurement)

    def model_of(trials: Sequence[TrialRecord]) -> ThroughputModel:
        on_cpu = loop.device.type == "cpu"
        return ThroughputModel(observations(trials), host.cpus, on_cpu, loop.epoch_samples)

    shown: list[tuple[Tier | None, TrainConfig | None, float]] = []
    baseline = next((one for one in records if one.role is TrialRole.BASELINE and one.measurement), None)
    if baseline is not None:
        rates = [one.loop.rate_samples_per_s for one in Trials(tuple(records)).evidence(None)]
        rate = mean_of_known(rates)
        shown.append((None, baseline.config, rate.value if rate else 0.0))
    shown += [(one.tier, one.config, one.rate_samples_per_s.value) for one in recommendations]
    model = model_of(learned_from)
    limits = [_limits(model, loop.world_size, tier, config, rate) for tier, config, rate in shown if config]
    known = tuple(one for one in limits if one is not None)
    if not known:
        return None
    missed = _missed(records, learned_from, model_of, loop.world_size)
    missed_relative = sum(missed) / len(missed) if missed else None
    return ModelSummary(limits=known, missed_relative=missed_relative, checked_configs=len(missed) or None)


def _limits(
    model: ThroughputModel, ranks: int, tier: Tier | None, config: TrainConfig, measured: float
) -> PredictedLimits | None:
    """Return the model's limits for one config, or None if any figure isn't finite and positive."""
    predicted, alone = model.predict([config]), model.ceilings(config)
    log_rate, deviation = float(predicted.log_rate[0]), float(predicted.deviation[0])
    ends = [ranks * math.exp(log_rate + away * _RANGE_95 * deviation) for away in (-1, 0, 1)]
    ceilings = [
        None if one is None else one * ranks
        for one in (alone.loader_samples_per_s, alone.compute_samples_per_s, alone.cores_samples_per_s)
    ]
    figures = [one for one in (*ends, *ceilings, measured) if one is not None]
    if not all(math.isfinite(one) and one > 0 for one in figures):
        return None
    return PredictedLimits(
        tier=tier,
        loader_samples_per_s=ceilings[0],
        training_samples_per_s=ceilings[1],
        cores_samples_per_s=ceilings[2],
        limit=limit_of(alone, config.num_workers > 0),
        rate_samples_per_s=Interval(low=ends[0], value=ends[1], high=ends[2]),
        measured_samples_per_s=measured,
    )


def _missed(
    records: Sequence[TrialRecord],
    learned_from: Sequence[TrialRecord],
    model_of: Callable[[Sequence[TrialRecord]], ThroughputModel],
    ranks: int,
) -> list[float]:
    """Return the relative error of each config's rate when predicted from the other configs."""
    missed = []
    for config, seen in rates_by_config(records).items():
        others = [record for record in learned_from if record.config != config]
        if others:
            predicted = ranks * math.exp(float(model_of(others).predict([config]).log_rate[0]))
            missed.append(abs(predicted / fmean(seen) - 1))
    return [one for one in missed if math.isfinite(one)]
