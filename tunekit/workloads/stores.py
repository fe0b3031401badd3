"""Makes the zarr store of a training script once, chunk by chunk, and keeps it in a cache folder."""

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Protocol

import zarr

PROGRESS_EVERY_S = 2.0
WRITTEN_PARTS = "written"
"""File that lists the first row of each complete part, while the store is made."""


class Contents(Protocol):
    """What a store holds: rows that are made in parts, each in separate chunks."""

    workload: str
    """Name of the folder in the cache that keeps the stores of this kind."""
    name: str
    """Name of this store, made from all that determines its data."""
    samples: int
    rows: int
    part_rows: int
    """Rows per call of `write`: whole chunks of every array that it fills."""

    def create(self, group: zarr.Group) -> object:
        """Create the arrays."""

    def write(self, group: zarr.Group, start: int, stop: int) -> object:
        """Fill the rows from start to stop; several threads call it at once."""


def print_progress(written: int, count: int) -> None:
    """Print how much of the data is written."""
    print(f"making the data, once: {written / count:.0%}", file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """Return the user's cache folder; the XDG specification says to ignore a relative path."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".cache"


def store_folder(
    contents: Contents, root: Path | None = None, on_progress: Callable[[int, int], object] = print_progress
) -> Path:
    """Return the folder of a zarr group with these contents, making it on first use.

    It is made under another name and then renamed, so it is complete whenever it exists. If a process is
    killed while making it, the next one continues; if two start at once, the second waits for the first. A
    small lock file stays next to it.

    Args:
        contents: what the store holds.
        root: where to keep the folder; None for the user's cache.
        on_progress: called every two seconds with the number of written rows and of all rows.

    Raises:
        OSError: the folder can't be written.
    """
    root = root or cache_folder() / "tunekit" / contents.workload
    folder = root / contents.name
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with (root / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            making = root / f".{folder.name}"
            try:
                _write(making, contents, on_progress)
                (making / WRITTEN_PARTS).unlink()
                making.rename(folder)
            except OSError:  # such as a full disk, where the space is needed again
                shutil.rmtree(making, ignore_errors=True)
                raise
    return folder


def _write(folder: Path, contents: Contents, on_progress: Callable[[int, int], object]) -> None:
    """Write the parts that no earlier call has written."""
    done_file, count = folder / WRITTEN_PARTS, contents.rows
    if not done_file.exists():
        shutil.rmtree(folder, ignore_errors=True)
        contents.create(zarr.open_group(folder, mode="w"))
        done_file.touch()
    lines = [line for line in done_file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    done_file.write_text("".join(lines))  # drops an incomplete last line
    done = {int(line) for line in lines}
    group = zarr.open_group(folder, mode="r+")

    def write_part(start: int) -> int:
        contents.write(group, start, min(start + contents.part_rows, count))
        return start

    written = min(count, len(done) * contents.part_rows)
    next_at = time.monotonic() + PROGRESS_EVERY_S
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        with done_file.open("a") as list_of_done:
            starts = range(0, count, contents.part_rows)
            parts = [pool.submit(write_part, start) for start in starts if start not in done]
            for part in as_completed(parts):
                print(part.result(), file=list_of_done, flush=True)
                written = min(count, written + contents.part_rows)
                if time.monotonic() > next_at:
                    on_progress(written, count)
                    next_at = time.monotonic() + PROGRESS_EVERY_S
    finally:
        pool.shutdown(cancel_futures=True)
