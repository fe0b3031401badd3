"""The planned training, and how long each config would take to finish it. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from tunekit.records.config import TrainConfig
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.run import Objective, SearchOptions
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import measured

_Compiled = tuple[int, str, bool]
"""What torch.compile generates separate code for: batch size, precision, channels_last."""


@dataclass(frozen=True)
class PlannedTraining:
    """The planned training, and whether configs are judged by the time it takes."""

    samples: float | None = None
    """Samples of one rank, as given by the user; None if not given or if the epoch length is unknown."""
    default_samples: float | None = None
    """Samples of one rank over the given or default number of epochs."""
    judged_by_finish: bool = False
    """Whether the shortest finish time wins instead of the highest rate."""
    compiling_s: Mapping[_Compiled, float] = field(default_factory=dict)
    """Slowest compilation, first step included, of each kind of compiled code; other processes may have found
    the code in the cache."""

    @property
    def assumed_samples(self) -> float | None:
        """Samples of one rank, by default if the user gave none; None if unknown."""
        return self.default_samples if self.samples is None else self.samples

    @property
    def finish_samples(self) -> float | None:
        """Samples of one rank in the planned training; None if configs are judged by rate."""
        return self.samples if self.judged_by_finish else None

    @property
    def best_text(self) -> str:
        """The objective, in words."""
        return "highest rate" if self.finish_samples is None else "shortest planned training"

    def objective_samples_per_s(self, config: TrainConfig | None, loop: LoopMeasurement) -> float:
        """Return the objective to maximise, in samples/s of all ranks.

        It covers whole epochs or, if the finish time counts, the whole planned training with start-up and
        compilation. Neither includes validation.

        Args:
            config: the loop's config; None if unknown.
            loop: the measured loop.
        """
        if self.finish_samples is None:
            return loop.rate_samples_per_s
        return loop.world_size * self.finish_samples / self._training_s(config, loop, self.finish_samples)

    def finish_time_s(self, config: TrainConfig | None, loop: LoopMeasurement) -> float | None:
        """Return the seconds of the whole planned training; None if the user planned none."""
        return None if self.samples is None else self._training_s(config, loop, self.samples)

    def mean_finish_time_s(
        self, config: TrainConfig | None, loops: Sequence[LoopMeasurement]
    ) -> float | None:
        """Return the mean of that over a config's processes; None if unknown."""
        known = [one for one in [self.finish_time_s(config, loop) for loop in loops] if one is not None]
        return fmean(known) if known else None

    def once_s(self, config: TrainConfig | None, loop: LoopMeasurement) -> float:
        """Return the seconds of the first step with everything that the config compiles still to compile."""
        if config is None or not config.compile:
            return loop.once_s
        return max(loop.once_s, self.compiling_s.get(_compiled(config), 0.0))

    def _training_s(self, config: TrainConfig | None, loop: LoopMeasurement, samples: float) -> float:
        """Return the seconds from process start to one rank's last sample."""
        start_s = loop.startup_s + loop.first_batch_s + self.once_s(config, loop)
        steady_s = samples * loop.steady_time_s / loop.steady_samples
        boundaries = math.ceil(samples / loop.epoch_samples) - 1 if loop.epoch_samples else 0
        return max(start_s + steady_s + boundaries * (loop.boundary_s or 0.0), 1e-9)


NOTHING_PLANNED = PlannedTraining()


def planned_training(options: SearchOptions, records: Sequence[TrialRecord]) -> PlannedTraining:
    """Return the planned training.

    Steps are those of the user's own config; the number of epochs only counts as given if the user gave it.

    Args:
        options: the search's options.
        records: all trials so far; the baseline's config defines a step, any loop the length of an epoch.
    """
    by_finish = options.objective is Objective.FINISH_TIME
    compiling = _compiling_s(records)
    baseline_config = next(
        (one.config for one in records if one.is_baseline_config and one.config is not None), None
    )
    if options.planned_steps is not None and baseline_config is not None:
        steps = float(
            options.planned_steps * baseline_config.batch_size * baseline_config.accumulate_grad_batches
        )
        return PlannedTraining(steps, None, by_finish, compiling)
    loop = next((record.measurement.loop for record in records if record.measurement), None)
    if loop is None or loop.epoch_samples is None:
        return PlannedTraining(None, None, by_finish, compiling)
    samples = float(options.epochs * loop.epoch_samples)
    return PlannedTraining(samples if options.epochs_given else None, samples, by_finish, compiling)


def _compiling_s(records: Sequence[TrialRecord]) -> dict[_Compiled, float]:
    """Return the slowest first step, later compilation included, of each kind of compiled code."""
    slowest: dict[_Compiled, float] = {}
    for one in measured(records):
        if one.config.compile:
            key = _compiled(one.config)
            slowest[key] = max(slowest.get(key, 0.0), one.loop.once_s)
    return slowest


def _compiled(config: TrainConfig) -> _Compiled:
    return config.batch_size, config.precision.value, config.channels_last
