"""Which machine a verb sees, with the driver's library working or not."""

import json
import sys
from pathlib import Path

import pytest

from tunekit.cli.machine import ask_torch, host_here, warnings_of
from tunekit.hardware import detect
from tunekit.hardware.torch_build import TorchAbsent
from tunekit.records.finding import Severity
from tunekit.records.host import TorchBuild

ROCM = {
    "python_version": "3.12.1",
    "version": "2.13.0+rocm6.4",
    "cuda_version": None,
    "hip_version": "6.4",
    "cudnn_version": None,
    "architectures": ["gfx942"],
    "devices": [
        {
            "type": "cuda",
            "name": "AMD Instinct MI300X",
            "memory_bytes": 206_000_000_000,
            "compute_capability": None,
        }
    ],
    "threads": 4,
    "float32_matmul_precision": "highest",
    "tf32_in_cudnn": True,
    "bf16_native": True,
}


@pytest.fixture
def other_python(tmp_path: Path) -> str:
    """An interpreter that has a torch for AMD's GPUs."""
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\necho '{json.dumps(ROCM)}'\n")
    python.chmod(0o755)
    return str(python)


def test_where_the_driver_left_no_mark_torch_is_not_asked(
    other_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect, "has_gpu_file", lambda: False)
    host = host_here([other_python, "train.py"])
    assert host.torch is None
    assert host.accelerators == ()


def test_a_gpu_that_only_the_scripts_torch_sees_is_found(
    other_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect, "has_gpu_file", lambda: True)
    host = host_here([other_python, "train.py"])
    (gpu,) = host.accelerators
    assert (gpu.name, gpu.seen_by, gpu.profile_id) == ("AMD Instinct MI300X", ("torch",), None)
    codes = {finding.code for finding in warnings_of(host)}
    assert "unknown-gpu" in codes
    assert "no-gpu-telemetry" not in codes  # NVIDIA's library has nothing to say of AMD's


def test_a_command_whose_python_is_unknown_is_not_guessed() -> None:
    told = ask_torch(["uv", "run", "train.py"])
    assert isinstance(told, TorchAbsent)
    assert "'uv'" in told.reason


@pytest.mark.parametrize("name", ["nvidiactl", "nvidia0", "kfd", "dxg"])
def test_a_driver_is_known_by_its_files(tmp_path: Path, name: str) -> None:
    assert not detect.has_gpu_file(tmp_path)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / name).touch()
    assert detect.has_gpu_file(tmp_path)


@pytest.mark.parametrize(("compiler", "found"), [("g++", True), ("clang++", True), ("gcc", False)])
def test_the_compiler_is_the_one_on_the_path(tmp_path: Path, compiler: str, found: bool) -> None:
    program = tmp_path / compiler
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert (detect.cpp_compiler({"PATH": str(tmp_path)}) == str(program)) is found


def test_a_compiler_of_ones_own_is_taken_alone(tmp_path: Path) -> None:
    for name in ("g++", "mine"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": str(tmp_path), "CXX": "mine"}
    assert detect.cpp_compiler(environment) == str(tmp_path / "mine")
    assert detect.cpp_compiler({**environment, "CXX": "absent"}) is None


def test_a_search_is_warned_of_nothing_that_only_is_worth_knowing() -> None:
    assert all(finding.severity is not Severity.INFO for finding in warnings_of(host_here()))


@pytest.mark.real
def test_this_python_is_asked_without_a_command() -> None:
    build = ask_torch(())
    assert isinstance(build, TorchBuild)
    assert build.python == sys.executable
