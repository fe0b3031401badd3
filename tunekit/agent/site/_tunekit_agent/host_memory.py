"""What processes use of this machine's memory, as Linux tells; None where it does not."""

from __future__ import annotations

import os

_SHM = "/dev/shm"


def shm_used_bytes() -> int | None:
    """Return the use of /dev/shm by all programs, unlinked files included; None without one."""
    try:
        status = os.statvfs(_SHM)
    except OSError:
        return None
    return (status.f_blocks - status.f_bfree) * status.f_frsize


class Proportional:
    """Memory of one process, with what it shares divided by those that share it.

    Attributes:
        base_bytes: of its own and of files, without shared memory.
        pss_bytes: of all that it has mapped.
    """

    def __init__(self, base_bytes: int, pss_bytes: int) -> None:
        self.base_bytes = base_bytes
        self.pss_bytes = pss_bytes


def proportional(pid: int) -> Proportional | None:
    """Return the memory of a process from its smaps_rollup (Linux 5.4 and later for its parts)."""
    sizes: dict = {}
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii", errors="replace") as stream:
            for line in stream:
                words = line.split()
                if len(words) == 3 and words[2] == "kB":
                    sizes[words[0]] = int(words[1]) << 10
        return Proportional(sizes["Pss_Anon:"] + sizes["Pss_File:"], sizes["Pss:"])
    except (OSError, KeyError, ValueError):
        return None
