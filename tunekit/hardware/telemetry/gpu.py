"""What each GPU did while a trial ran: one flat row of figures per GPU and sample."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tunekit.hardware.nvml import GpmActivity, GpuReading, Nvml

LEAST_GPM_INTERVAL_S = 0.1
"""Samples closer together do not compare."""

_PCIE_EVERY_S = 5.0
"""The driver measures PCIe traffic while it is asked, for 40 ms per GPU."""
_MOST_PATIENCE_S = 1.0
"""A GPU that takes longer to answer is asked no more: the one who asks has a trial to watch."""


@dataclass(frozen=True)
class GpuSample:
    """What one GPU did at one moment. None is a question without an answer."""

    index: int
    """The GPU's place in the driver's order."""
    utilization_percent: float | None = None
    """Share of the driver's last sampling period in which any kernel ran, however small."""
    memory_utilization_percent: float | None = None
    used_bytes: float | None = None
    """Memory taken by anyone."""
    tree_bytes: float | None = None
    """Memory of the processes asked about; None if the driver does not tell, or knows none of them."""
    power_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    throttle_mask: float | None = None
    """The driver's bits; `tunekit.hardware.nvml.throttle_reasons` names them."""
    pcie_tx_mb_per_s: float | None = None
    """From the GPU, since the sample before where it counts that (Hopper and newer), else in some 20 ms."""
    pcie_rx_mb_per_s: float | None = None
    sm_activity_percent: float | None = None
    """This and the following: since the sample before, on Hopper and newer."""
    tensor_activity_percent: float | None = None
    dram_activity_percent: float | None = None
    sm_occupancy_percent: float | None = None
    graphics_activity_percent: float | None = None
    """Share of the time in which anything ran, over the whole interval."""
    nvlink_tx_mb_per_s: float | None = None
    """Over all links together."""
    nvlink_rx_mb_per_s: float | None = None


@dataclass
class _Counted:
    """The latest sample of a GPU's own counters."""

    at_s: float
    sample: object


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
        self._counted: dict[int, _Counted] = {}
        self._counts_no_pcie: set[int] = set()
        self._pcie_asked_at: dict[int, float] = {}
        self._silent: set[int] = set()

    def __enter__(self) -> Self:
        """Open the driver's library, if there is a GPU to read."""
        if self._indexes:
            self._nvml.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back what the driver holds for the counters, and close the library."""
        for index in tuple(self._counted):
            self._forget(index)
        if self._indexes:
            self._nvml.__exit__(kind, error, trace)

    def sample(self, pids: frozenset[int] = frozenset()) -> list[GpuSample]:
        """Return what each GPU does now, in the order in which they were named.

        Args:
            pids: the processes whose memory is `tree_bytes`.
        """
        samples = []
        for index in self._indexes:
            if index in self._silent:
                continue
            before = self._clock()
            samples.append(self._of(index, pids))
            if self._clock() - before > _MOST_PATIENCE_S:
                self._silent.add(index)
        return samples

    def _of(self, index: int, pids: frozenset[int]) -> GpuSample:
        activity = self._activity(index) or GpmActivity()
        counts_pcie = index in self._counted and index not in self._counts_no_pcie
        asks_pcie = not counts_pcie and self._may_ask_pcie(index)
        reading = self._nvml.reading(index, pcie=asks_pcie) or GpuReading()
        return GpuSample(
            index=index,
            utilization_percent=reading.utilization_percent,
            memory_utilization_percent=reading.memory_utilization_percent,
            used_bytes=reading.used_bytes,
            tree_bytes=_tree_bytes(reading.process_bytes, pids),
            power_w=reading.power_w,
            temperature_c=reading.temperature_c,
            sm_clock_mhz=reading.sm_clock_mhz,
            memory_clock_mhz=reading.memory_clock_mhz,
            throttle_mask=reading.throttle_mask,
            pcie_tx_mb_per_s=activity.pcie_tx_mb_per_s if counts_pcie else reading.pcie_tx_mb_per_s,
            pcie_rx_mb_per_s=activity.pcie_rx_mb_per_s if counts_pcie else reading.pcie_rx_mb_per_s,
            sm_activity_percent=activity.sm_activity_percent,
            tensor_activity_percent=activity.tensor_activity_percent,
            dram_activity_percent=activity.dram_activity_percent,
            sm_occupancy_percent=activity.sm_occupancy_percent,
            graphics_activity_percent=activity.graphics_activity_percent,
            nvlink_tx_mb_per_s=activity.nvlink_tx_mb_per_s,
            nvlink_rx_mb_per_s=activity.nvlink_rx_mb_per_s,
        )

    def _may_ask_pcie(self, index: int) -> bool:
        now_s = self._clock()
        if now_s - self._pcie_asked_at.get(index, -_PCIE_EVERY_S) < _PCIE_EVERY_S:
            return False
        self._pcie_asked_at[index] = now_s
        return True

    def _activity(self, index: int) -> GpmActivity | None:
        """Return what the GPU counted since the sample before; too soon after it, None, and it stays."""
        now_s = self._clock()
        before = self._counted.get(index)
        if before is not None and now_s - before.at_s < LEAST_GPM_INTERVAL_S:
            return None
        sample = self._nvml.gpm_sample(index)
        if sample is None:
            self._forget(index)
            return None
        activity = None if before is None else self._nvml.gpm_between(index, before.sample, sample)
        self._forget(index)
        self._counted[index] = _Counted(now_s, sample)
        pcie = (activity.pcie_tx_mb_per_s, activity.pcie_rx_mb_per_s) if activity else (None, None)
        if before is not None and pcie == (None, None):
            self._counts_no_pcie.add(index)
        return activity

    def _forget(self, index: int) -> None:
        before = self._counted.pop(index, None)
        if before is not None:
            self._nvml.gpm_free(before.sample)


def _tree_bytes(process_bytes: Mapping[int, int | None] | None, pids: Collection[int]) -> float | None:
    """Return the memory of some processes; in a container the driver may number them as the host does."""
    ours = [used for pid, used in (process_bytes or {}).items() if pid in pids]
    told = [used for used in ours if used is not None]
    return float(sum(told)) if ours and len(told) == len(ours) else None
