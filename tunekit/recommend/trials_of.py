"""Which trials the figures of a config come from. Pure."""

from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord


def records_of(run: Run, tier: Recommendation | None) -> tuple[TrialRecord, ...]:
    """Return the trials of a tier's fresh processes, else the one that found it; the baseline's for None.

    Those without a measurement are left out.
    """
    measured = [one for one in run.trials if one.measurement is not None]
    if tier is None:
        own = [one for one in measured if one.is_baseline_config]
        return tuple([one for one in own if one.round is not None] or own[:1])
    confirming = tuple(one for one in measured if one.number in tier.confirm_trials)
    return confirming or tuple(one for one in measured if one.number == tier.search_trial)


def measurements_of(run: Run, tier: Recommendation | None) -> list[Measurement]:
    """Return what those trials measured."""
    return [one.measurement for one in records_of(run, tier) if one.measurement]


def loops_of(run: Run, tier: Recommendation | None) -> list[LoopMeasurement]:
    """Return their loops."""
    return [one.loop for one in measurements_of(run, tier)]
