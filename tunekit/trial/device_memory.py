"""Waits until the GPUs have got back what a trial took: the next one must find them as they were."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tunekit.hardware.nvml import Nvml

_SLACK_BYTES = 64 << 20
"""Growth that is not waited for: the driver's own, or a desktop's."""
_LIMIT_S = 10.0
_POLL_S = 0.05


class DeviceMemory:
    """Remembers what is taken on each GPU on entry; on exit waits until it is free again.

    The driver frees a killed process's memory a moment after the process is gone. Another user of the
    GPU may take some meanwhile, so the wait has a limit.

    Args:
        nvml: the driver's library; without a driver nothing is waited for.
        clock: returns seconds.
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        nvml: Nvml,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._nvml = nvml
        self._clock = clock
        self._sleep = sleep
        self._before: list[int | None] = []

    def __enter__(self) -> Self:
        self._before = self._used()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end = self._clock() + _LIMIT_S
        while not self._is_returned() and self._clock() < end:
            self._sleep(_POLL_S)

    def _is_returned(self) -> bool:
        return all(
            before is None or now is None or now <= before + _SLACK_BYTES
            for before, now in zip(self._before, self._used(), strict=False)
        )

    def _used(self) -> list[int | None]:
        with self._nvml as nvml:
            return [nvml.used_bytes(index) for index in range(nvml.device_count())]
