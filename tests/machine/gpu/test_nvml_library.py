import sys
from types import ModuleType

import pytest
from machine.scripted_pynvml import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    NO_SUCH_FUNCTION,
    NOT_SUPPORTED,
    UNKNOWN_ERROR,
    ScriptedPynvml,
)
from machine.shipped import PROFILES

from tunekit.machine.detect import detect_host
from tunekit.machine.gpu.nvml import GpuReading, Nvml, NvmlDevice
from tunekit.records.host import GpuProcess, GpuState, PcieLink
from tunekit.units import GIB


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def install(monkeypatch: pytest.MonkeyPatch, pynvml: ModuleType | None) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)


def test_a_gpu_is_described_by_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    pynvml = ScriptedPynvml()
    install(monkeypatch, pynvml)
    with Nvml() as nvml:
        assert nvml.driver_version() == "570.1"
        assert nvml.device_count() == 1
        shown = NvmlDevice(0, "GPU-gpu0", "NVIDIA H200", 140 * GIB, "9.0", used_bytes=3 * GIB)
        assert nvml.device(0) == shown
    assert pynvml.calls[-1] == "nvmlShutdown"
    assert nvml.device_count() == 0


@pytest.mark.parametrize(
    "failure", [LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED, OSError("no such library"), AttributeError()]
)
@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"])
def test_any_failure_of_the_driver_means_no_devices(
    monkeypatch: pytest.MonkeyPatch, call: str, failure: Exception
) -> None:
    install(monkeypatch, ScriptedPynvml({call: failure}))
    assert detect_host(Nvml(), PROFILES).accelerators == ()


def test_a_gpu_tells_its_state_figures_and_link(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ScriptedPynvml(processes=((7, 2 * GIB), (8, None))))
    with Nvml() as nvml:
        assert nvml.state(0) == GpuState(
            used_bytes=3 * GIB,
            utilization_percent=98,
            power_w=655.25,
            power_limit_w=700,
            temperature_c=64,
            sm_clock_mhz=1755,
            max_sm_clock_mhz=1980,
            throttle_reasons=("sw_power_cap", "hw_thermal_slowdown", "bit_20"),
            ecc_errors=10,
            processes=(
                GpuProcess(pid=7, used_bytes=2 * GIB, name="python7"),
                GpuProcess(pid=8, used_bytes=None, name="python8"),
            ),
        )
        reading = nvml.reading(0)
        assert (reading.pcie_tx_mb_per_s, reading.pcie_rx_mb_per_s) == (12.5, 250)
        assert reading.energy_j == 1234.5
        assert nvml.pci_bus_id(0) == "00000000:AB:00.0"
        assert nvml.link(0) == PcieLink(lanes=16, max_lanes=16)


def test_missing_details_leave_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = dict.fromkeys(
        ("nvmlSystemGetDriverVersion", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMigMode"),
        NOT_SUPPORTED,
    )
    install(monkeypatch, ScriptedPynvml(failing))
    with Nvml() as nvml:
        assert nvml.driver_version() is None
        assert nvml.device(0) == NvmlDevice(0, "GPU-gpu0", "NVIDIA H200", 140 * GIB, used_bytes=3 * GIB)


def test_a_gpu_without_memory_that_is_told_is_there_but_a_lost_one_is_no_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, ScriptedPynvml({"nvmlDeviceGetMemoryInfo": NOT_SUPPORTED}))
    with Nvml() as nvml:
        device = nvml.device(0)
        assert device is not None
        assert (device.memory_bytes, device.has_own_memory) == (None, False)
    install(monkeypatch, ScriptedPynvml({"nvmlDeviceGetMemoryInfo": UNKNOWN_ERROR}))
    with Nvml() as nvml:
        device = nvml.device(0)
        assert device is not None
        assert (device.name, device.memory_bytes, device.has_own_memory) == ("NVIDIA H200", None, True)
    install(monkeypatch, ScriptedPynvml({"nvmlDeviceGetMemoryInfo": GPU_IS_LOST}))
    with Nvml() as nvml:
        assert nvml.device(0) is None


def test_partitions_are_listed_and_inherit_the_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ScriptedPynvml(slices=2))
    with Nvml() as nvml:
        device = nvml.device(0)
    assert device is not None
    assert device.partitions is not None
    told = [(part.uuid, part.index, part.compute_capability) for part in device.partitions]
    assert told == [("GPU-mig0", 0, "9.0"), ("GPU-mig1", 0, "9.0")]


