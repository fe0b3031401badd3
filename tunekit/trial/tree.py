"""Host memory of a trial's process tree, read from /proc by the parent."""

import os
from pathlib import Path

from tunekit.records.measurement import TreeMemory
from tunekit.trial.keeper import descendants

_SHM = Path("/dev/shm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def pss_bytes(pid: int) -> int:
    """Return a process's proportional set size: shared pages divided among those who map them."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except (OSError, IndexError, ValueError):
        pass
    return 0


def private_bytes(pid: int) -> int:
    """Return resident minus shared bytes of a process: cheap to read, never above its PSS."""
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
        return max(0, int(resident) - int(shared)) * _PAGE_BYTES
    except (OSError, ValueError):
        return 0


def shm_used_bytes() -> int:
    """Return the bytes used in /dev/shm; 0 without one."""
    try:
        status = os.statvfs(_SHM)
    except OSError:
        return 0
    return (status.f_blocks - status.f_bfree) * status.f_frsize


class TreeMeter:
    """Follows the host memory of everything below one process.

    Args:
        root_pid: the keeper; it is not counted itself.
    """

    def __init__(self, root_pid: int) -> None:
        self._root_pid = root_pid
        self._shm_before_bytes = shm_used_bytes()
        self._peak_pss_bytes = self._peak_shm_bytes = 0
        self._processes = self._samples = 0

    def private_bytes(self) -> int:
        """Return a lower bound of the tree's memory now, cheap enough to ask several times a second."""
        return sum(private_bytes(pid) for pid in descendants(self._root_pid)) + self._shm_growth_bytes()

    def sample(self) -> int:
        """Read the tree's PSS, remember the peaks and return it in bytes."""
        pids = descendants(self._root_pid)
        total = sum(pss_bytes(pid) for pid in pids)
        self._peak_pss_bytes = max(self._peak_pss_bytes, total)
        self._peak_shm_bytes = max(self._peak_shm_bytes, self._shm_growth_bytes())
        self._processes = max(self._processes, len(pids))
        self._samples += 1
        return total

    def peaks(self) -> TreeMemory:
        """Return the largest readings so far."""
        return TreeMemory(
            peak_pss_bytes=self._peak_pss_bytes,
            peak_shm_bytes=self._peak_shm_bytes,
            processes=self._processes,
            samples=self._samples,
        )

    def _shm_growth_bytes(self) -> int:
        return max(0, shm_used_bytes() - self._shm_before_bytes)
