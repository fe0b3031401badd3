"""Reads a sample of files from storage rather than from the page cache, and measures the rates.

Before a part of a file is read, its pages are evicted from the page cache; only reading is timed. Nothing is
read twice: the sequential and the random reads use different parts.
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
"""Largest number of bytes to read sequentially, and as many at random."""
BLOCK_BYTES = MIB
RANDOM_READ_BYTES = 64 * KIB
_STRETCH_BYTES = 32 * MIB
"""Bytes to read sequentially from each of many files, so that several files are sampled."""
_WINDOW_BYTES = 2 * MIB
"""Unit of eviction from the page cache: a large folio is only evicted whole, and folios are aligned to their
size and at most this long (on x86)."""
_HALVED_FROM_BYTES = 2 * _WINDOW_BYTES
"""Files of at least this size are read half sequentially and half at random, smaller ones in one way only."""
_MIN_BYTES = MIB
_MIN_READS = 16
"""A rate needs at least `_MIN_BYTES` or at least this many reads."""
_CACHED_SHARE = 0.02
"""A reading is cold if at most this share of it came from the page cache."""


def fetched_bytes() -> int:
    """Return the bytes that this process has fetched from storage; 0 where the kernel does not count them."""
    return counter(Path("/proc/self/io"), "read_bytes:") or 0


def _advise(descriptor: int, start: int, length: int, advice: str) -> None:
    try:
        os.posix_fadvise(descriptor, start, length, getattr(os, advice))
    except (OSError, AttributeError):
        return  # advice is optional: `fetched_bytes` shows whether it worked


def evict(path: bytes) -> None:
    """Drop a file's pages from the page cache, if it can be opened."""
    with contextlib.suppress(OSError), _opened(path) as descriptor:
        for _ in range(2):  # the first call writes dirty pages back, the second evicts them
            _advise(descriptor, 0, 0, "POSIX_FADV_DONTNEED")


class Part(NamedTuple):
    """A contiguous part of a file."""

    path: bytes
    start: int
    length: int


@dataclass
class Reading:
    """The result of the sequential or of the random reads."""

    bytes_read: int = 0
    reads: int = 0
    """Number of read calls."""
    time_s: float = 0.0
    fetched_bytes: int = 0
    """Bytes that came from storage, not the page cache."""
    problem: str | None = None

    @property
    def mb_per_s(self) -> float | None:
        """Rate in decimal megabytes per second; None if too little was read."""
        enough = self.bytes_read >= _MIN_BYTES or self.reads >= _MIN_READS
        return self.bytes_read / self.time_s / 1e6 if enough and self.bytes_read and self.time_s > 0 else None

    @property
    def is_cold(self) -> bool | None:
        """Whether all came from storage, not the page cache; None if the kernel does not count it (FUSE)."""
        is_known = self.bytes_read and self.fetched_bytes
        return self.fetched_bytes >= (1 - _CACHED_SHARE) * self.bytes_read if is_known else None


@dataclass(frozen=True)
class Plan:
    """The parts to read sequentially and at random."""

    sequential: tuple[Part, ...]
    random: tuple[Part, ...]
    is_small_files: bool
    """Whether one random read is one whole file."""


def plan_of(sample: Sequence[DataFile]) -> Plan:
    """Plan which parts of a sample of files to read, and how."""
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
    """Read parts of files one by one until the deadline or `MAX_READ_BYTES`; unreadable files are skipped."""
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
    for _ in range(2):  # the first call writes dirty pages back, the second evicts them
        _advise(descriptor, window, beyond - window, "POSIX_FADV_DONTNEED")
    if is_random:
        _advise(descriptor, 0, 0, "POSIX_FADV_RANDOM")  # no readahead of parts that are read later
    end = start + min(length, MAX_READ_BYTES - reading.bytes_read)
    while start < end:
        before_s = clock()
        if before_s >= deadline_s:
            return
        got = len(os.pread(descriptor, min(BLOCK_BYTES, end - start), start))
        reading.time_s += clock() - before_s
        if got == 0:  # the file was truncated
            return
        reading.bytes_read += got
        reading.reads += 1
        start += got


@contextlib.contextmanager
def _opened(path: bytes) -> Iterator[int]:
    """Open a regular file for reading without blocking and, if allowed, without changing its access time.

    Raises:
        OSError: it can't be opened, or is no longer a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_NOATIME)
    except PermissionError:  # only the owner may use O_NOATIME
        descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "no longer a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _slots(parts: Sequence[Part], chance: random.Random) -> list[Part]:
    """Return distinct random reads in parts of files, in random order."""
    counts = [part.length // RANDOM_READ_BYTES for part in parts]
    ends = list(itertools.accumulate(counts))
    total = ends[-1] if ends else 0
    slots = []
    for place in chance.sample(range(total), min(total, MAX_READ_BYTES // RANDOM_READ_BYTES)):
        which = bisect.bisect_right(ends, place)
        start = parts[which].start + (place - ends[which] + counts[which]) * RANDOM_READ_BYTES
        slots.append(Part(parts[which].path, start, RANDOM_READ_BYTES))
    return slots
