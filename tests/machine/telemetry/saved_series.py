"""The time series of a trial, read back from telemetry.zarr."""

import math
from pathlib import Path

import numpy as np
import zarr

from tunekit.machine.telemetry.sampler import Series


def load_series(store: Path, trial: int) -> tuple[Series, ...]:
    """Return a trial's series; none if it has left none."""
    if not (store / f"{trial:04d}").is_dir():
        return ()
    group = zarr.open_group(store / f"{trial:04d}", mode="r")
    found = []
    for name, array in sorted(group.arrays()):
        rows = (
            (None if math.isnan(value) else float(value) for value in row) for row in np.asarray(array[:])
        )
        labels = tuple(array.attrs.get("labels", ()))
        found.append(Series(name, tuple(array.attrs["columns"]), tuple(map(tuple, rows)), labels))
    return tuple(found)
