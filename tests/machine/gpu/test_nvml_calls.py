"""The real pynvml over a C library that is played: names, arguments and text as the package has them."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from tunekit.machine.gpu.nvml import GpuReading, Nvml, NvmlDevice
from tunekit.records.host import GpuProcess, GpuState, PcieLink
from tunekit.units import GIB

SUCCESS = 0


def puts(value: Any) -> Callable[..., int]:
    """Return a C function that writes a value where its last argument points."""

    def function(*arguments: Any) -> int:
        arguments[-1]._obj.value = value
        return SUCCESS

    return function


def fills(**values: Any) -> Callable[..., int]:
    """Return a C function that fills the structure to which its last argument points."""

    def function(*arguments: Any) -> int:
        for name, value in values.items():
            setattr(arguments[-1]._obj, name, value)
        return SUCCESS

    return function


def writes(text: bytes) -> Callable[..., int]:
    """Return a C function that writes text into the buffer before its last argument."""

    def function(*arguments: Any) -> int:
        arguments[-2].value = text
        return SUCCESS

    return function


def lists_processes(handle: Any, count: Any, rows: Any) -> int:
    listed = ((7, 2 * GIB), (8, pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value))
    count._obj.value = len(listed)
    if rows is None:
        return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    for row, (pid, used) in zip(rows, listed, strict=False):
        row.pid, row.usedGpuMemory = pid, used
    return SUCCESS


def samples(handle: Any, sample: Any) -> int:
    assert sample.contents is not None
    return SUCCESS


class Allocator:
    """Counts the samples that the C library gave out and did not get back."""

    def __init__(self) -> None:
        self.given = 0

    def give(self, pointer: Any) -> int:
        self.given += 1
        pointer._obj.contents = pynvml.struct_c_nvmlGpmSample_t()
        return SUCCESS

    def take(self, sample: Any) -> int:
        assert sample
        self.given -= 1
        return SUCCESS


def compares(request: Any) -> int:
    answer = request._obj
    assert answer.version == 1
    assert answer.sample1
    assert answer.sample2
    for metric in answer.metrics[: answer.numMetrics]:
        metric.nvmlReturn, metric.value = SUCCESS, float(metric.metricId)
    return SUCCESS


PLAYED: dict[str, Callable[..., int]] = {
    "nvmlSystemGetDriverVersion": writes(b"580.159.03"),
    "nvmlDeviceGetCount_v2": puts(1),
    "nvmlDeviceGetHandleByIndex_v2": lambda index, handle: SUCCESS,
    "nvmlDeviceGetUUID": writes(b"GPU-1"),
    "nvmlDeviceGetName": writes(b"NVIDIA H200"),
    "nvmlDeviceGetMemoryInfo": fills(total=140 * GIB, used=3 * GIB),
    "nvmlDeviceGetPciInfo_v3": fills(busId=b"00000000:AB:00.0"),
    "nvmlDeviceGetCurrPcieLinkWidth": puts(16),
    "nvmlDeviceGetMaxPcieLinkWidth": puts(16),
    "nvmlDeviceGetUtilizationRates": fills(gpu=98, memory=41),
    "nvmlDeviceGetPowerUsage": puts(655_250),
    "nvmlDeviceGetEnforcedPowerLimit": puts(700_000),
    "nvmlDeviceGetTemperature": puts(64),
    "nvmlDeviceGetClockInfo": puts(1755),
    "nvmlDeviceGetMaxClockInfo": puts(1980),
    "nvmlDeviceGetCurrentClocksEventReasons": puts(0x44),
    "nvmlDeviceGetPcieThroughput": puts(12_500),
    "nvmlDeviceGetTotalEccErrors": puts(2),
    "nvmlDeviceGetComputeRunningProcesses_v3": lists_processes,
    "nvmlSystemGetProcessName": writes(b"/opt/python"),
    "nvmlGpmQueryDeviceSupport": fills(isSupportedDevice=1),
    "nvmlGpmSampleGet": samples,
    "nvmlGpmMetricsGet": compares,
}
"""Whatever is left out is a function that the driver does not have."""


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    allocator = Allocator()
    played = {**PLAYED, "nvmlGpmSampleAlloc": allocator.give, "nvmlGpmSampleFree": allocator.take}

    def pointer(name: str) -> Callable[..., int]:
        if name not in played:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return played[name]

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", pointer)
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    return allocator


def test_the_real_package_describes_a_gpu(allocator: Allocator) -> None:
    with Nvml() as nvml:
        assert nvml.driver_version() == "580.159.03"
        assert [nvml.device(index) for index in range(nvml.device_count())] == [
            NvmlDevice(0, "GPU-1", "NVIDIA H200", 140 * GIB, used_bytes=3 * GIB)
        ]
        assert nvml.pci_bus_id(0) == "00000000:AB:00.0"
        assert nvml.link(0) == PcieLink(lanes=16, max_lanes=16)


def test_the_real_package_tells_a_gpus_state_and_figures(allocator: Allocator) -> None:
    with Nvml() as nvml:
        assert nvml.state(0) == GpuState(
            used_bytes=3 * GIB,
            utilization_percent=98,
            power_w=655.25,
            power_limit_w=700,
            temperature_c=64,
            sm_clock_mhz=1755,
            max_sm_clock_mhz=1980,
            throttle_reasons=("sw_power_cap", "hw_thermal_slowdown"),
            ecc_errors=2,
            processes=(
                GpuProcess(pid=7, used_bytes=2 * GIB, name="python"),
                GpuProcess(pid=8, used_bytes=None, name="python"),
            ),
        )
        assert nvml.reading(0) == GpuReading(
            utilization_percent=98,
            used_bytes=3 * GIB,
            process_bytes={7: 2 * GIB, 8: None},
            power_w=655.25,
            temperature_c=64,
            sm_clock_mhz=1755,
            throttle_mask=0x44,
            pcie_tx_mb_per_s=12.5,
            pcie_rx_mb_per_s=12.5,
        )


def test_the_real_package_compares_samples_and_gets_them_back(allocator: Allocator) -> None:
    with Nvml() as nvml:
        first, second = nvml.gpm_sample(0), nvml.gpm_sample(0)
        assert nvml.gpm_between(first, second) == GpuReading(
            graphics_activity_percent=1,
            sm_activity_percent=2,
            tensor_activity_percent=5,
            dram_activity_percent=10,
            pcie_tx_mb_per_s=20 * 1.048576,
            pcie_rx_mb_per_s=21 * 1.048576,
        )
        nvml.gpm_free(first)
        nvml.gpm_free(second)
    assert allocator.given == 0
