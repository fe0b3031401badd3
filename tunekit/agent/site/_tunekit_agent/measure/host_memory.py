"""What processes use of this machine's memory, as Linux tells; None where it does not."""

from __future__ import annotations

import os
import re

_SHM = "/dev/shm"
_SHARED = re.compile(r" (/dev/shm/|/dev/zero \(deleted\)|/memfd:|/SYSV)")
_PRIVATE = ("Private_Clean:", "Private_Dirty:")


def shm_used_bytes() -> int | None:
    """Return the use of /dev/shm by all programs, unlinked files included; None without one."""
    try:
        status = os.statvfs(_SHM)
    except OSError:
        return None
    return (status.f_blocks - status.f_bfree) * status.f_frsize


class ProcessMemory:
    """Memory of one process.

    Attributes:
        base_bytes: proportional, without shared memory: what is shared after a fork counts in parts.
        private_bytes: that no other process has, without shared memory.
        pss_bytes: proportional, of all that it has mapped.
    """

    def __init__(self, base_bytes: int, private_bytes: int, pss_bytes: int) -> None:
        self.base_bytes = base_bytes
        self.private_bytes = private_bytes
        self.pss_bytes = pss_bytes


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
