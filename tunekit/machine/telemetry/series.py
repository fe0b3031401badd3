"""A trial's time series, and how they are stored in telemetry.zarr."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from tunekit.records.host import GpuProcess
from tunekit.units import MIB

MAX_SAMPLES = 20_000
"""MAX rows per series: nearly three hours of host samples; longer series are thinned out evenly."""
CONTEXT_BYTES = 128 * MIB
"""Memory that indicates a computing process: a CUDA context uses more, idle fluctuations are smaller."""


@dataclass(frozen=True)
class Series:
    """One table of measurements over time."""

    name: str
    """"host", "loop", "gpu0", ..."""
    columns: tuple[str, ...]
    """The first is t_s, in seconds since the trial started."""
    rows: tuple[tuple[float | None, ...], ...]
    """None marks a missing value."""
    labels: tuple[str, ...] = ()
    """The names of the loop's phases; column `phase` holds indexes into them."""
    neighbours: tuple[GpuProcess, ...] = ()
    """Other processes that started on the GPU, each with its last known memory; not saved on disk."""

    def column(self, name: str) -> list[float | None]:
        """Return one column.

        Raises:
            ValueError: the series has no such column.
        """
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def known(self, name: str) -> list[float]:
        """Return the values of a column without the missing ones; empty if there is no such column."""
        if name not in self.columns:
            return []
        return [value for value in self.column(name) if value is not None]


def measured_window(loop: Series) -> tuple[float, float, bool]:
    """Return the start and end of the longest uninterrupted steady window, or of the trial, and which it is.

    The third value is True for a steady window, False for the whole trial.
    """
    times = [t_s for t_s in loop.column("t_s") if t_s is not None]
    phases = [None if phase is None else loop.labels[int(phase)] for phase in loop.column("phase")]
    stretches = [
        [t_s for t_s, _ in group]
        for phase, group in groupby(zip(times, phases, strict=True), key=lambda pair: pair[1])
        if phase == "measuring"
    ]
    longest = max(stretches, key=len, default=[])
    if len(longest) >= 2:
        return longest[0], longest[-1], True
    return times[0], times[-1], False


def is_used(series: Series) -> bool:
    """Return whether the trial used this GPU: its processes held memory or, if unknown, memory use grew."""
    trees = series.known("tree_bytes")
    if trees:
        return max(trees) > 0
    used = series.known("used_bytes")
    return len(used) > 1 and max(used) - used[0] > CONTEXT_BYTES


# --- on disk ---------------------------------------------------------------------------------


def save_series(store: Path, trial: int, series: Sequence[Series]) -> None:
    """Write a trial's series atomically as a group such as `0007`, replacing any earlier one.

    Each series is one float64 array of samples x columns. Its attribute `columns` names the columns, with
    units; NaN marks a missing value. The array `loop` also has `labels`, into which its column `phase` is an
    index.

    Args:
        store: the folder telemetry.zarr; created if missing.
        trial: the trial's number.
        series: as the sampler returns them.

    Raises:
        OSError: the folder can't be written to; zarr may also raise its own errors.
    """
    import numpy as np  # noqa: PLC0415 - with zarr it takes half a second; only trials need it
    import zarr  # noqa: PLC0415

    zarr.open_group(store, mode="a")
    unfinished = store / f".{trial:04d}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    group = zarr.open_group(unfinished, mode="w")
    for one in series:
        shape = (len(one.rows), len(one.columns))
        array = group.create_array(
            one.name, shape=shape, dtype="float64", chunks=(max(1, shape[0]), shape[1])
        )
        array[:] = np.array(one.rows, dtype="float64").reshape(shape)
        array.attrs["columns"] = list(one.columns)
        if one.labels:
            array.attrs["labels"] = list(one.labels)
    final = store / f"{trial:04d}"
    shutil.rmtree(final, ignore_errors=True)
    unfinished.rename(final)


def load_series(store: Path, trial: int) -> tuple[Series, ...]:
    """Return a trial's series; empty if there are none, or if they can't be read.

    Args:
        store: the folder telemetry.zarr.
        trial: the trial's number.
    """
    if not (store / f"{trial:04d}").is_dir():
        return ()
    import zarr  # noqa: PLC0415 - it takes half a second; only reports with series need it

    try:
        group = zarr.open_group(store / f"{trial:04d}", mode="r")
        return tuple(_loaded(name, array) for name, array in sorted(group.arrays()))
    except Exception:  # zarr, its codecs and numpy may raise anything on damaged data
        return ()


def _loaded(name: str, array: Any) -> Series:
    """Convert one array to a series.

    Raises:
        ValueError: no sampler can have written it.
    """
    columns, labels = (tuple(map(str, array.attrs.get(key, ()))) for key in ("columns", "labels"))
    rows, width = array.shape
    if width != len(columns) or max(rows, array.chunks[0]) > MAX_SAMPLES or array.chunks[1] > width:
        raise ValueError(f"{array.shape} in chunks of {array.chunks} for {len(columns)} columns")
    table = array[:].astype("float64").tolist()
    kept = tuple(tuple(None if math.isnan(value) else value for value in row) for row in table)
    found = Series(name, columns, kept, labels)
    if labels and not all(phase in range(len(labels)) for phase in found.column("phase")):
        raise ValueError(f"phases beyond the {len(labels)} labels")
    return found
