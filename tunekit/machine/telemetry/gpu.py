"""What each GPU did while a trial ran: the driver's figures and its own counters' in one reading."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Self

from tunekit.machine.gpu.nvml import GpuReading, Nvml

LEAST_GPM_INTERVAL_S = 0.1
"""Samples closer together do not compare."""

_PCIE_EVERY_S = 5.0
"""The driver measures PCIe traffic while it is asked, for 40 ms per GPU."""
_MOST_PATIENCE_S = 1.0
"""A GPU that takes longer to answer is asked no more: the one who asks has a trial to watch."""


class GpuSampler:
    """Reads some GPUs, time after time, while it is open.

    Args:
        nvml: the driver's library; without a driver there is nothing to read.
        indexes: the GPUs' places in the driver's order.
        clock: returns seconds.
    """

    def __init__(
        self, nvml: Nvml, indexes: Sequence[int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._nvml = nvml
        self._indexes = tuple(dict.fromkeys(indexes))
        self._clock = clock
        self._counted: dict[int, tuple[float, object]] = {}
        """By GPU when its counters were sampled last, and the sample."""
        self._counts_no_pcie: set[int] = set()
        self._pcie_asked_at: dict[int, float] = {}
        self._silent: set[int] = set()

    def __enter__(self) -> Self:
        if self._indexes:
            self._nvml.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for index in tuple(self._counted):
            self._forget(index)
        if self._indexes:
            self._nvml.__exit__(*error)

    def sample(self, pids: frozenset[int] = frozenset()) -> dict[int, GpuReading]:
        """Return what each GPU does now, by its place, in the order in which they were named.

        Args:
            pids: the processes whose memory is `tree_bytes`.
        """
        readings = {}
        for index in self._indexes:
            if index in self._silent:
                continue
            before = self._clock()
            readings[index] = self._of(index, pids)
            if self._clock() - before > _MOST_PATIENCE_S:
                self._silent.add(index)
        return readings

    def _of(self, index: int, pids: frozenset[int]) -> GpuReading:
        activity = self._activity(index)
        counts_pcie = index in self._counted and index not in self._counts_no_pcie
        asks_pcie = not counts_pcie and self._may_ask_pcie(index)
        reading = self._nvml.reading(index, pcie=asks_pcie) or GpuReading()
        counted = {name: figure for name, figure in asdict(activity).items() if figure is not None}
        return replace(reading, tree_bytes=_tree_bytes(reading.process_bytes, pids), **counted)

    def _may_ask_pcie(self, index: int) -> bool:
        now_s = self._clock()
        if now_s - self._pcie_asked_at.get(index, -_PCIE_EVERY_S) < _PCIE_EVERY_S:
            return False
        self._pcie_asked_at[index] = now_s
        return True

    def _activity(self, index: int) -> GpuReading:
        """Return what the GPU counted since the sample before; too soon after it nothing, and it stays."""
        now_s = self._clock()
        before_s, before = self._counted.get(index, (now_s, None))
        if before is not None and now_s - before_s < LEAST_GPM_INTERVAL_S:
            return GpuReading()
        sample = self._nvml.gpm_sample(index)
        activity = None
        if before is not None and sample is not None:
            activity = self._nvml.gpm_between(index, before, sample)
            if activity is None or activity.pcie_tx_mb_per_s is activity.pcie_rx_mb_per_s is None:
                self._counts_no_pcie.add(index)
        self._forget(index)
        if sample is not None:
            self._counted[index] = (now_s, sample)
        return activity or GpuReading()

    def _forget(self, index: int) -> None:
        _, sample = self._counted.pop(index, (0.0, None))
        if sample is not None:
            self._nvml.gpm_free(sample)


def _tree_bytes(process_bytes: Mapping[int, int | None] | None, pids: Collection[int]) -> float | None:
    """Return the memory of some processes; in a container the driver may number them as the host does."""
    ours = [used for pid, used in (process_bytes or {}).items() if pid in pids]
    told = [used for used in ours if used is not None]
    return float(sum(told)) if ours and len(told) == len(ours) else None
