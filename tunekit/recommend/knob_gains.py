"""What each knob of a config is worth: the config beside itself with that knob put back. Pure."""

from collections.abc import Sequence

from tunekit.recommend.noise import speedup
from tunekit.records.config import INJECTED_KNOBS, WORKER_KNOBS, TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.recommendation import KnobGain, NoiseFloor
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import rates_by_round


def knobs_put_back(config: TrainConfig, before: TrainConfig) -> dict[str, TrainConfig]:
    """Return a config with each knob that differs put back alone, by its name.

    The number of workers takes along what means nothing without workers; knobs that can't be put back
    without it are left out.
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
    """Return what each knob is worth to a config, by the rounds in which both ran.

    Args:
        config: with the new values.
        before: with the old ones.
        trials: fresh processes of the config and of it with one knob put back, interleaved.
        noise: the run's noise floor, for a single round.
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
    """Return the rate of one config over another's in the rounds in which both ran; None without one."""
    own, others = rates_by_round(records), rates_by_round(beside)
    rounds = sorted(own.keys() & others.keys())
    return speedup([own[one] for one in rounds], [others[one] for one in rounds], noise)
