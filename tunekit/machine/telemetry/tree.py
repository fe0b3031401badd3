"""Memory, CPU time and reads of a trial's process tree, read by the parent."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from tunekit.machine.host.limits import shm_used_bytes
from tunekit.records.measurement import TreeMemory

_PSS_SHARE = 0.004
"""Most of one core that reading the PSS may take, unless a limit is near."""
_PSS_EVERY_S = 1.0
_BOUND_EVERY_S = 0.25
"""A process fills a gigabyte in about that time."""
_PIDS_EVERY_S = 0.4


@dataclass(frozen=True)
class TreeActivity:
    """Counters of a process tree since its start."""

    cpu_s: float
    """User and system time of every process, ended ones included."""
    read_bytes: int
    """Fetched from storage."""
    rchar_bytes: int
    """Asked for by read calls."""
    processes: int


class TreeMeter:
    """Follows the memory, the CPU time and the reads of some process and everything below it.

    Args:
        root_pid: the process that adopts every orphan of the tree; its memory is not counted.
        below: returns the pids of all processes below it.
        clock: returns seconds.
    """

    def __init__(
        self, root_pid: int, below: Callable[[], Sequence[int]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._root_pid = root_pid
        self._below = below
        self._clock = clock
        self._shm_before_bytes = shm_used_bytes() or 0
        self._processes: dict[int, psutil.Process] = {}
        self._listed_at = self._bounded_at = self._sampled_at = self._next_pss_at = -float("inf")
        self._pss_bytes = self._peak_pss_bytes = self._peak_shm_bytes = self._anonymous_at_sample = 0
        self._most_processes = self._samples = 0
        self.cost_cpu_s = 0.0
        """CPU time that reading the PSS took in this process, so far."""

    def is_above(self, limit_bytes: int) -> bool:
        """Return whether the tree's PSS is above a limit; `last_pss_bytes` is then the figure.

        The PSS, in which shared pages are divided among those who map them, is costly to read: the kernel
        walks every page table. So it is read now and then, and whenever it could be above the limit: after a
        fork the anonymous pages of all processes may be many times the PSS, but never below it.
        """
        now = self._clock()
        if now - self._bounded_at < _BOUND_EVERY_S:
            return False
        self._bounded_at = now
        anonymous_bytes = self.anonymous_bytes()
        could_be = anonymous_bytes + self.shm_growth_bytes() > limit_bytes
        grown_bytes = anonymous_bytes - self._anonymous_at_sample
        is_urgent = now - self._sampled_at >= _PSS_EVERY_S or self._pss_bytes + grown_bytes > limit_bytes
        if now < self._next_pss_at and not (could_be and is_urgent):
            return False
        return self.sample() > limit_bytes

    def anonymous_bytes(self) -> int:
        """Return the tree's resident pages that are neither of files nor of /dev/shm.

        Pages that a fork left shared count in every process, so it is no measure of what the tree takes.
        """
        return sum(_anonymous_bytes(process) for process in self._tree())

    def sample(self) -> int:
        """Read the tree's PSS, remember the peaks and return it in bytes."""
        started_at = time.process_time()
        tree = self._tree(fresh=True)
        self._pss_bytes = sum(_pss_bytes(process) for process in tree)
        self._anonymous_at_sample = sum(_anonymous_bytes(process) for process in tree)
        self._peak_pss_bytes = max(self._peak_pss_bytes, self._pss_bytes)
        self._peak_shm_bytes = max(self._peak_shm_bytes, self.shm_growth_bytes())
        self._most_processes = max(self._most_processes, len(tree))
        self._samples += 1
        cost_s = time.process_time() - started_at
        self.cost_cpu_s += cost_s
        self._sampled_at = self._clock()
        self._next_pss_at = self._sampled_at + max(_PSS_EVERY_S, cost_s / _PSS_SHARE)
        return self._pss_bytes

    @property
    def last_pss_bytes(self) -> int:
        """The latest exact reading; 0 before the first."""
        return self._pss_bytes

    @property
    def pids(self) -> frozenset[int]:
        """The processes below the root, as last listed."""
        return frozenset(self._processes)

    def activity(self) -> TreeActivity:
        """Return the tree's counters since its start.

        A process that ends leaves its counters to the one that waits for it, at last to the root.
        """
        processes = (_process(self._root_pid), *self._tree())
        reads = [_reads(process) for process in processes]
        return TreeActivity(
            cpu_s=sum(_cpu_s(process) for process in processes),
            read_bytes=sum(fetched for fetched, _ in reads),
            rchar_bytes=sum(asked for _, asked in reads),
            processes=len(self._processes),
        )

    def peaks(self) -> TreeMemory:
        """Return the largest readings so far."""
        return TreeMemory(
            peak_pss_bytes=self._peak_pss_bytes,
            peak_shm_bytes=self._peak_shm_bytes,
            processes=self._most_processes,
            samples=self._samples,
        )

    def shm_growth_bytes(self) -> int:
        """Return how much fuller /dev/shm is than at the start."""
        return max(0, (shm_used_bytes() or 0) - self._shm_before_bytes)

    def _tree(self, *, fresh: bool = False) -> list[psutil.Process]:
        now = self._clock()
        if fresh or now - self._listed_at >= _PIDS_EVERY_S:
            self._listed_at = now
            found = {pid: self._processes.get(pid) or _process(pid) for pid in self._below()}
            self._processes = {pid: process for pid, process in found.items() if process is not None}
        return list(self._processes.values())


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except (psutil.Error, OSError):
        return None


def _pss_bytes(process: psutil.Process) -> int:
    return int(getattr(_asked(process, "memory_full_info"), "pss", 0))


def _anonymous_bytes(process: psutil.Process) -> int:
    answer = _asked(process, "memory_info")
    return max(0, int(answer.rss) - int(answer.shared)) if answer is not None else 0


def _cpu_s(process: psutil.Process | None) -> float:
    answer = _asked(process, "cpu_times")
    if answer is None:
        return 0.0
    return float(answer.user + answer.system + answer.children_user + answer.children_system)


def _reads(process: psutil.Process | None) -> tuple[int, int]:
    answer = _asked(process, "io_counters")
    return (int(answer.read_bytes), int(answer.read_chars)) if answer is not None else (0, 0)


def _asked(process: psutil.Process | None, question: str) -> Any:
    """Return what psutil answers; None for a process that is gone, and for a kernel that does not tell."""
    try:
        return getattr(process, question)()
    except Exception:  # psutil lets RuntimeError, ValueError and AttributeError through for odd kernels
        return None
