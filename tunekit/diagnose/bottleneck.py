"""The bottleneck of a config: by what was measured first, beside what the throughput model says. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from tunekit.diagnose.attribution import Bound, attribution, bound, closure
from tunekit.diagnose.policy import MISSED_SHARE
from tunekit.records.interval import Interval
from tunekit.records.measurement import Measurement, Telemetry
from tunekit.records.recommendation import Limit, PredictedLimits, Recommendation
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


@dataclass(frozen=True)
class Bottleneck:
    """What holds a config back, by its own measured step."""

    measurement: Measurement
    """The one that the verdict is of."""
    telemetry: Telemetry | None
    """Of the same trial."""
    bound: Bound
    predicted: PredictedLimits | None
    """What the model says of the config; None where it says nothing."""

    @property
    def wait_share(self) -> float | None:
        """Share of the step that is data wait; None without a DataLoader."""
        stall = attribution(self.measurement).stall
        return None if stall is None else stall.share

    @property
    def is_model_refuted(self) -> bool:
        """Whether the model names another part, or says that the config can't be as fast as it was."""
        of = self.predicted
        if of is None or of.limit is None:
            return False
        names_another = self.bound not in _BEYOND and self.bound not in _AGREES[of.limit]
        return names_another or is_too_low(of)


def bottleneck_of(run: Run, tier: Recommendation | None) -> Bottleneck | None:
    """Return the bottleneck of a tier's config, or of the baseline's for None; None if it was not measured.

    By its fresh processes, and by the trial that came first, where that looked at the halves of the loop
    alone: it is the one that findings are of.
    """
    first = run.baseline
    if tier is not None:
        first = next((one for one in run.trials if one.number == tier.search_trial), None)
    records = [one.record for one in run.history.evidence(tier)]
    if first is not None and _has_halves(first):
        records.append(first)
    limits = run.model.limits if run.model else ()
    name = tier.tier if tier is not None else None
    return bottleneck(records, next((one for one in limits if one.tier is name), None))


def bottleneck(
    records: Sequence[TrialRecord], predicted: PredictedLimits | None = None, rate: Interval | None = None
) -> Bottleneck | None:
    """Return the bottleneck of one config; None where it was not measured.

    Args:
        records: of trials of the config. Those that looked at both halves of the loop alone say most, and
            of them the one whose data wait is in the middle.
        predicted: what the model says of the config.
        rate: of the config, in samples/s, by all its processes; None leaves its range out of it.
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
    return Bottleneck(middle.measurement, middle.telemetry, verdict, predicted)


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
