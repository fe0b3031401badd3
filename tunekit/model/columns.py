"""Configs as columns of numbers, so that all of a space are predicted at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunekit.records.config import Precision, TrainConfig

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PRECISIONS = tuple(Precision)


@dataclass(frozen=True)
class Columns:
    """One entry per config in each array."""

    batch_size: Floats
    workers: Floats
    prefetch: Floats
    """0 without workers."""
    precision: NDArray[np.int64]
    """Place in PRECISIONS."""
    compiled: Flags
    channels_last: Flags
    pinned: Flags
    persistent: Flags

    @classmethod
    def of(cls, configs: Sequence[TrainConfig]) -> "Columns":
        """Return the columns of some configs, in their order."""
        return cls(
            batch_size=np.array([config.batch_size for config in configs], dtype=float),
            workers=np.array([config.num_workers for config in configs], dtype=float),
            prefetch=np.array([config.prefetch_factor or 0 for config in configs], dtype=float),
            precision=np.array([PRECISIONS.index(config.precision) for config in configs], dtype=np.int64),
            compiled=np.array([config.compile for config in configs], dtype=bool),
            channels_last=np.array([config.channels_last for config in configs], dtype=bool),
            pinned=np.array([config.pin_memory for config in configs], dtype=bool),
            persistent=np.array([config.persistent_workers for config in configs], dtype=bool),
        )

    def __len__(self) -> int:
        return len(self.batch_size)

    def take(self, places: NDArray[np.int64]) -> "Columns":
        """Return the columns of the configs at some places."""
        return Columns(**{name: values[places] for name, values in vars(self).items()})
