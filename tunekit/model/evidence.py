"""What the trials say of the throughput model: each time as a logarithm with its deviation."""

from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tunekit.model.columns import Columns, Floats
from tunekit.model.observation import Observation
from tunekit.model.physics import Times


class Reading(IntEnum):
    """What a time is of."""

    STEP = 0
    """A whole loop batch."""
    TRAINING = 1
    """Training alone."""
    LOADER = 2
    """The loader alone, or one process making a batch where there are no workers."""
    BESIDE = 3
    """Training while workers had the cores too."""
    FETCH_CPU = 4
    """CPU time of making a batch."""


STEP_NOISE = 0.03
"""Of the logarithm of a step's time, as one process has it."""

_NOISES = {
    Reading.STEP: STEP_NOISE,
    Reading.TRAINING: 0.05,
    Reading.LOADER: 0.06,
    Reading.BESIDE: 0.15,
    Reading.FETCH_CPU: 0.12,
}
"""Least deviation of the logarithm between processes; the equations' own error with workers included."""


class Evidence:
    """All readings of some observations.

    Args:
        observations: at least one.

    Attributes:
        columns: the config of each reading.
        kinds: what each reading is of.
        log_s: logarithm of each.
        noise: deviation of it.
    """

    def __init__(self, observations: Sequence[Observation]) -> None:
        readings = [
            (one, kind, seconds, noise)
            for one in observations
            for kind, seconds, noise in _readings(one)
            if seconds is not None and seconds > 0
        ]
        self.columns = Columns.of([one.config for one, _, _, _ in readings])
        self.kinds: NDArray[np.int64] = np.array([kind for _, kind, _, _ in readings], dtype=np.int64)
        self.log_s: Floats = np.log([seconds for _, _, seconds, _ in readings])
        self.noise: Floats = np.array([noise for _, _, _, noise in readings])

    def misfits(self, times: Callable[[Columns], Times]) -> Floats:
        """Return how far predicted times are off, in deviations."""
        return np.asarray((self.told(times(self.columns)) - self.log_s) / self.noise)

    def told(self, times: Times) -> Floats:
        """Return the logarithm that predicted times of the readings' configs have for each reading."""
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
    without_workers = one.config.num_workers == 0
    step_noise = max((one.step_spread or 0.0) / 2, _NOISES[Reading.STEP])
    return [
        (Reading.STEP, one.step_s, step_noise),
        (Reading.TRAINING, one.compute_alone_s, _NOISES[Reading.TRAINING]),
        (Reading.LOADER, one.loader_alone_s, _NOISES[Reading.LOADER]),
        (
            Reading.BESIDE,
            one.compute_s,
            _NOISES[Reading.TRAINING] if without_workers else _NOISES[Reading.BESIDE],
        ),
        (Reading.FETCH_CPU, one.fetch_cpu_s, _NOISES[Reading.FETCH_CPU]),
    ]
