"""The training that a search is for: how long each config would take to finish it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from tunekit.records.measurement import LoopMeasurement
from tunekit.records.run import Objective, SearchOptions
from tunekit.records.trial import TrialRecord


@dataclass(frozen=True)
class PlannedTraining:
    """What is to be trained, and whether configs are judged by the time that it takes."""

    samples: float | None = None
    """Of one rank, as the user said; None where nothing was said, or an epoch's length is unknown."""
    default_samples: float | None = None
    """Of one rank where the user said nothing: the default number of epochs."""
    judged_by_finish: bool = False
    """Whether the shortest finish time is the best, and not the highest rate."""

    @property
    def assumed_samples(self) -> float | None:
        """Samples of one rank, by default where the user said nothing; None where that is unknown."""
        return self.default_samples if self.samples is None else self.samples

    @property
    def finish_samples(self) -> float | None:
        """Samples of one rank by whose finish configs are judged; None where they are judged by rate."""
        return self.samples if self.judged_by_finish else None

    def objective_samples_per_s(self, loop: LoopMeasurement, first_step_s: float = 0.0) -> float:
        """Return what is to be as high as can be: samples/s of all ranks.

        Over whole epochs; where the finish counts, over the whole planned training, its start-up and
        compiling included. Validation is left out of either.

        Args:
            loop: as measured.
            first_step_s: the least that the first step takes, as another process of the config has shown.
        """
        if self.finish_samples is None:
            return loop.rate_samples_per_s
        finish_s = start_time_s(loop, first_step_s) + self.finish_samples / loop.rank_rate_samples_per_s
        return loop.world_size * self.finish_samples / finish_s


NOTHING_PLANNED = PlannedTraining()


def planned_training(options: SearchOptions, records: Sequence[TrialRecord]) -> PlannedTraining:
    """Return the training to come.

    Steps are those of the user's own config; epochs are a promise only where the user gave them.

    Args:
        options: what the user asked.
        records: all trials so far; the baseline's config says what a step is, any loop how long an epoch is.
    """
    by_finish = options.objective is Objective.FINISH_TIME
    own = next((one.config for one in records if one.is_baseline_config and one.config is not None), None)
    if options.planned_steps is not None and own is not None:
        steps = float(options.planned_steps * own.batch_size * own.accumulate_grad_batches)
        return PlannedTraining(steps, judged_by_finish=by_finish)
    loop = next((record.measurement.loop for record in records if record.measurement), None)
    if loop is None or loop.epoch_samples is None:
        return PlannedTraining(judged_by_finish=by_finish)
    samples = float(options.epochs * loop.epoch_samples)
    return PlannedTraining(samples if options.epochs_given else None, samples, by_finish)


def start_time_s(loop: LoopMeasurement, first_step_s: float = 0.0) -> float:
    """Return the seconds from the start of the process to the end of its first step, compiling included.

    Args:
        loop: as measured; code that an earlier process compiled may have come from its cache.
        first_step_s: the least that the first step takes, as another process of the config has shown.
    """
    return loop.startup_s + loop.first_batch_s + max(loop.first_step_s, first_step_s)
