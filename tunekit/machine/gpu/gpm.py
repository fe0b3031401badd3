"""The counters that Hopper and newer GPUs keep of themselves (GPM), read in pairs of samples."""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_MIB_IN_MB = 1.048576

_METRICS: Mapping[str, tuple[str, float]] = {
    "graphics_activity_percent": ("NVML_GPM_METRIC_GRAPHICS_UTIL", 1),
    "sm_activity_percent": ("NVML_GPM_METRIC_SM_UTIL", 1),
    "sm_occupancy_percent": ("NVML_GPM_METRIC_SM_OCCUPANCY", 1),
    "tensor_activity_percent": ("NVML_GPM_METRIC_ANY_TENSOR_UTIL", 1),
    "dram_activity_percent": ("NVML_GPM_METRIC_DRAM_BW_UTIL", 1),
    "pcie_tx_mb_per_s": ("NVML_GPM_METRIC_PCIE_TX_PER_SEC", _MIB_IN_MB),
    "pcie_rx_mb_per_s": ("NVML_GPM_METRIC_PCIE_RX_PER_SEC", _MIB_IN_MB),
    "nvlink_tx_mb_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", _MIB_IN_MB),
    "nvlink_rx_mb_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", _MIB_IN_MB),
}
"""By field of GpuReading: the driver's metric, and what its figure is multiplied by."""

_SUCCESS = 0

_PASSING_ERRORS = (
    "NVML_ERROR_TIMEOUT",
    "NVML_ERROR_GPU_IS_LOST",
    "NVML_ERROR_RESET_REQUIRED",
    "NVML_ERROR_OPERATING_SYSTEM",
    "NVML_ERROR_IN_USE",
    "NVML_ERROR_MEMORY",
    "NVML_ERROR_NO_DATA",
    "NVML_ERROR_INSUFFICIENT_RESOURCES",
    "NVML_ERROR_NOT_READY",
    "NVML_ERROR_UNKNOWN",
)
"""After these the counters may answer later; after any other the GPU is not asked again."""


class _Sample:
    """One sample that the driver allocated; known by identity, so that a freed one is never used."""

    def __init__(self, index: int, pointer: Any) -> None:
        self.index = index
        self.pointer = pointer


class GpmCounters:
    """The counters of all GPUs while the library is open; its questions may raise.

    Args:
        nvml: pynvml, started.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._live: set[_Sample] = set()
        self._has_counters: dict[int, bool] = {}

    def sample(self, index: int, gpu: Any) -> _Sample | None:
        """Return where the counters of the GPU stand, None where they can't be read now, or at all."""
        try:
            if index not in self._has_counters:
                self._has_counters[index] = self._is_supported(gpu)
            return self._taken(index, gpu) if self._has_counters[index] else None
        except Exception as error:
            if getattr(error, "value", None) not in self._passing():
                self._has_counters[index] = False
            return None

    def between(self, index: int, first: object, second: object) -> dict[str, Any] | None:
        """Return what happened between two samples of the GPU; None for samples of another or freed ones."""
        if not (self._is_of(index, first) and self._is_of(index, second)):
            return None
        nvml = self._nvml
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        known = {field: metric for field, metric in _METRICS.items() if hasattr(nvml, metric[0])}
        request.numMetrics = len(known)
        request.sample1, request.sample2 = first.pointer, second.pointer  # type: ignore[attr-defined]
        for place, (name, _) in enumerate(known.values()):
            request.metrics[place].metricId = getattr(nvml, name)
        nvml.nvmlGpmMetricsGet(request)
        return {
            field: _figure(request.metrics[place], factor)
            for place, (field, (_, factor)) in enumerate(known.items())
        }

    def free(self, sample: object) -> None:
        """Give the sample's memory back, once."""
        if isinstance(sample, _Sample) and sample in self._live:
            self._live.discard(sample)
            self._nvml.nvmlGpmSampleFree(sample.pointer)

    def free_all(self) -> None:
        """Give back what nobody gave back."""
        for sample in tuple(self._live):
            with suppress(Exception):  # one that a lost GPU does not take back must not keep the others
                self.free(sample)

    def _is_of(self, index: int, sample: object) -> bool:
        return isinstance(sample, _Sample) and sample in self._live and sample.index == index

    def _is_supported(self, gpu: Any) -> bool:
        # Under MIG the counters are each partition's own, and reading them for the whole GPU misleads.
        with suppress(Exception):  # a GPU that can't be partitioned says so by an error
            if self._nvml.nvmlDeviceGetMigMode(gpu)[0]:
                return False
        return bool(self._nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice)

    def _taken(self, index: int, gpu: Any) -> _Sample:
        pointer = self._nvml.nvmlGpmSampleAlloc()
        try:
            self._nvml.nvmlGpmSampleGet(gpu, pointer)
        except Exception:
            self._nvml.nvmlGpmSampleFree(pointer)
            raise
        sample = _Sample(index, pointer)
        self._live.add(sample)
        return sample

    def _passing(self) -> frozenset[int]:
        return frozenset(getattr(self._nvml, name) for name in _PASSING_ERRORS if hasattr(self._nvml, name))


def _figure(metric: Any, factor: float) -> float | None:
    value = float(metric.value) * factor
    return value if metric.nvmlReturn == _SUCCESS and math.isfinite(value) and value >= 0 else None
