"""Time series on disk: telemetry.zarr, one group per trial, one table per series."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tunekit.errors import UnreadableError
from tunekit.machine.telemetry.sampler import Series
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

    root = store / "zarr.json"
    if not _is_group(root):  # a new store, or one that a crash has left unreadable
        store.mkdir(parents=True, exist_ok=True)
        unfinished = store / ".root.unfinished"
        zarr.open_group(unfinished, mode="w")
        (unfinished / root.name).replace(root)
        shutil.rmtree(unfinished, ignore_errors=True)
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


def _is_group(root: Path) -> bool:
    try:
        return bool(parse_json(read_text(root))["node_type"] == "group")
    except (UnreadableError, KeyError, TypeError):
        return False
