import ast
import os
import select
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tunekit.machine.host import torch_build as room
from tunekit.machine.host.torch_build import TorchAbsent, torch_build
from tunekit.records.host import TorchBuild, TorchDevice
from tunekit.units import GIB

PROBE = Path(room.__file__).with_name("torch_probe.py")

STUB = """
import types, warnings
__version__ = "2.13.0+cu130"
version = types.SimpleNamespace(cuda="13.0", hip=None)

def get_num_threads(): return 8
def get_float32_matmul_precision(): return "highest"

class Properties:
    def __init__(self, name, major, minor, uuid):
        self.name, self.major, self.minor, self.uuid = name, major, minor, uuid
        self.total_memory = 22 << 30

class cuda:
    devices = [Properties("NVIDIA L4", 8, 9, "aaaa")]
    is_available = staticmethod(lambda: bool(cuda.devices))
    init = staticmethod(lambda: None)
    device_count = staticmethod(lambda: len(cuda.devices))
    get_device_properties = staticmethod(lambda index: cuda.devices[index])
    get_arch_list = staticmethod(lambda: ["sm_80", "compute_90"])

class cudnn:
    version = staticmethod(lambda: 91002)

backends = types.SimpleNamespace(cudnn=cudnn)
"""


def asked_of_stub(tmp_path: Path, more: str = "", **environment: str) -> TorchBuild | TorchAbsent:
    """Ask this Python, in which a module says that it is torch."""
    (tmp_path / "torch.py").write_text(STUB + textwrap.dedent(more), encoding="utf-8")
    return torch_build(sys.executable, 30, {**os.environ, "PYTHONPATH": str(tmp_path), **environment})


def build_of_stub(tmp_path: Path, more: str = "") -> TorchBuild:
    found = asked_of_stub(tmp_path, more)
    assert isinstance(found, TorchBuild), found
    return found


def fake_python(tmp_path: Path, body: str) -> str:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def reason(found: TorchBuild | TorchAbsent) -> str:
    assert isinstance(found, TorchAbsent), found
    return found.reason


def test_a_torch_tells_its_build_and_its_gpus(tmp_path: Path) -> None:
    assert build_of_stub(tmp_path) == TorchBuild(
        python=sys.executable,
        python_version="{}.{}.{}".format(*sys.version_info),
        version="2.13.0+cu130",
        cuda_version="13.0",
        hip_version=None,
        cudnn_version="91002",
        architectures=("sm_80", "compute_90"),
        devices=(
            TorchDevice(
                type="cuda", name="NVIDIA L4", memory_bytes=22 * GIB, compute_capability="8.9", uuid="aaaa"
            ),
        ),
        threads=8,
        float32_matmul_precision="highest",
        problem=None,
    )


def test_a_driver_that_is_too_old_is_the_problem(tmp_path: Path) -> None:
    found = build_of_stub(
        tmp_path,
        """
        def refused():
            warnings.warn("CUDA initialization: The NVIDIA driver on your\\nsystem is too old. (At x)")
            return False
        def init():
            raise RuntimeError("The NVIDIA driver on your system is too old.")
        cuda.is_available, cuda.init = staticmethod(refused), staticmethod(init)
        """,
    )
    assert found.devices == ()
    assert found.problem == "CUDA initialization: The NVIDIA driver on your system is too old. (At x)"


def test_a_gpu_that_the_build_has_no_code_for_is_listed_with_the_problem(tmp_path: Path) -> None:
    found = build_of_stub(
        tmp_path,
        """
        def asked(index):
            warnings.warn("NVIDIA L4 is not compatible with the current PyTorch installation.")
            return cuda.devices[index]
        cuda.get_device_properties = staticmethod(asked)
        """,
    )
    assert [device.name for device in found.devices] == ["NVIDIA L4"]
    assert found.problem is not None
    assert found.problem.count("not compatible with the current PyTorch installation") == 1


def test_a_gpu_that_does_not_answer_does_not_hide_the_others(tmp_path: Path) -> None:
    found = build_of_stub(
        tmp_path,
        """
        cuda.devices.append(Properties("NVIDIA H200", 9, 0, "bbbb"))
        def asked(index):
            if index == 0:
                raise RuntimeError("CUDA error: device is lost")
            return cuda.devices[index]
        cuda.get_device_properties = staticmethod(asked)
        """,
    )
    assert [device.name for device in found.devices] == ["NVIDIA H200"]
    assert found.problem == "CUDA error: device is lost"


def test_questions_that_torch_refuses_are_none(tmp_path: Path) -> None:
    found = build_of_stub(
        tmp_path,
        """
        def refuse(*words, **named):
            raise RuntimeError("mix of the legacy and new APIs")
        get_float32_matmul_precision = refuse
        class cudnn:
            version = staticmethod(refuse)
        backends.cudnn = cudnn()
        cuda.get_arch_list = staticmethod(refuse)
        """,
    )
    assert found.float32_matmul_precision is None
    assert found.cudnn_version is None
    assert found.architectures == ()
    assert found.problem is None


def test_a_python_without_torch_says_so(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")")
    found = torch_build(sys.executable, 30, {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert reason(found) == (
        f"{sys.executable} has no torch that can be imported: ModuleNotFoundError: No module named 'torch'"
    )


@pytest.mark.parametrize(
    ("more", "ending"),
    [
        ("import os; os.abort()", "ended with status -6 without an answer: it wrote nothing"),
        ("del get_num_threads", "AttributeError: module 'torch' has no attribute 'get_num_threads'"),
    ],
)
def test_a_torch_that_breaks_is_absent_with_the_reason(tmp_path: Path, more: str, ending: str) -> None:
    found = reason(asked_of_stub(tmp_path, more))
    assert found.startswith(sys.executable)
    assert found.endswith(ending)


@pytest.mark.parametrize("body", ["echo garbage", "echo oops >&2; kill -SEGV $$", "true"])
def test_an_interpreter_that_talks_garbage_is_absent(tmp_path: Path, body: str) -> None:
    found = reason(torch_build(fake_python(tmp_path, body), 30))
    assert "without an answer" in found


def test_an_interpreter_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    python = fake_python(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; sleep 600")
    started_s = time.monotonic()
    late = torch_build(python, 0.5)
    assert isinstance(late, TorchAbsent)
    assert not late.has_python_answered
    assert time.monotonic() - started_s < 20
    assert has_ended(int((tmp_path / "child").read_text()))


def has_ended(pid: int) -> bool:
    """Wait for the end of a process that was killed, and return whether it came."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 20)[0])
    finally:
        os.close(descriptor)


def test_the_probe_is_read_by_python_39() -> None:
    text = PROBE.read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 9))
    assert "from __future__ import annotations" in text


@pytest.mark.real
def test_the_torch_of_this_environment_tells_its_build() -> None:
    found = torch_build(environment={**os.environ, "OMP_NUM_THREADS": "1"})
    assert isinstance(found, TorchBuild), found
    assert found.version.startswith("2.")
    assert found.threads == 1
    assert found.float32_matmul_precision == "highest"
    assert (found.cuda_version is None) <= (found.devices == () and found.problem is None)
