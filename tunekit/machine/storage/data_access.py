"""What reading a data set costs: the arrays of a zarr store, or the files of a folder."""

import os
import time
from pathlib import Path

from tunekit.machine.storage.array_access import (
    arrays_of,
    facts_of,
    is_store,
    opened,
    rates_of,
    why_not_timed,
)
from tunekit.machine.storage.data_files import walk
from tunekit.machine.storage.data_probe import answer_of
from tunekit.machine.storage.file_access import kinds_of, sizes_of
from tunekit.records.data_layout import ArrayAccess, DataAccess

_MAX_ARRAYS = 100
"""Arrays that are listed, the largest first."""
_MAX_MEASURED = 6
_WALK_S = 10.0
"""Longest time to count files, of all arrays together."""
_SLACK_S = 120.0
"""For a slow disk: reads that have begun are not interrupted."""


def access_apart(path: Path, window_s: float) -> DataAccess:
    """Call `access` in a child process.

    Raises:
        UsageError: the data set can't be read, or does not respond. TunekitError: the child process fails.
    """
    limit_s = window_s + _WALK_S + _SLACK_S
    return DataAccess.model_validate(answer_of(access, path, limit_s, window_s=window_s))


def access(path: Path, window_s: float) -> DataAccess:
    """Measure what reading a data set costs.

    Args:
        path: a zarr store, a folder of files or one file; it is only read.
        window_s: seconds for timed reads.

    Raises:
        UsageError: zarr can't read the store.
    """
    if is_store(path):
        return _arrays(path, window_s)
    files = walk(os.fsencode(path), time.monotonic() + _WALK_S, time.monotonic)
    return DataAccess(kinds=kinds_of(files.sample, window_s), sizes=sizes_of(files.sample))


def _arrays(root: Path, window_s: float) -> DataAccess:
    arrays = arrays_of(opened(root))
    names = sorted(arrays, key=lambda name: -arrays[name].nbytes)
    listed = names[:_MAX_ARRAYS]
    end_s = time.monotonic() + _WALK_S
    seen: list[ArrayAccess] = []
    for place, name in enumerate(listed):
        now_s = time.monotonic()
        share_s = (end_s - now_s) / (len(listed) - place)
        seen.append(facts_of(arrays[name], root / name, name, now_s + share_s))
    timed = [one.path for one in seen if why_not_timed(one) is None][:_MAX_MEASURED]
    measured = (
        one.changed(rates=rates_of(arrays[one.path], one, root, window_s / len(timed)))
        if one.path in timed
        else one.changed(why_not_measured=why_not_timed(one) or f"only {_MAX_MEASURED} arrays are measured")
        for one in seen
    )
    return DataAccess(arrays=tuple(measured), arrays_left_out=len(names) - len(listed))
