import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from machine import simulated_torch
from machine.scripted_nvml import H200, L4, ScriptedNvml
from machine.shipped import PROFILES

from tunekit.errors import TargetError, UsageError
from tunekit.machine.detect import detect_host
from tunekit.machine.gpu import calibration_probe as probe
from tunekit.machine.gpu.calibrate import calibrate
from tunekit.machine.gpu.nvml import GpuReading, NvmlDevice
from tunekit.records.prediction import Calibration
from tunekit.units import GIB, MIB

GPU = NvmlDevice(0, "GPU-33333333-cccc", H200.name, H200.memory_bytes, "9.0")


class EveryProcess(dict[int, int | None]):
    """The driver's list of processes, in which whoever is asked for takes the same."""

    def __init__(self, taken_bytes: int | None) -> None:
        super().__init__({1: None})
        self.taken_bytes = taken_bytes

    def get(self, pid: int, default: Any = None) -> Any:
        return self.taken_bytes


def driver(
    taken_bytes: int | None = None,
    used: Sequence[int | None] = (0,),
    devices: Sequence[NvmlDevice] = (GPU,),
) -> ScriptedNvml:
    """A driver that tells of these GPUs what is used before and after, and what every process takes."""
    readings = [GpuReading(process_bytes=EveryProcess(taken_bytes), used_bytes=taken) for taken in used]
    return ScriptedNvml(devices, readings={device.index: readings for device in devices})


def calibrated(
    tmp_path: Path, nvml: ScriptedNvml, more: str = "", timeout_s: float = 60.0, python: str = sys.executable
) -> Calibration:
    """Calibrate with this Python, in which the simulated torch, and more, says that it is torch."""
    text = Path(simulated_torch.__file__).read_text(encoding="utf-8")
    (tmp_path / "torch.py").write_text(text + textwrap.dedent(more), encoding="utf-8")
    gpus = detect_host(nvml, PROFILES).accelerators
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return calibrate(python, gpus, nvml, timeout_s, environment, sleep=lambda seconds: None)


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_process_tells_what_is_in_the_pool_and_the_driver_what_is_beside_it(tmp_path: Path) -> None:
    # Both workspaces stay reserved, and 2 MiB that are cached.
    found = calibrated(tmp_path, driver(taken_bytes=566 * MIB))
    assert (found.context_bytes, found.context_seen_by) == (500 * MIB, "process")
    assert (found.blas_forward_bytes, found.blas_backward_bytes) == (32 * MIB, 32 * MIB)
    assert found.blas_is_kept
    assert (found.device_name, found.compute_capability, found.driver) == ("NVIDIA H200", "9.0", "550.54.15")
    assert (found.torch_version, found.cuda_version, found.cudnn_version) == ("2.13.0+cu130", "13.0", "91002")
    assert found.workspaces_bytes(benchmark=False) == (96 * MIB, 96 * MIB)
    assert found.workspaces_bytes(benchmark=True) == (192 * MIB, 192 * MIB)
    assert {one.forward_bytes for one in found.convolutions} == {64 * MIB, 128 * MIB}
    first = found.convolutions[0]
    assert (first.shape, first.dtype) == ("32x3x224x224, kernel 7x7, to 64", "float32")
    assert len({(one.shape, one.dtype, one.benchmark) for one in found.convolutions}) == 7 * 2 * 2


@pytest.mark.parametrize("of_process", [None, 12 * MIB])
def test_where_the_driver_does_not_tell_of_the_process_the_whole_gpu_does(
    tmp_path: Path, of_process: int | None
) -> None:
    nvml = driver(of_process, used=[1 * GIB, 1 * GIB + 466 * MIB])
    found = calibrated(tmp_path, nvml)
    assert (found.context_bytes, found.context_seen_by) == (400 * MIB, "device")


