"""What Linux tells of a process: its memory, and how long it was held up; None where it does not.

The kernel counts how long a thread was held up although it had work, for want of a CPU or by a disk. A look
takes some 3 us:

    /proc/thread-self/schedstat:  ns on a CPU | ns ready to run, without a CPU | turns
    /proc/thread-self/stat:       field 42, block I/O delay in clock ticks; 0 if kernel.task_delayacct is off
"""

from __future__ import annotations

import re
import threading
from typing import NamedTuple

from ..originals import os

SHM = "/dev/shm"
_SHARED = re.compile(r" (/dev/shm/|/dev/zero \(deleted\)|/memfd:|/SYSV)")
_PRIVATE = ("Private_Clean:", "Private_Dirty:")
_BLOCK_IO_FIELD = 39
"""Place of field 42 among those of stat that follow the program's name."""
_MAX_BYTES = 2048
_kept: dict = {}  # by path: the process and thread that opened it, and its descriptor


def shm_used_bytes() -> int | None:
    """Return the use of /dev/shm by all programs, unlinked files included; None without one."""
    try:
        status = os.statvfs(SHM)
    except OSError:
        return None
    return (status.f_blocks - status.f_bfree) * status.f_frsize


class ProcessMemory(NamedTuple):
    """Memory of one process."""

    base_bytes: int
    """Proportional, without shared memory: what is shared after a fork counts in parts."""
    private_bytes: int
    """That no other process has, without shared memory."""
    pss_bytes: int
    """Proportional, of all that it has mapped."""


def memory_of(pid: int) -> ProcessMemory | None:
    """Return the memory of a process by its mappings (/proc/PID/smaps).

    smaps_rollup has no such figure: there, shared memory that one process alone has mapped is private.
    """
    base_bytes = private_bytes = pss_bytes = 0
    is_shared = False
    try:
        with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as stream:
            for line in stream:
                name, _, rest = line.partition(" ")
                if not name.endswith(":"):  # a mapping's first line: addresses, then its file at the end
                    is_shared = _SHARED.search(line) is not None
                elif name == "Pss:":
                    size_bytes = int(rest.split()[0]) << 10
                    pss_bytes += size_bytes
                    base_bytes += 0 if is_shared else size_bytes
                elif name in _PRIVATE and not is_shared:
                    private_bytes += int(rest.split()[0]) << 10
    except (OSError, ValueError, IndexError):
        return None
    return ProcessMemory(base_bytes, private_bytes, pss_bytes) if pss_bytes else None


def own_bytes() -> int:
    """Return the memory of this process that is no file's and that it shares with no other; 0 if unknown."""
    try:
        _, resident, shared, *_ = map(int, _read("/proc/self/statm").split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


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
    return None if queued_ns is None else (queued_ns, ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def _read(path: str) -> bytes:
    """Read a file of /proc, which the first thread of each process that asks for it keeps open."""
    reader = (os.getpid(), threading.get_ident())
    owner, handle = _kept.get(path, ((0, 0), -1))
    if owner == reader:
        try:
            return os.pread(handle, _MAX_BYTES, 0)
        except OSError:  # the script closed it
            pass
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if owner == reader or owner[0] != reader[0]:
        _kept[path] = reader, handle
        return os.pread(handle, _MAX_BYTES, 0)
    try:
        return os.read(handle, _MAX_BYTES)
    finally:
        os.close(handle)
