"""The bottleneck of a config: by what was measured first, beside what the throughput model says. Pure."""

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
"""What may be measured where the model names a part."""
_BEYOND = {Bound.EPOCHS, Bound.UNCLEAR, Bound.UNEXPLAINED, Bound.UNSETTLED}
"""Of these the model says nothing."""


def bottlenecks(run: Run, best: Recommendation | None) -> tuple[Bottleneck, ...]:
    """Return the bottleneck of the baseline and of the answering tier's config, where they were measured.

    By its fresh processes, and by the trial that came first, where that looked at the halves of the loop
    alone: it is the one that findings are of.
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
    """Return the bottleneck of one config; None where it was not measured.

    Args:
        records: of trials of the config. Those that looked at both halves of the loop alone say most, and
            of them the one whose data wait is in the middle.
        rate: of the config, in samples/s, by all its processes; None leaves its range out of it.
        predicted: what the model says of the config.
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
    """Return whether the model names another part, or says that the config can't be as fast as it was."""
    if of.limit is None:
        return False
    return (seen not in _BEYOND and seen not in _AGREES[of.limit]) or is_too_low(of)


def _has_halves(record: TrialRecord) -> bool:
    return record.measurement is not None and closure(record.measurement) is not None


def is_too_low(of: PredictedLimits) -> bool:
    """Return whether more was measured than the model lets the limiting part allow."""
    halves = (of.loader_samples_per_s, of.training_samples_per_s)
    alone = {
        Limit.LOADER: halves[:1],
        Limit.TRAINING: halves[1:],
        Limit.CORES: (of.cores_samples_per_s,),
    }
    rates = alone.get(of.limit, halves) if of.limit is not None else ()
    return any(one is not None and one < (1 - MISSED_SHARE) * of.measured_samples_per_s for one in rates)
