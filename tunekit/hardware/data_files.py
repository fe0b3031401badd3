"""The regular files below a path: counted, and a fair sample of them kept."""

import os
import random
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tunekit.errors import UsageError

MAX_FILES = 200_000
"""The walk counts no further."""

MAX_SAMPLE = 512

_CLOCK_EVERY = 64
"""Entries between two looks at the clock."""


@dataclass(frozen=True)
class DataFile:
    """One regular file."""

    path: bytes
    size_bytes: int


@dataclass(frozen=True)
class DataFiles:
    """What a walk met."""

    count: int
    total_bytes: int
    is_complete: bool
    sample: tuple[DataFile, ...]
    """Any file with content is as likely in it as another, in the order of the walk."""
    problem: str | None
    """The first thing that could not be looked at."""


def walk(path: bytes, deadline_s: float, clock: Callable[[], float], max_files: int = MAX_FILES) -> DataFiles:
    """Return the regular files below a path, or the path itself if it is one.

    Links to files and folders are followed, each folder once, so that no circle of links holds the walk up.
    Nothing is opened but folders: a fifo or a device is never waited for. What vanishes is left out.

    Args:
        path: a file or a folder.
        deadline_s: when the walk ends, by the clock.
        clock: seconds that only grow.
        max_files: how many files are counted at the most.

    Raises:
        UsageError: the path is neither a file nor a folder.
    """
    found = _Found(max_files)
    status = _status_of(path)
    if stat.S_ISREG(status.st_mode):
        found.add(path, status.st_size)
    else:
        for entries, entry in enumerate(_entries(path, found)):
            if found.is_full or (entries % _CLOCK_EVERY == _CLOCK_EVERY - 1 and clock() >= deadline_s):
                found.is_complete = False
                break
            found.look_at(entry)
    return found.result()


def _status_of(path: bytes) -> os.stat_result:
    shown = os.fsdecode(path)
    try:
        status = os.stat(path)  # noqa: PTH116  a path of bytes
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"the data set can't be looked at: {shown!r}: {reason}; "
            "give the file or folder that training reads"
        ) from error
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise UsageError(
            f"the data set must be a file or a folder, got a device, pipe or socket: {shown!r}; "
            "give the file or folder that training reads"
        )
    return status


class _Found:
    """What the walk met so far, with a sample of fixed size (Vitter's algorithm R)."""

    def __init__(self, max_files: int) -> None:
        self.is_complete = True
        self.problem: str | None = None
        self._max_files = max_files
        self._count = 0
        self._with_content = 0
        self._total_bytes = 0
        self._sample: list[tuple[int, DataFile]] = []
        self._random = random.Random(0)
        self._met: set[tuple[int, int]] = set()

    @property
    def is_full(self) -> bool:
        return self._count >= self._max_files

    def add(self, path: bytes, size_bytes: int) -> None:
        self._count += 1
        self._total_bytes += size_bytes
        if size_bytes == 0:
            return
        self._with_content += 1
        file = (self._with_content, DataFile(path, size_bytes))
        if len(self._sample) < MAX_SAMPLE:
            self._sample.append(file)
        elif (place := self._random.randrange(self._with_content)) < MAX_SAMPLE:
            self._sample[place] = file

    def look_at(self, entry: "os.DirEntry[bytes]") -> None:
        """Count an entry if it is, or links to, a regular file."""
        try:
            status = entry.stat()
        except OSError as error:
            # A link to nothing or to itself is no file, and what has vanished no longer is one.
            if isinstance(error, PermissionError):
                self.note(error)
            return
        if stat.S_ISREG(status.st_mode):
            self.add(entry.path, status.st_size)

    def is_new(self, folder: bytes) -> bool:
        """Return whether a folder is met for the first time."""
        try:
            status = os.stat(folder)  # noqa: PTH116
        except OSError as error:
            self.note(error)
            return False
        identity = (status.st_dev, status.st_ino)
        is_new = identity not in self._met
        self._met.add(identity)
        return is_new

    def note(self, error: OSError) -> None:
        name = error.filename
        shown = os.fsdecode(name) if isinstance(name, bytes) else str(name)
        self.problem = self.problem or f"{shown}: {error.strerror}"
        if not isinstance(error, FileNotFoundError):
            self.is_complete = False

    def result(self) -> DataFiles:
        sample = tuple(file for _, file in sorted(self._sample, key=lambda numbered: numbered[0]))
        return DataFiles(self._count, self._total_bytes, self.is_complete, sample, self.problem)


def _entries(path: bytes, found: _Found) -> Iterator["os.DirEntry[bytes]"]:
    """Yield every entry below a folder that is no folder itself, one folder after another."""
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        if not found.is_new(folder):
            continue
        inner = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if _is_folder(entry):
                        inner.append(entry.path)
                    else:
                        yield entry
        except OSError as error:
            found.note(error)
        waiting.extend(sorted(inner, reverse=True))


def _is_folder(entry: "os.DirEntry[bytes]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
