"""Time series on disk: telemetry.zarr, one group per trial, one table per series."""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tunekit.errors import UnreadableError
from tunekit.hardware.telemetry.sampler import Series
from tunekit.untrusted import parse_json, read_text


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
    import zarr  # noqa: PLC0415 - half a second to import, which only a process that ran a trial pays

    _make_root(store)
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
    """Return a trial's series; none if it has left none.

    Args:
        store: the folder telemetry.zarr.
        trial: the trial's number.
    """
    import zarr  # noqa: PLC0415

    if not (store / f"{trial:04d}").is_dir():
        return ()
    group = zarr.open_group(store / f"{trial:04d}", mode="r")
    return tuple(_series(name, array) for name, array in sorted(group.arrays()))


def _make_root(store: Path) -> None:
    """Make the group that all trials are in, anew if a crash has left it unreadable."""
    import zarr  # noqa: PLC0415

    root = store / "zarr.json"
    try:
        if parse_json(read_text(root))["node_type"] == "group":
            return
    except (UnreadableError, KeyError, TypeError):
        store.mkdir(parents=True, exist_ok=True)
    unfinished = store / ".root.unfinished"
    zarr.open_group(unfinished, mode="w")
    (unfinished / root.name).replace(root)
    shutil.rmtree(unfinished, ignore_errors=True)


def _series(name: str, array: Any) -> Series:
    rows = tuple(
        tuple(None if math.isnan(value) else float(value) for value in row) for row in np.asarray(array[:])
    )
    return Series(name, tuple(array.attrs["columns"]), rows, tuple(array.attrs.get("labels", ())))
