"""Reads a sample of files so that storage, and not the page cache, answers.

Before a part of a file is read, its pages are put out of the page cache; only reading is timed. Nothing is
read twice: the sequential and the random reads have parts of their own.
"""

import bisect
import contextlib
import itertools
import os
import random
import stat
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tunekit.machine.host.limits import counter
from tunekit.machine.storage.data_files import DataFile
from tunekit.units import KIB, MIB

MAX_READ_BYTES = 256 * MIB
"""By each of the two ways of reading."""
BLOCK_BYTES = MIB
RANDOM_READ_BYTES = 64 * KIB
_STRETCH_BYTES = 32 * MIB
"""Of one of many files, read in one go: no more, so that several of them are seen."""
_WINDOW_BYTES = 2 * MIB
"""Put out of the page cache together: a part of one of the kernel's large folios, which are aligned to their
size and this long at the most (on x86), does not go alone."""
_HALVED_FROM_BYTES = 2 * _WINDOW_BYTES
"""Larger files give one half to each way of reading, smaller ones are read whole in one way."""
_MIN_BYTES = MIB
_MIN_READS = 16
"""Fewer reads of fewer bytes are too little to tell a rate."""
_CACHED_SHARE = 0.02
"""At most so much may have come from the page cache."""


def fetched_bytes() -> int:
    """Return what this process has fetched from storage so far; 0 where the kernel does not count it."""
    return counter(Path("/proc/self/io"), "read_bytes:") or 0


def _advise(descriptor: int, start: int, length: int, advice: str) -> None:
    try:
        os.posix_fadvise(descriptor, start, length, getattr(os, advice))
    except (OSError, AttributeError):
        return  # advice is no promise: whether it helped is seen by what is fetched


class Part(NamedTuple):
    """A part of a file, read in one go."""

    path: bytes
    start: int
    length: int


@dataclass
class Reading:
    """What one way of reading gave."""

    bytes_read: int = 0
    reads: int = 0
    """Parts or blocks."""
    time_s: float = 0.0
    fetched_bytes: int = 0
    """From storage, while it read."""
    problem: str | None = None

    @property
    def mb_per_s(self) -> float | None:
        """Rate in decimal megabytes, None where too little was read."""
        enough = self.bytes_read >= _MIN_BYTES or self.reads >= _MIN_READS
        return self.bytes_read / self.time_s / 1e6 if enough and self.bytes_read and self.time_s > 0 else None

    @property
    def is_cold(self) -> bool | None:
        """Whether all came from storage, not the page cache; None where the kernel counts nothing (FUSE)."""
        is_known = self.bytes_read and self.fetched_bytes
        return self.fetched_bytes >= (1 - _CACHED_SHARE) * self.bytes_read if is_known else None


@dataclass(frozen=True)
class Plan:
    """Which parts are read in which way."""

    sequential: tuple[Part, ...]
    random: tuple[Part, ...]
    is_small_files: bool
    """Whether one random read is one whole file."""


def plan_of(sample: Sequence[DataFile]) -> Plan:
    """Return what to read of a sample of files, in which way."""
    is_small_files = bool(sample) and statistics.median(file.size_bytes for file in sample) <= MIB
    large = sum(file.size_bytes >= _HALVED_FROM_BYTES for file in sample)
    stretch_bytes = max(_STRETCH_BYTES, MAX_READ_BYTES // max(large, 1))
    sequential: list[Part] = []
    random_files: list[Part] = []
    for number, file in enumerate(sample):
        if file.size_bytes >= _HALVED_FROM_BYTES:
            middle = file.size_bytes // 2 // _WINDOW_BYTES * _WINDOW_BYTES
            sequential.append(Part(file.path, 0, min(middle, stretch_bytes)))
            if not is_small_files:
                random_files.append(Part(file.path, middle, file.size_bytes - middle))
        else:
            (random_files if number % 2 else sequential).append(Part(file.path, 0, file.size_bytes))
    chance = random.Random(0)
    if is_small_files:
        chance.shuffle(random_files)
    else:
        random_files = _slots(random_files, chance)
    return Plan(tuple(sequential), tuple(random_files), is_small_files)


def read_parts(
    parts: Sequence[Part], is_random: bool, deadline_s: float, clock: Callable[[], float]
) -> Reading:
    """Read parts of files one after another until the deadline or the cap; what can't be read is left out."""
    reading, before = Reading(), fetched_bytes()
    for part in parts:
        if clock() >= deadline_s or reading.bytes_read >= MAX_READ_BYTES:
            break
        try:
            with _opened(part.path) as descriptor:
                _read_part(descriptor, part, is_random, deadline_s, clock, reading)
        except OSError as error:
            reading.problem = reading.problem or f"{os.fsdecode(part.path)}: {error.strerror}"
    reading.fetched_bytes = fetched_bytes() - before
    return reading


def _read_part(
    descriptor: int,
    part: Part,
    is_random: bool,
    deadline_s: float,
    clock: Callable[[], float],
    reading: Reading,
) -> None:
    _, start, length = part
    window = start // _WINDOW_BYTES * _WINDOW_BYTES
    beyond = -(-(start + length) // _WINDOW_BYTES) * _WINDOW_BYTES
    for _ in range(2):  # dirty pages are written out at the first asking and can go at the second
        _advise(descriptor, window, beyond - window, "POSIX_FADV_DONTNEED")
    if is_random:
        _advise(descriptor, 0, 0, "POSIX_FADV_RANDOM")  # nothing ahead: it is to be read later
    end = start + min(length, MAX_READ_BYTES - reading.bytes_read)
    while start < end:
        before_s = clock()
        if before_s >= deadline_s:
            return
        got = len(os.pread(descriptor, min(BLOCK_BYTES, end - start), start))
        reading.time_s += clock() - before_s
        if got == 0:  # the file was cut short
            return
        reading.bytes_read += got
        reading.reads += 1
        start += got


@contextlib.contextmanager
def _opened(path: bytes) -> Iterator[int]:
    """Open a regular file for reading, without waiting and, where that is allowed, without a trace.

    Raises:
        OSError: it can't be opened, or is no regular file any more.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_NOATIME)
    except PermissionError:  # only the owner may leave the time of access as it is
        descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "no regular file any more")
        yield descriptor
    finally:
        os.close(descriptor)


def _slots(parts: Sequence[Part], chance: random.Random) -> list[Part]:
    """Return places for random reads in parts of files, in no order and none twice."""
    counts = [part.length // RANDOM_READ_BYTES for part in parts]
    ends = list(itertools.accumulate(counts))
    total = ends[-1] if ends else 0
    slots = []
    for place in chance.sample(range(total), min(total, MAX_READ_BYTES // RANDOM_READ_BYTES)):
        which = bisect.bisect_right(ends, place)
        start = parts[which].start + (place - ends[which] + counts[which]) * RANDOM_READ_BYTES
        slots.append(Part(parts[which].path, start, RANDOM_READ_BYTES))
    return slots
