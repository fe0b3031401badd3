"""Which machine a verb sees, with the driver's library working or not."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from build_checkups import checkup, gpu, without_gpu

from tunekit.cli.machine import ask_torch, checkup_of, host_here, warnings_of
from tunekit.machine import detect
from tunekit.machine.host.torch_build import TorchAbsent

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
            "name": "AMD Instinct MI210",
            "memory_bytes": 206_000_000_000,
            "compute_capability": None,
        }
    ],
    "threads": 4,
    "float32_matmul_precision": "highest",
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
    assert (gpu.name, gpu.seen_by, gpu.profile_id) == ("AMD Instinct MI210", ("torch",), None)
    codes = {finding.code for finding in warnings_of(host, "auto")}
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


def program(folder: Path, name: str) -> str:
    """Put a program into a folder and return its path."""
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("look_for", "variable", "usual", "none"),
    [
        (detect.c_compiler, "CC", ["gcc", "clang", "cc"], ["g++", "clang++", "c99"]),
        (
            detect.cpp_compiler,
            "CXX",
            ["clang++" if sys.platform == "darwin" else "g++"],
            ["gcc", "clang", "c++"],
        ),
    ],
)
def test_a_compiler_is_the_named_one_or_one_on_the_path(
    tmp_path: Path,
    look_for: Callable[[dict[str, str]], str | None],
    variable: str,
    usual: list[str],
    none: list[str],
) -> None:
    environment = {"PATH": str(tmp_path)}
    for name in none:
        program(tmp_path, name)
    assert look_for(environment) is None
    for name in reversed(usual):
        path = program(tmp_path, name)
        assert look_for(environment) == path
    mine = program(tmp_path, "mine")
    assert look_for({**environment, variable: "mine"}) == mine
    assert look_for({**environment, variable: "absent"}) is None


def test_the_compiler_is_looked_for_that_the_device_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for_gpu = program(tmp_path, "gcc")
    for_cpu = program(tmp_path, "clang++" if sys.platform == "darwin" else "g++")
    assert checkup_of(checkup().host).compiler == for_gpu
    assert checkup_of(without_gpu().host).compiler == for_cpu


def test_a_tunekit_of_the_package_index_is_warned_of_and_a_clone_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tunekit-2.0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: tunekit\nVersion: 2.0.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "other-tunekit" in {finding.code for finding in warnings_of(checkup().host, "auto")}
    (folder / "direct_url.json").write_text("{}")
    assert "other-tunekit" not in {finding.code for finding in warnings_of(checkup().host, "auto")}


def test_gpus_that_the_target_will_not_see_are_nothing_to_warn_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    ill = {"temperature_c": 95, "used_bytes": 60 << 30, "throttle_reasons": ("hw_slowdown",)}
    two = (gpu(0, state=ill), gpu(1, name="Tesla T4", profile_id="t4"))
    machine = checkup(accelerators=two, shm_bytes=64 << 20).host
    warned = {finding.code for finding in warnings_of(machine, "auto")}
    assert {"mixed-gpus", "shared-gpu", "gpu-throttled", "small-shm"} <= warned
    left = {finding.code for finding in warnings_of(machine, " CPU ")}
    assert left - {"no-compiler"} == {"small-shm"}


def test_hidden_gpus_are_reported_unless_the_cpu_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    bare = without_gpu().host
    assert "gpus-hidden" in {finding.code for finding in warnings_of(bare, "auto")}
    assert "gpus-hidden" not in {finding.code for finding in warnings_of(bare, "cpu")}
