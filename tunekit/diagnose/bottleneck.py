"""Determines a config's bottleneck from measurements, and compares it with the throughput model's. Pure."""

from collections.abc import Sequence

from tunekit.diagnose.attribution import attribution, bound, closure
from tunekit.diagnose.policy import MISSED_SHARE
from tunekit.records.interval import Interval
from tunekit.records.recommendation import Bottleneck, Bound, Limit, PredictedLimits, Recommendation
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord

_EITHER = {Bound.DATA, Bound.TURNS, Bound.COMPUTE, Bound.BALANCED}
_AGREES = {
    Limit.LOADER: {Bound.DATA, Bound.TURNS, Bound.BALANCED},
    Limit.TRAINING: {Bound.COMPUTE, Bound.HOST, Bound.COPIES, Bound.BALANCED, Bound.NO_LOADER},
    **dict.fromkeys((Limit.CORES, Limit.BOTH, Limit.TURNS), _EITHER),
}
"""For each limit that the model may name, the measured bottlenecks that agree with it."""
_BEYOND = {Bound.EPOCHS, Bound.UNCLEAR, Bound.UNEXPLAINED, Bound.UNSETTLED}
"""Bottlenecks that the model doesn't cover."""


def bottlenecks(run: Run, best: Recommendation | None) -> tuple[Bottleneck, ...]:
    """Return the bottlenecks of the baseline and of the recommended tier's config, if they were measured.

    They come from the fresh processes and from the config's first trial, which is the one that findings
    describe, if it measured loader and training separately.
    """
    tiers = [best] if best is not None and best.is_baseline else [None, *([best] if best else [])]
    found = []
    for tier in tiers:
        number = tier.search_trial if tier else run.baseline.number if run.baseline else None
        first = (one for one in run.trials if one.number == number and _has_halves(one))
        records = [*(one.record for one in run.history.evidence(tier)), *first]
        limits, name = run.model.limits if run.model else (), tier.tier if tier else None
        seen = bottleneck(records, predicted=next((one for one in limits if one.tier is name), None))
        found += [seen.changed(tier=name)] if seen else []
    return tuple(found)


def bottleneck(
    records: Sequence[TrialRecord], rate: Interval | None = None, predicted: PredictedLimits | None = None
) -> Bottleneck | None:
    """Return the bottleneck of one config; None if it was not measured.

    Args:
        records: trials of the config. Those that measured loader and training separately are preferred; of
            them, the one with the median data wait counts.
        rate: the config's rate over all its processes, in samples/s; None ignores its uncertainty.
        predicted: the limits that the model predicts for the config.
    """
    measured = [one for one in records if one.measurement is not None and not one.is_abandoned]
    ranked = sorted(
        measured, key=lambda one: attribution(one.measurement).stall_share if one.measurement else 0.0
    )
    telling = list(filter(_has_halves, ranked)) or ranked
    if not telling:
        return None
    middle = telling[len(telling) // 2]
    assert middle.measurement is not None
    verdict = bound(middle.measurement, middle.telemetry, rate)
    stall = attribution(middle.measurement).stall
    return Bottleneck(
        trial=middle.number,
        bound=verdict,
        wait_share=None if stall is None else stall.share,
        is_model_refuted=predicted is not None and _refutes(verdict, predicted),
    )


def _refutes(seen: Bound, of: PredictedLimits) -> bool:
    """Return whether the model names another bottleneck, or a limit below the measured rate."""
    if of.limit is None:
        return False
    return (seen not in _BEYOND and seen not in _AGREES[of.limit]) or is_too_low(of)


def _has_halves(record: TrialRecord) -> bool:
    return record.measurement is not None and closure(record.measurement) is not None


def is_too_low(of: PredictedLimits) -> bool:
    """Return whether the measured rate is above the limit that the model predicts."""
    halves = (of.loader_samples_per_s, of.training_samples_per_s)
    alone = {
        Limit.LOADER: halves[:1],
        Limit.TRAINING: halves[1:],
        Limit.CORES: (of.cores_samples_per_s,),
    }
    rates = alone.get(of.limit, halves) if of.limit is not None else ()
    return any(one is not None and one < (1 - MISSED_SHARE) * of.measured_samples_per_s for one in rates)
