"""A pynvml without a driver: the real package's constants and structures, functions from a script."""

import ctypes
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pynvml as real

from tunekit.units import GIB

NVMLError = real.NVMLError
NOT_SUPPORTED = real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)
NO_PERMISSION = real.NVMLError(real.NVML_ERROR_NO_PERMISSION)
GPU_IS_LOST = real.NVMLError(real.NVML_ERROR_GPU_IS_LOST)
NO_SUCH_FUNCTION = real.NVMLError(real.NVML_ERROR_FUNCTION_NOT_FOUND)
DRIVER_NOT_LOADED = real.NVMLError(real.NVML_ERROR_DRIVER_NOT_LOADED)
LIBRARY_NOT_FOUND = real.NVMLError(real.NVML_ERROR_LIBRARY_NOT_FOUND)
UNKNOWN_ERROR = real.NVMLError(real.NVML_ERROR_UNKNOWN)
NO_FAILURES: Mapping[str, Exception] = {}

CLOCKS_MHZ = {real.NVML_CLOCK_SM: 1755}
THROUGHPUT_KB_PER_S = {real.NVML_PCIE_UTIL_TX_BYTES: 12_500, real.NVML_PCIE_UTIL_RX_BYTES: 250_000}
COUNTED = {
    "NVML_GPM_METRIC_GRAPHICS_UTIL": 99.0,
    "NVML_GPM_METRIC_SM_UTIL": 97.5,
    "NVML_GPM_METRIC_ANY_TENSOR_UTIL": 81.25,
    "NVML_GPM_METRIC_DRAM_BW_UTIL": 33.0,
    "NVML_GPM_METRIC_PCIE_TX_PER_SEC": 100.0,
    "NVML_GPM_METRIC_PCIE_RX_PER_SEC": 1000.0,
}
"""By metric, in the driver's units; others fail each by itself."""


class ScriptedPynvml(ModuleType):
    """The functions of pynvml that tunekit calls; each in `failing` raises its error as long as it is there.

    Args:
        failing: by function the error that it raises.
        slices: how many MIG partitions the GPU has; None is MIG off.
        processes: the processes that the driver lists.
        lacking: functions that this version of the package does not have.
        counted: what each GPM metric says.
    """

    def __init__(
        self,
        failing: Mapping[str, Exception] = NO_FAILURES,
        slices: int | None = None,
        processes: tuple[tuple[int, int | None], ...] = (),
        lacking: tuple[str, ...] = (),
        counted: Mapping[str, float] = COUNTED,
    ) -> None:
        super().__init__("pynvml")
        self.calls: list[str] = []
        self.failing = dict(failing)
        self.slices = slices
        self.processes = processes
        self.counted = {getattr(real, name): value for name, value in counted.items()}
        self.allocated: list[int] = []
        for name in dir(real):
            value = getattr(real, name)
            if name.startswith("NVML_") or (isinstance(value, type) and name.startswith(("NVML", "c_nvml"))):
                setattr(self, name, value)
        for name, answer in {**self._whole(), **self._figures(), **self._gpm()}.items():
            assert hasattr(real, name)
            if name not in lacking:
                setattr(self, name, self._recorded(name, answer))

    def _whole(self) -> dict[str, Any]:
        return {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: "570.1",
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: f"gpu{index}",
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
            "nvmlDeviceGetName": lambda handle: (
                "NVIDIA H200" if handle[:3] == "gpu" else "NVIDIA H200 MIG 1g.18gb"
            ),
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=140 * GIB, used=3 * GIB),
            "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
            "nvmlDeviceGetMigMode": lambda handle: [0 if self.slices is None else 1, 0],
            "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": lambda handle, slot: self._slice(slot),
        }

    def _figures(self) -> dict[str, Any]:
        return {
            "nvmlDeviceGetPciInfo": lambda handle: real.nvmlPciInfo_t(busId=b"00000000:AB:00.0"),
            "nvmlDeviceGetCurrPcieLinkWidth": lambda handle: 16,
            "nvmlDeviceGetMaxPcieLinkWidth": lambda handle: 16,
            "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=98, memory=41),
            "nvmlDeviceGetPowerUsage": lambda handle: 655_250,
            "nvmlDeviceGetTotalEnergyConsumption": lambda handle: 1_234_500,
            "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
            "nvmlDeviceGetTemperature": lambda handle, sensor: 64 + sensor,
            "nvmlDeviceGetTemperatureV": lambda handle, sensor: 65 + sensor,
            "nvmlDeviceGetClockInfo": lambda handle, clock: CLOCKS_MHZ[clock],
            "nvmlDeviceGetMaxClockInfo": lambda handle, clock: CLOCKS_MHZ[clock] + 225,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x4 | 0x40 | 1 << 20,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x8,
            "nvmlDeviceGetPcieThroughput": lambda handle, counter: THROUGHPUT_KB_PER_S[counter],
            "nvmlDeviceGetTotalEccErrors": lambda handle, kind, counter: 10 * kind + counter,
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: [
                SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self.processes
            ],
            "nvmlSystemGetProcessName": lambda pid: f"/home/somebody/python{pid}",
        }

    def _gpm(self) -> dict[str, Any]:
        return {
            "nvmlGpmQueryDeviceSupport": lambda handle: real.c_nvmlGpmSupport_t(isSupportedDevice=1),
            "nvmlGpmSampleAlloc": self._allocate,
            "nvmlGpmSampleGet": lambda handle, sample: sample,
            "nvmlGpmSampleFree": lambda sample: self.allocated.remove(address(sample)),
            "nvmlGpmMetricsGet": self._compare,
        }

    def _recorded(self, name: str, answer: Any) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if name in self.failing:
                raise self.failing[name]
            return answer(*arguments)

        return call

    def _slice(self, slot: int) -> str:
        if slot >= (self.slices or 0):
            raise NVMLError(real.NVML_ERROR_NOT_FOUND)
        return f"mig{slot}"

    def _allocate(self) -> Any:
        self.allocated.append(1 + max(self.allocated, default=0))
        return ctypes.cast(self.allocated[-1], real.c_nvmlGpmSample_t)

    def _compare(self, request: Any) -> Any:
        assert request.version == real.NVML_GPM_METRICS_GET_VERSION
        assert {address(request.sample1), address(request.sample2)} <= set(self.allocated)
        assert address(request.sample1) != address(request.sample2)
        for metric in request.metrics[: request.numMetrics]:
            known = metric.metricId in self.counted
            metric.nvmlReturn = 0 if known else real.NVML_ERROR_NOT_SUPPORTED
            metric.value = self.counted.get(metric.metricId, 12.0)
        return request


def address(sample: Any) -> int | None:
    return ctypes.cast(sample, ctypes.c_void_p).value
