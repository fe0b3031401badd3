"""Measures a trial's process tree from the parent: memory, CPU time and reads."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from tunekit.machine.host.limits import shm_used_bytes
from tunekit.records.measurement import TreeMemory

_PSS_SHARE = 0.004
"""MAX share of one core that reading the PSS may use, unless memory is near the limit."""
_PSS_EVERY_S = 1.0
_BOUND_EVERY_S = 0.25
"""How often `is_above` checks: a process fills a gigabyte in about this time."""
_PIDS_EVERY_S = 0.4


@dataclass(frozen=True)
class TreeActivity:
    """Counters of a process tree since its start."""

    cpu_s: float
    """User and system time of every process, ended ones included."""
    read_bytes: int
    """Bytes fetched from storage."""
    rchar_bytes: int
    """Bytes returned by read calls, including those from the page cache."""
    processes: int


class TreeMeter:
    """Tracks the memory, CPU time and reads of a process and all its descendants.

    Args:
        root_pid: the process that adopts every orphan of the tree; its own memory is not counted.
        below: returns the process ids of all its descendants.
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
        """CPU time that reading the PSS has used in this process."""

    def is_above(self, limit_bytes: int) -> bool:
        """Return whether the tree's PSS is above a limit; if so, `last_pss_bytes` is the current figure.

        The PSS, which divides shared pages among the processes that map them, is costly to read: the kernel
        walks every page table. So it is read only occasionally, and whenever it could be above the limit.
        That is known from the sum of all processes' anonymous pages plus the growth of /dev/shm: after a fork
        the sum may be many times the PSS, but it is never below it.
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
        """Return the size of the tree's resident pages that belong neither to files nor to /dev/shm.

        Pages shared after a fork count in every process, so this is an upper bound, not the tree's use.
        """
        return sum(_anonymous_bytes(process) for process in self._tree())

    def sample(self) -> int:
        """Read the tree's PSS, update the peaks, and return the PSS in bytes."""
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
        """The latest reading of the PSS; 0 before the first."""
        return self._pss_bytes

    @property
    def pids(self) -> frozenset[int]:
        """The ids of the root's descendants, as last listed."""
        return frozenset(self._processes)

    def activity(self) -> TreeActivity:
        """Return the tree's counters since its start.

        When a process ends, its counters pass to the process that waits for it, eventually to the root.
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
        """Return the peaks of all readings so far."""
        return TreeMemory(
            peak_pss_bytes=self._peak_pss_bytes,
            peak_shm_bytes=self._peak_shm_bytes,
            processes=self._most_processes,
            samples=self._samples,
        )

    def shm_growth_bytes(self) -> int:
        """Return how much more of /dev/shm is used than at the start."""
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
    """Return psutil's answer; None if the process is gone or the kernel does not provide the figure."""
    try:
        return getattr(process, question)()
    except Exception:  # on unusual kernels psutil raises RuntimeError, ValueError or AttributeError
        return None
