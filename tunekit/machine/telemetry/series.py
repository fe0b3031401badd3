"""A trial's time series: what they are, and the tables of them in telemetry.zarr."""

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
"""Rows kept per series: nearly three hours of host samples; a longer trial is thinned out evenly."""
CONTEXT_BYTES = 128 * MIB
"""Less than what the driver takes for a process that computes; its own use varies by less."""


@dataclass(frozen=True)
class Series:
    """One table of figures over time."""

    name: str
    """"host", "loop", "gpu0", ..."""
    columns: tuple[str, ...]
    """The first is t_s: seconds since the trial started."""
    rows: tuple[tuple[float | None, ...], ...]
    """None where there was no answer."""
    labels: tuple[str, ...] = ()
    """Of the loop's phases, which are kept by number."""
    neighbours: tuple[GpuProcess, ...] = ()
    """Other processes that started on the GPU, each with the memory that it had last; not kept on disk."""

    def column(self, name: str) -> list[float | None]:
        """Return one column.

        Raises:
            ValueError: the series has no such column.
        """
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def known(self, name: str) -> list[float]:
        """Return what is known of a column, in its order; nothing of one that the series lacks."""
        if name not in self.columns:
            return []
        return [value for value in self.column(name) if value is not None]


def measured_window(loop: Series) -> tuple[float, float, bool]:
    """Return when the longest unbroken steady stretch starts and ends, and whether there is one."""
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
    """Return whether the trial's processes held memory there; else whether memory grew."""
    trees = series.known("tree_bytes")
    if trees:
        return max(trees) > 0
    used = series.known("used_bytes")
    return len(used) > 1 and max(used) - used[0] > CONTEXT_BYTES


# --- on disk ---------------------------------------------------------------------------------


def save_series(store: Path, trial: int, series: Sequence[Series]) -> None:
    """Write a trial's series as the group `0007`, whole or not at all; what it held before is replaced.

    Each series is one float64 array of samples x columns. Its attribute `columns` names the columns, units
    in the names; NaN is a question without an answer. The array `loop` has `labels` too: column `phase` is
    an index into them.

    Args:
        store: the folder telemetry.zarr; made if it is not there.
        trial: the trial's number.
        series: as the sampler returns them.

    Raises:
        OSError: the folder can't be written; zarr has errors of its own besides.
    """
    import numpy as np  # noqa: PLC0415 - with zarr half a second, which only who ran a trial pays
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
    """Return a trial's series; none if it has left none, or none that can be read.

    Args:
        store: the folder telemetry.zarr.
        trial: the trial's number.
    """
    if not (store / f"{trial:04d}").is_dir():
        return ()
    import zarr  # noqa: PLC0415 - half a second, which only a report with series pays

    try:
        group = zarr.open_group(store / f"{trial:04d}", mode="r")
        return tuple(_loaded(name, array) for name, array in sorted(group.arrays()))
    except Exception:  # zarr, its codecs and numpy fail in ways of their own
        return ()


def _loaded(name: str, array: Any) -> Series:
    """Return one table.

    Raises:
        ValueError: it is none that a sampler wrote.
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
