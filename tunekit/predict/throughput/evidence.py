"""The evidence that the throughput model is fitted to: logarithms of measured times with their noise."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tunekit.predict.throughput.observation import Columns, Floats, Observation
from tunekit.predict.throughput.physics import Times
from tunekit.records.config import TrainConfig


class Reading(IntEnum):
    """What a measured time is the time of."""

    STEP = 0
    """A whole loop batch."""
    TRAINING = 1
    """Training alone."""
    LOADER = 2
    """The loader alone, or the main process making a batch if there are no workers."""
    BESIDE = 3
    """Training while workers share the cores."""
    FETCH_CPU = 4
    """CPU time of making a batch."""


STEP_NOISE = 0.05
"""Standard deviation of the logarithm of a step's time between processes."""

_OF_95 = 1.96
"""Half width of a 95% interval, in standard deviations."""
_UNKNOWN_NOISE = 0.08
"""Noise of a step whose window was too short to estimate it."""
_MAX_STEP_NOISE = 0.10
"""Maximum noise of a step: with few batches the interval is wide, while processes differ by less."""
_DISTURBED = 0.25
"""Deviation from which on a trial counts as disturbed, and its reading hardly counts."""
_NOISES = {
    Reading.STEP: STEP_NOISE,
    Reading.TRAINING: 0.08,
    Reading.LOADER: 0.06,
    Reading.BESIDE: 0.15,
    Reading.FETCH_CPU: 0.12,
}
"""Minimum standard deviation of the log between processes, including the equations' error with workers."""


class Evidence:
    """All readings of some observations, with repeated readings of one time in one config merged.

    Args:
        observations: at least one.

    Attributes:
        columns: the config of each reading.
        kinds: the kind of each reading.
        log_s: the logarithm of each reading in seconds.
        noise: the standard deviation of each logarithm.
    """

    def __init__(self, observations: Sequence[Observation]) -> None:
        together: dict[tuple[TrainConfig, Reading], list[tuple[float, float]]] = defaultdict(list)
        for one in observations:
            for kind, seconds, noise in _readings(one):
                if seconds is not None and seconds > 0:
                    together[one.config, kind].append((math.log(seconds), noise))
        merged = [_merged(readings) for readings in together.values()]
        self.columns = Columns.of([config for config, _ in together])
        self.kinds: NDArray[np.int64] = np.array([kind for _, kind in together], dtype=np.int64)
        self.log_s: Floats = np.array([log_s for log_s, _ in merged])
        self.noise: Floats = np.array([noise for _, noise in merged])

    def residuals(self, times: Callable[[Columns], Times]) -> Floats:
        """Return the errors of predicted times, in standard deviations."""
        return np.asarray((self.log_s_by(times(self.columns)) - self.log_s) / self.noise)

    def log_s_by(self, times: Times) -> Floats:
        """Return the predicted logarithm of each reading from predicted times of the readings' configs."""
        with_workers = self.columns.workers > 0
        kinds = {
            Reading.STEP: times.step_s,
            Reading.TRAINING: times.compute_s,
            Reading.LOADER: np.where(with_workers, times.loader_s, times.fetch_s),
            Reading.BESIDE: np.where(
                with_workers, np.maximum(times.compute_s, times.shared_s), times.compute_s
            ),
            Reading.FETCH_CPU: times.fetch_cpu_s,
        }
        stacked = np.log(np.stack([kinds[kind] for kind in Reading]))
        return np.asarray(stacked[self.kinds, np.arange(len(self.kinds))])


def _readings(one: Observation) -> list[tuple[Reading, float | None, float]]:
    beside = Reading.BESIDE if one.config.num_workers else Reading.TRAINING
    spread = _UNKNOWN_NOISE if one.step_spread is None else one.step_spread / _OF_95
    disturbed = spread if spread > _DISTURBED else 0.0
    step_noise = max(disturbed, min(max(spread, _NOISES[Reading.STEP]), _MAX_STEP_NOISE))
    return [
        (Reading.STEP, one.step_s, step_noise),
        (Reading.TRAINING, one.compute_alone_s, _NOISES[Reading.TRAINING]),
        (Reading.LOADER, one.loader_alone_s, _NOISES[Reading.LOADER]),
        (Reading.BESIDE, one.compute_s, max(_NOISES[beside], disturbed)),
        (Reading.FETCH_CPU, one.fetch_cpu_s, _NOISES[Reading.FETCH_CPU]),
    ]


def _merged(readings: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the weighted mean of several readings of one time, and its standard deviation.

    If they differ by more than expected, one was disturbed but it is unknown which, so the deviation is
    multiplied by the Birge ratio.
    """
    precisions = [noise**-2 for _, noise in readings]
    mean = sum(log_s * one for (log_s, _), one in zip(readings, precisions, strict=True)) / sum(precisions)
    misfit = sum((log_s - mean) ** 2 * one for (log_s, _), one in zip(readings, precisions, strict=True))
    birge = max(1.0, math.sqrt(misfit / max(1, len(readings) - 1)))
    return mean, birge / math.sqrt(sum(precisions))
