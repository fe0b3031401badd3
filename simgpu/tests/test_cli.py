"""`python -m simgpu` from outside, and what it changes of a running simulation."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_environment import ROOT

from simgpu.cli import main
from simgpu.devices import known_devices
from simgpu.machine import SimulatedGpu

SEEN = """
import json, pynvml
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
processes = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
free = pynvml.nvmlDeviceGetMemoryInfo(device).free
print(json.dumps({"free": free, "processes": [[one.pid, one.usedGpuMemory] for one in processes]}))
"""


def simgpu(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "simgpu", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_an_error_is_one_line_and_code_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["build", "--torch", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"simgpu: there is no torch in {tmp_path}; ")


def test_run_gives_a_command_the_devices_and_takes_its_state_away(simulated_gpu: SimulatedGpu) -> None:
    code = (
        "import os, sys, torch; print(torch.cuda.get_device_name(), os.environ['SIMGPU_STATE']); sys.exit(7)"
    )
    done = simgpu("run", "--device", "t4", "--", "python", "-c", code)
    name, _, state = done.stdout.strip().rpartition(" ")
    assert (name, done.returncode) == ("Tesla T4", 7)
    assert not Path(state).exists()


def test_run_passes_a_termination_on(simulated_gpu: SimulatedGpu) -> None:
    words = ["run", "--", "sh", "-c", "echo $$ $SIMGPU_STATE; exec sleep 60"]
    command = [sys.executable, "-m", "simgpu", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, state = process.stdout.readline().split()
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert not Path(state).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def seen(gpu: SimulatedGpu) -> dict[str, Any]:
    """What NVML says of the first device."""
    done = gpu.run(["-c", SEEN])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_another_process_holds_memory_and_its_end_gives_it_back(simulated_gpu: SimulatedGpu) -> None:
    before = seen(simulated_gpu)
    held = 3 * 2**30 + int(known_devices()["a10g"]["context_bytes"])
    with simulated_gpu.hold(0, 3 * 2**30) as pid:
        assert seen(simulated_gpu) == {"free": before["free"] - held, "processes": [[pid, held]]}
    assert seen(simulated_gpu) == before


def test_a_state_folder_knows_its_devices(simulated_gpu: SimulatedGpu) -> None:
    state = ("--state", str(simulated_gpu.state))
    name = "import torch; print(torch.cuda.get_device_name(1))"
    assert simgpu("run", *state, "--device", "t4,a10g", "--", "true").returncode == 0
    assert simgpu("set", "1", "throttle_mask", "0x8", *state).returncode == 0
    assert simgpu("hold", "1", "1GiB", "--seconds", "0", *state).returncode == 0
    second = simgpu("run", *state, "--", "python", "-c", name).stdout
    assert second == "Tesla T4\n", "CUDA's order: fastest first"