def test_the_gpu_is_the_one_that_torch_counts_first(tmp_path: Path) -> None:
    other = NvmlDevice(0, L4.uuid, L4.name, L4.memory_bytes, "8.9")
    second = NvmlDevice(1, GPU.uuid, GPU.name, GPU.memory_bytes, "9.0")
    nvml = driver(devices=(other, second), used=[GIB, GIB + 366 * MIB])
    nvml.readings[0] = [GpuReading(process_bytes=EveryProcess(900 * MIB))]
    assert calibrated(tmp_path, nvml).context_bytes == 300 * MIB


def test_workspaces_that_are_given_back_after_each_matmul_are_seen_too(tmp_path: Path) -> None:
    found = calibrated(tmp_path, driver(900 * MIB), "def multiply(thread): work_in(16 * MIB)")
    assert (found.blas_forward_bytes, found.blas_backward_bytes) == (16 * MIB, 16 * MIB)
    assert not found.blas_is_kept
    assert found.blas_workspace_bytes == 16 * MIB


def test_a_driver_that_tells_nothing_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not report how much memory of NVIDIA H200 is in use"):
        calibrated(tmp_path, driver(None, used=[None]))
    with pytest.raises(UsageError, match="does not report how much"):
        calibrated(tmp_path, driver(devices=()))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("version.cuda = None", "torch 2.13.0\\+cu130 is a build without CUDA"),
        ("cuda.is_available = staticmethod(lambda: False)", "torch 2.13.0\\+cu130 sees no CUDA GPU"),
    ],
)
def test_without_a_gpu_it_says_why_and_where_to_run_it(tmp_path: Path, more: str, why: str) -> None:
    with pytest.raises(
        UsageError, match=f"no CUDA GPU to calibrate: {why}.*run it on the machine with the GPU"
    ):
        calibrated(tmp_path, driver(devices=()), more)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            "raise ImportError('libcudart.so is\\nnot here')",
            "could not measure: ImportError: libcudart.so is not",
        ),
        ("import os; os.abort()", "ended with status -6 without an answer: it wrote nothing"),
        ("cuda.properties.name = ''; version.cuda = 13", "gave no usable answer about its GPU"),
    ],
)
def test_a_torch_that_breaks_is_a_target_error(tmp_path: Path, more: str, why: str) -> None:
    with pytest.raises(TargetError, match=why) as told:
        calibrated(tmp_path, driver(900 * MIB), more)
    assert str(told.value).startswith(sys.executable)


def test_a_process_that_hangs_is_killed(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"did not answer within 0.2 s"):
        calibrated(tmp_path, driver(900 * MIB), "import time; time.sleep(600)", timeout_s=0.2)


def test_what_is_no_program_can_not_be_started(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="can't be started: No such file or directory"):
        calibrated(tmp_path, driver(), python="/nowhere/python")


# --- the arithmetic, and the script with the real torch ---------------------------------------


class ScriptedPool:
    """Counts nothing; what is allocated follows a script, with a peak that is 7 above it."""

    def __init__(self) -> None:
        self.calls = 0

    def allocated(self) -> int:
        return 1000

    def peak_during(self, act: Any) -> tuple[Any, int]:
        self.calls += 1
        return act(), 1007


def test_the_loads_run_with_the_real_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    pool, cpu = ScriptedPool(), torch.device("cpu")
    shapes = ((3, 4, 7, 2, 16), (4, 4, 3, 1, 8))
    found: Mapping[str, Any] = probe.measured(torch, cpu, pool, (torch.float32, torch.bfloat16), shapes, 2)
    assert pool.calls == 2 + 2 * 2 * 2
    assert [one["benchmark"] for one in found["convolutions"]] == [False] * 4
    assert {(one["forward_bytes"], one["backward_bytes"]) for one in found["convolutions"]} == {(7, 7)}
    assert found["convolutions"][3]["shape"] == "2x4x8x8, kernel 3x3, to 4"


@pytest.mark.real
def test_the_torch_of_this_environment_is_asked() -> None:
    if torch.cuda.is_available():
        pytest.skip("has a GPU")
    with pytest.raises(UsageError, match="no CUDA GPU to calibrate: torch 2"):
        calibrate(sys.executable, (), driver(devices=()))
