"""Counts the regular files below a path, and keeps a uniform sample of them."""

import os
import random
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tunekit.errors import UsageError

MAX_FILES = 200_000
"""The walk stops after this many files."""

MAX_SAMPLE = 512


@dataclass(frozen=True)
class DataFile:
    """One regular file."""

    path: bytes
    size_bytes: int


@dataclass(frozen=True)
class DataFiles:
    """The result of a walk."""

    count: int
    total_bytes: int
    is_complete: bool
    sample: tuple[DataFile, ...]
    """A uniform sample of the non-empty files, in the order of the walk."""
    problem: str | None
    """The first file or folder that could not be read, and why."""


def walk(path: bytes, deadline_s: float, clock: Callable[[], float], max_files: int = MAX_FILES) -> DataFiles:
    """Count and sample the regular files below a path, or the path itself if it is a file.

    Links are followed, but each folder is visited once, so circular links don't trap the walk. Only folders
    are opened, so it never blocks on a fifo or a device. Files that vanish meanwhile are skipped.

    Args:
        path: a file or a folder.
        deadline_s: when to stop, in the clock's seconds.
        clock: returns seconds from a monotonic clock.
        max_files: the most files to count.

    Raises:
        UsageError: the path is neither a file nor a folder.
    """
    found = _Walk()
    status = _status_of(path)
    if stat.S_ISREG(status.st_mode):
        found.add(path, status.st_size)
        return found.result()
    for entry in found.entries(path):
        if found.count >= max_files or clock() >= deadline_s:
            found.is_complete = False
            break
        found.look_at(entry)
    return found.result()


def _status_of(path: bytes) -> os.stat_result:
    shown = os.fsdecode(path)
    remedy = "give the file or folder that training reads"
    try:
        status = os.stat(path)  # noqa: PTH116  a path of bytes
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"the data set can't be read: {shown!r}: {reason}; {remedy}") from error
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise UsageError(
            f"the data set must be a file or a folder, got a device, pipe or socket: {shown!r}; {remedy}"
        )
    return status


class _Walk:
    """The files found so far, with a sample of fixed size (Vitter's algorithm R)."""

    def __init__(self) -> None:
        self.is_complete = True
        self.count = 0
        self._problem: str | None = None
        self._with_content = 0
        self._total_bytes = 0
        self._sample: list[tuple[int, DataFile]] = []
        self._random = random.Random(0)
        self._folders: set[tuple[int, int]] = set()

    def entries(self, path: bytes) -> Iterator["os.DirEntry[bytes]"]:
        """Yield every entry below a folder that is not itself a folder, one folder after another."""
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            inner = []
            try:
                status = os.stat(folder)  # noqa: PTH116
                if (status.st_dev, status.st_ino) in self._folders:
                    continue
                self._folders.add((status.st_dev, status.st_ino))
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if _is_folder(entry):
                            inner.append(entry.path)
                        else:
                            yield entry
            except OSError as error:
                self._note(error)
            waiting.extend(sorted(inner, reverse=True))

    def look_at(self, entry: "os.DirEntry[bytes]") -> None:
        """Count the entry if it is a regular file or a link to one."""
        try:
            status = entry.stat()
        except OSError as error:
            # Broken and circular links, and files that have vanished, are not reported.
            if isinstance(error, PermissionError):
                self._note(error)
            return
        if stat.S_ISREG(status.st_mode):
            self.add(entry.path, status.st_size)

    def add(self, path: bytes, size_bytes: int) -> None:
        self.count += 1
        self._total_bytes += size_bytes
        if size_bytes == 0:
            return
        self._with_content += 1
        file = (self._with_content, DataFile(path, size_bytes))
        if len(self._sample) < MAX_SAMPLE:
            self._sample.append(file)
        elif (place := self._random.randrange(self._with_content)) < MAX_SAMPLE:
            self._sample[place] = file

    def result(self) -> DataFiles:
        sample = tuple(file for _, file in sorted(self._sample, key=lambda numbered: numbered[0]))
        return DataFiles(self.count, self._total_bytes, self.is_complete, sample, self._problem)

    def _note(self, error: OSError) -> None:
        name = error.filename
        shown = os.fsdecode(name) if isinstance(name, bytes) else str(name)
        self._problem = self._problem or f"{shown}: {error.strerror}"
        if not isinstance(error, FileNotFoundError):
            self.is_complete = False


def _is_folder(entry: "os.DirEntry[bytes]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