def test_it_is_released_by_the_last_that_opened_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pynvml = ScriptedPynvml()
    install(monkeypatch, pynvml)
    with Nvml() as nvml:
        with nvml as again:
            assert again is nvml
        assert nvml.device_count() == 1
        assert "nvmlShutdown" not in pynvml.calls
    assert nvml.device_count() == 0
    with nvml:
        assert nvml.device_count() == 1
    assert [call for call in pynvml.calls if call in ("nvmlInit", "nvmlShutdown")] == [
        "nvmlInit",
        "nvmlShutdown",
    ] * 2


@pytest.mark.parametrize("failure", [NOT_SUPPORTED, AttributeError()])
@pytest.mark.parametrize(
    ("question", "field"),
    [
        ("nvmlDeviceGetMemoryInfo", "used_bytes"),
        ("nvmlDeviceGetUtilizationRates", "utilization_percent"),
        ("nvmlDeviceGetPowerUsage", "power_w"),
        ("nvmlDeviceGetEnforcedPowerLimit", "power_limit_w"),
        ("nvmlDeviceGetClockInfo", "sm_clock_mhz"),
        ("nvmlDeviceGetMaxClockInfo", "max_sm_clock_mhz"),
        ("nvmlDeviceGetTotalEccErrors", "ecc_errors"),
        ("nvmlDeviceGetComputeRunningProcesses", "processes"),
    ],
)
def test_a_question_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, question: str, field: str, failure: Exception
) -> None:
    pynvml = ScriptedPynvml({question: failure})
    install(monkeypatch, pynvml)
    with Nvml() as nvml:
        partial = nvml.state(0)
        pynvml.failing.clear()
        whole = nvml.state(0)
    assert partial is not None
    assert whole is not None
    assert partial == whole.model_copy(update={field: None})


def test_a_reading_does_without_what_the_driver_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = {
        "nvmlDeviceGetComputeRunningProcesses": NO_PERMISSION,
        "nvmlDeviceGetPowerUsage": NOT_SUPPORTED,
    }
    install(monkeypatch, ScriptedPynvml(failing))
    with Nvml() as nvml:
        reading = nvml.reading(0)
    assert (reading.process_bytes, reading.power_w) == (None, None)
    assert (reading.utilization_percent, reading.temperature_c) == (98, 64)


OLD_NAME = "nvmlDeviceGetCurrentClocksThrottleReasons"
NEW_NAME = "nvmlDeviceGetCurrentClocksEventReasons"


@pytest.mark.parametrize(
    ("pynvml", "mask"),
    [
        (ScriptedPynvml(lacking=(OLD_NAME,)), 0x4 | 0x40 | 1 << 20),
        (ScriptedPynvml(lacking=(NEW_NAME,)), 0x8),
        (ScriptedPynvml({NEW_NAME: NO_SUCH_FUNCTION}), 0x8),
        (ScriptedPynvml(lacking=(OLD_NAME, NEW_NAME)), None),
    ],
)
def test_throttling_is_read_under_its_new_and_its_old_name(
    monkeypatch: pytest.MonkeyPatch, pynvml: ScriptedPynvml, mask: int | None
) -> None:
    install(monkeypatch, pynvml)
    with Nvml() as nvml:
        reading = nvml.reading(0)
    assert reading.throttle_mask == mask


def test_temperature_is_read_where_only_the_new_question_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ScriptedPynvml(lacking=("nvmlDeviceGetTemperature",)))
    with Nvml() as nvml:
        reading = nvml.reading(0)
    assert reading.temperature_c == 65


@pytest.mark.parametrize("failure", [GPU_IS_LOST, UNKNOWN_ERROR, OSError()])
def test_a_gpu_that_answers_again_after_an_error_is_read_again(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    pynvml = ScriptedPynvml()
    install(monkeypatch, pynvml)
    with Nvml() as nvml:
        before = nvml.reading(0), nvml.state(0), nvml.link(0), nvml.pci_bus_id(0)
        assert None not in before
        pynvml.failing = {name: failure for name in dir(pynvml) if name.startswith("nvmlDevice")}
        assert (nvml.reading(0), nvml.state(0), nvml.link(0)) == (GpuReading(), None, None)
        assert (nvml.pci_bus_id(0), nvml.device(0), nvml.device_count()) == (None, None, 0)
        # The handle answers, and nothing else does.
        pynvml.failing.pop("nvmlDeviceGetHandleByIndex")
        assert (nvml.reading(0), nvml.state(0)) == (GpuReading(), None)
        pynvml.failing = {}
        assert before == (nvml.reading(0), nvml.state(0), nvml.link(0), nvml.pci_bus_id(0))
