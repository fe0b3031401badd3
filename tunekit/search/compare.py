"""Configs side by side: rates of fresh processes, factors paired by round. Pure."""

import math
from collections.abc import Sequence

from tunekit.recommend.noise import mean_interval, noise_floor, speedup
from tunekit.records.config import TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.loop_profile import Contender
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import NoiseFloor
from tunekit.records.trial import TrialRecord


def contender(
    name: str,
    config: TrainConfig,
    records: Sequence[TrialRecord],
    beside: Sequence[TrialRecord] | None = None,
    noise: NoiseFloor | None = None,
) -> Contender:
    """Return a config with what its trials come to.

    Args:
        name: as it is shown.
        config: its knobs.
        records: its trials; those that failed included.
        beside: the trials of the config that it is compared with; None for that one itself.
        noise: of the fresh processes of the config that it is compared with.
    """
    measured = [record.measurement for record in records if record.measurement]
    return Contender(
        name=name,
        config=config,
        trials=tuple(record.number for record in records),
        rate_samples_per_s=_rate(measured, noise),
        factor=None if beside is None else factor(records, beside, noise),
        why_missing=None if measured else why_missing(records),
    )


def factor(
    records: Sequence[TrialRecord], beside: Sequence[TrialRecord], noise: NoiseFloor | None
) -> Interval | None:
    """Return the rate of one config over another's in the rounds in which both ran; None without one."""
    own, others = rates_by_round(records), rates_by_round(beside)
    rounds = sorted(own.keys() & others.keys())
    return speedup([own[one] for one in rounds], [others[one] for one in rounds], noise)


def rates_by_round(records: Sequence[TrialRecord]) -> dict[int, float]:
    """Return samples/s of the measured trials that belong to a round."""
    return {
        record.round: record.measurement.rate_samples_per_s
        for record in records
        if record.round is not None and record.measurement
    }


def processes_noise(records: Sequence[TrialRecord]) -> NoiseFloor | None:
    """Return how much the fresh processes of one config differ; None with fewer than two."""
    return noise_floor([record.measurement.rate_samples_per_s for record in records if record.measurement])


def product(contenders: Sequence[Contender]) -> float | None:
    """Return what factors would come to if they multiplied; None where one is unknown."""
    values = [one.factor.value for one in contenders if one.factor is not None]
    return math.prod(values) if values and len(values) == len(contenders) else None


def why_missing(records: Sequence[TrialRecord]) -> str:
    """Return why a config has no figures."""
    failure = next((record.failure for record in records if record.failure), None)
    if failure is None:
        return "not run"
    remedy = f"; {failure.remedy}" if failure.remedy else ""
    return f"{failure.kind}: {failure.message}{remedy}"


def _rate(measured: Sequence[Measurement], noise: NoiseFloor | None) -> Interval | None:
    """Return samples/s; of a single process with the interval that it gives itself, if no other is known."""
    if not measured:
        return None
    own = measured[0].loop.rate_interval_relative
    if len(measured) > 1 or noise is not None or own is None:
        return mean_interval([one.rate_samples_per_s for one in measured], noise)
    rate, half = measured[0].rate_samples_per_s, min(1.0, own)
    return Interval(value=rate, low=rate * (1 - half), high=rate * (1 + half))
