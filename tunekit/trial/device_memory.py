"""Waits until the GPUs have got back what a trial took: the next one must find them as they were."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from tunekit.machine.gpu.nvml import GpuReading, Nvml

_SLACK_BYTES = 64 << 20
"""Growth that is not waited for: the driver's own, or a desktop's."""
_LIMIT_S = 10.0
_POLL_S = 0.05


class DeviceMemory:
    """Remembers what is taken on a trial's GPUs on entry; on exit waits until it is free again.

    The driver frees a killed process's memory a moment after the process is gone. What processes hold that
    run on is not waited for, nor is any GPU on which somebody takes more meanwhile; where the driver does
    not tell whose memory it is, the wait has a limit.

    Args:
        nvml: the driver's library, held open meanwhile; without a driver nothing is waited for.
        indexes: the trial's GPUs, by their place in the driver's order.
        clock: returns seconds.
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        nvml: Nvml,
        indexes: Sequence[int],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._nvml = nvml
        self._indexes = tuple(indexes)
        self._clock = clock
        self._sleep = sleep
        self._before: dict[int, GpuReading] = {}

    def __enter__(self) -> Self:
        if self._indexes:
            self._nvml.__enter__()
        self._before = {index: self._reading(index) for index in self._indexes}
        return self

    def __exit__(self, *error: object) -> None:
        if not self._indexes:
            return
        try:
            self._wait()
        finally:
            self._nvml.__exit__(*error)

    def _wait(self) -> None:
        end = self._clock() + _LIMIT_S
        last = {index: self._reading(index) for index in self._indexes}
        waiting = [index for index, now in last.items() if not self._is_returned(index, now)]
        while waiting and self._clock() < end:
            self._sleep(_POLL_S)
            current = {index: self._reading(index) for index in waiting}
            waiting = [
                index
                for index, now in current.items()
                if not self._is_returned(index, now) and not _has_grown(last[index], now)
            ]
            last = current

    def _is_returned(self, index: int, now: GpuReading) -> bool:
        before = self._before[index]
        if before.used_bytes is None or now.used_bytes is None:
            return True
        return now.used_bytes <= before.used_bytes + _others_growth(before, now) + _SLACK_BYTES

    def _reading(self, index: int) -> GpuReading:
        return self._nvml.reading(index, pcie=False) or GpuReading()


def _others_growth(before: GpuReading, now: GpuReading) -> float:
    """Return what processes took that run on; a trial's have ended before it is waited."""
    known = before.process_bytes or {}
    running = (item for item in (now.process_bytes or {}).items() if item[0] in known or _runs(item[0]))
    return sum(max(0, (used or 0) - (known.get(pid) or 0)) for pid, used in running)


def _has_grown(last: GpuReading, now: GpuReading) -> bool:
    """Return whether more is taken than a moment ago: a trial that has ended takes none."""
    if last.used_bytes is None or now.used_bytes is None:
        return True
    return now.used_bytes > last.used_bytes


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
