import sys
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from shipped import PROFILES

from tunekit.hardware.detect import detect_host
from tunekit.hardware.nvml import NvmlDevice, NvmlLibrary
from tunekit.units import GIB


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


NOT_SUPPORTED = 3
GPU_IS_LOST = 15
NO_FAILURES: Mapping[str, Exception] = {}


class ScriptedPynvml(ModuleType):
    """The functions of pynvml that tunekit calls; each in `failing` raises its error."""

    NVMLError = NVMLError
    NVML_ERROR_NOT_SUPPORTED = NOT_SUPPORTED

    def __init__(self, failing: Mapping[str, Exception] = NO_FAILURES, slices: int | None = None) -> None:
        super().__init__("pynvml")
        self.calls: list[str] = []
        answers: dict[str, Any] = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: "570.1",
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: f"gpu{index}",
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
            "nvmlDeviceGetName": lambda handle: (
                "NVIDIA H200" if handle[:3] == "gpu" else "NVIDIA H200 MIG 1g.18gb"
            ),
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=140 * GIB),
            "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
            "nvmlDeviceGetMigMode": lambda handle: [0 if slices is None else 1, 0],
            "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": lambda handle, slot: self._slice(slot, slices or 0),
        }
        for name, answer in answers.items():
            setattr(self, name, self._recorded(name, answer, failing.get(name)))

    def _recorded(self, name: str, answer: Any, failure: Exception | None) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if failure is not None:
                raise failure
            return answer(*arguments)

        return call

    @staticmethod
    def _slice(slot: int, slices: int) -> str:
        if slot >= slices:
            raise NVMLError(6)
        return f"mig{slot}"


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def install(monkeypatch: pytest.MonkeyPatch, pynvml: ModuleType | None) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)


def test_a_gpu_is_described_by_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    pynvml = ScriptedPynvml()
    install(monkeypatch, pynvml)
    with NvmlLibrary() as nvml:
        assert nvml.driver_version() == "570.1"
        assert nvml.device_count() == 1
        assert nvml.device(0) == NvmlDevice(0, "GPU-gpu0", "NVIDIA H200", 140 * GIB, "9.0")
    assert pynvml.calls[-1] == "nvmlShutdown"
    assert nvml.device_count() == 0


def test_without_the_package_there_are_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, None)
    assert detect_host(NvmlLibrary(), PROFILES).accelerators == ()


@pytest.mark.parametrize(
    "failure", [NVMLError(12), NVMLError(9), OSError("no such library"), AttributeError()]
)
@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"])
def test_any_failure_of_the_driver_means_no_devices(
    monkeypatch: pytest.MonkeyPatch, call: str, failure: Exception
) -> None:
    install(monkeypatch, ScriptedPynvml({call: failure}))
    assert detect_host(NvmlLibrary(), PROFILES).accelerators == ()


def test_a_failing_shutdown_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ScriptedPynvml({"nvmlShutdown": NVMLError(1)}))
    assert len(detect_host(NvmlLibrary(), PROFILES).accelerators) == 1


def test_missing_details_leave_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = dict.fromkeys(
        ("nvmlSystemGetDriverVersion", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMigMode"),
        NVMLError(NOT_SUPPORTED),
    )
    install(monkeypatch, ScriptedPynvml(failing))
    with NvmlLibrary() as nvml:
        assert nvml.driver_version() is None
        assert nvml.device(0) == NvmlDevice(0, "GPU-gpu0", "NVIDIA H200", 140 * GIB)


def test_memory_that_is_not_supported_is_none_but_a_lost_gpu_is_no_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, ScriptedPynvml({"nvmlDeviceGetMemoryInfo": NVMLError(NOT_SUPPORTED)}))
    with NvmlLibrary() as nvml:
        device = nvml.device(0)
        assert device is not None
        assert device.memory_bytes is None
    install(monkeypatch, ScriptedPynvml({"nvmlDeviceGetMemoryInfo": NVMLError(GPU_IS_LOST)}))
    with NvmlLibrary() as nvml:
        assert nvml.device(0) is None


def test_partitions_are_listed_and_inherit_the_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ScriptedPynvml(slices=2))
    with NvmlLibrary() as nvml:
        device = nvml.device(0)
    assert device is not None
    assert device.partitions is not None
    assert [(part.uuid, part.index, part.compute_capability) for part in device.partitions] == [
        ("GPU-mig0", 0, "9.0"),
        ("GPU-mig1", 0, "9.0"),
    ]


def test_a_gpu_under_mig_without_partitions_has_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ScriptedPynvml(slices=0))
    with NvmlLibrary() as nvml:
        device = nvml.device(0)
    assert device is not None
    assert device.partitions == ()
