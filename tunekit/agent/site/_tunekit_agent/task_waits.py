"""How long the calling thread was held up although it had work: for want of a CPU, or by a disk.

The kernel counts it, and a look takes some 3 us:

    /proc/thread-self/schedstat:  ns on a CPU | ns ready to run, without a CPU | turns
    /proc/thread-self/stat:       field 42, block I/O delay in clock ticks; 0 if kernel.task_delayacct is off
"""

from __future__ import annotations

from .originals import os

_BLOCK_IO_FIELD = 39
"""Place of field 42 among those of stat that follow the program's name."""
_NS_PER_S = 1_000_000_000
_MOST_BYTES = 2048


def run_queue_ns() -> int | None:
    """Return how long this thread was ready to run and had no CPU, since it started; None if unknown."""
    try:
        _, queued_ns, turns = map(int, _read("/proc/thread-self/schedstat").split())
    except (OSError, ValueError):
        return None
    return queued_ns if turns else None  # a kernel that does not count says "0 0 0"


def waits_ns() -> tuple | None:
    """Return how long this thread waited for a CPU and for block devices; None where either is unknown."""
    queued_ns = run_queue_ns()
    try:
        ticks = int(_read("/proc/thread-self/stat").rpartition(b")")[2].split()[_BLOCK_IO_FIELD])
    except (OSError, ValueError, IndexError):
        return None
    return None if queued_ns is None else (queued_ns, ticks * _NS_PER_S // os.sysconf("SC_CLK_TCK"))


def _read(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, _MOST_BYTES)
    finally:
        os.close(handle)
