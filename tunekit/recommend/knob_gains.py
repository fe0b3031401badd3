"""What each knob of a config gains: the config compared with itself with that knob reset. Pure."""

from collections.abc import Sequence

from tunekit.recommend.noise import speedup
from tunekit.records.config import INJECTED_KNOBS, WORKER_KNOBS, TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.recommendation import KnobGain, NoiseFloor
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import rates_by_round


def knobs_put_back(config: TrainConfig, before: TrainConfig) -> dict[str, TrainConfig]:
    """Return, by knob, the config with only that knob reset to its old value.

    Resetting the number of workers also resets the knobs that have no effect without workers; those are
    left out if they can't be reset separately.
    """
    found = {}
    for knob in INJECTED_KNOBS:
        if getattr(config, knob) == getattr(before, knob):
            continue
        moved = {knob: getattr(before, knob)}
        is_of_workers = not (config.num_workers and before.num_workers)
        if is_of_workers and knob in WORKER_KNOBS:
            continue
        if is_of_workers and knob == "num_workers":
            moved |= {name: getattr(before, name) for name in WORKER_KNOBS}
        found[knob] = config.changed(**moved)
    return found


def knob_gains(
    config: TrainConfig, before: TrainConfig, trials: Sequence[TrialRecord], noise: NoiseFloor | None
) -> tuple[KnobGain, ...]:
    """Return what each knob gains in a config, from rounds that measured it with and without the change.

    Args:
        config: the config with the new values.
        before: the config with the old values.
        trials: fresh processes of the config and of its variants with one knob reset, interleaved.
        noise: the run's noise floor, used with a single round only.
    """
    own = [one for one in trials if one.config == config]
    gains = []
    for knob, put_back in knobs_put_back(config, before).items():
        gained = factor(own, [one for one in trials if one.config == put_back], noise)
        if gained is not None:
            old, new = getattr(before, knob), getattr(config, knob)
            gains.append(KnobGain(knob=knob, before=old, after=new, factor=gained))
    return tuple(gains)


def factor(
    records: Sequence[TrialRecord], beside: Sequence[TrialRecord], noise: NoiseFloor | None
) -> Interval | None:
    """Return one config's rate over another's, in the rounds that ran both; None without such a round."""
    own, others = rates_by_round(records), rates_by_round(beside)
    rounds = sorted(own.keys() & others.keys())
    return speedup([own[one] for one in rounds], [others[one] for one in rounds], noise)
