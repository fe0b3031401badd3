"""What reading a data set costs: the arrays of a zarr store, or the files of a folder."""

import os
import time
from pathlib import Path
from typing import Any

from tunekit.machine.storage.data_files import walk
from tunekit.machine.storage.data_probe import answer_of
from tunekit.records.data_layout import ArrayAccess, DataAccess

MAX_ARRAYS = 100
"""Arrays that are listed, the largest first."""
_MAX_MEASURED = 6
_WALK_S = 10.0
"""Longest that files are counted, of all arrays together."""
_SLACK_S = 120.0
"""For a slow disk: reads that have begun are not interrupted."""


def access_apart(path: Path, window_s: float) -> DataAccess:
    """Measure what reading a data set costs, in a child process.

    Args:
        path: a zarr store, a folder of files or one file; it is only read.
        window_s: seconds for timed reads.

    Raises:
        UsageError: it can't be read, or does not respond. TunekitError: the child process fails.
    """
    limit_s = window_s + _WALK_S + _SLACK_S
    answer = answer_of("access", limit_s, path=os.fspath(path), window_s=window_s)
    return DataAccess.model_validate(answer)


def access(path: str, window_s: float) -> dict[str, Any]:
    """Do it in this process, and return the record's JSON."""
    from tunekit.machine.storage.array_access import is_store  # noqa: PLC0415 - zarr is slow to import

    folder = Path(path)
    return (_arrays(folder, window_s) if is_store(folder) else _files(folder, window_s)).model_dump(
        mode="json"
    )


def _arrays(root: Path, window_s: float) -> DataAccess:
    from tunekit.machine.storage import array_access  # noqa: PLC0415

    arrays = array_access.arrays_of(array_access.opened(root))
    names = sorted(arrays, key=lambda name: -arrays[name].nbytes)
    end_s = time.monotonic() + _WALK_S
    seen: list[ArrayAccess] = []
    for place, name in enumerate(names[:MAX_ARRAYS]):
        now = time.monotonic()
        share_s = (end_s - now) / (min(len(names), MAX_ARRAYS) - place)
        seen.append(array_access.facts_of(arrays[name], root / name, name, now + share_s))
    why_not = [array_access.why_not_timed(one) for one in seen]
    timed = [place for place, reason in enumerate(why_not) if reason is None][:_MAX_MEASURED]
    for place, one in enumerate(seen):
        if place in timed:
            rates = array_access.rates_of(arrays[one.path], one, root, window_s / len(timed))
            seen[place] = one.changed(rates=rates)
        else:
            reason = why_not[place] or f"only the {_MAX_MEASURED} largest are measured"
            seen[place] = one.changed(why_not_measured=reason)
    return DataAccess(arrays=tuple(seen), arrays_left_out=len(names) - len(seen))


def _files(folder: Path, window_s: float) -> DataAccess:
    from tunekit.machine.storage import file_access  # noqa: PLC0415

    files = walk(os.fsencode(folder), time.monotonic() + _WALK_S, time.monotonic)
    kinds = file_access.kinds_of(files.sample, window_s)
    return DataAccess(kinds=kinds, sizes=file_access.sizes_of(files.sample))
