"""The whole of it: a process of a CUDA torch on the simulated devices."""

import json
import subprocess
import time
from pathlib import Path

import pytest
from gpu_environment import SimulatedGpu, on_both_torches
from real_trials import is_alive

from simgpu.environment import Environment

SEES = """
import json, torch
torch.ones(4, device="cuda").sum()
torch.cuda.synchronize()
names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
print(json.dumps({"names": names, "free": torch.cuda.mem_get_info()[0]}))
"""


@on_both_torches
def test_the_sources_compile_without_a_warning(gpu_torch: Environment) -> None:
    assert gpu_torch.built.warnings == ""


@on_both_torches
def test_torch_sees_the_devices_and_they_work(simulated_gpu: SimulatedGpu) -> None:
    done = simulated_gpu.run(["-c", SEES], "t4,a10g", more={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["names"] == ["Tesla T4", "NVIDIA A10G"]
    assert {work.device for work in simulated_gpu.trace()} == {0}


def test_a_command_that_takes_too_long_leaves_no_process(simulated_gpu: SimulatedGpu, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"""
import os, time
os.fork()
with open({str(pids)!r}, "a") as file: file.write(f"{{os.getpid()}}\\n")
time.sleep(600)
"""
    with pytest.raises(subprocess.TimeoutExpired):
        simulated_gpu.run(["-c", code], timeout_s=3)
    limit = time.monotonic() + 10
    while any(is_alive(int(pid)) for pid in pids.read_text().split()):
        assert time.monotonic() < limit
