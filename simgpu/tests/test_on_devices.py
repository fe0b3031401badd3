"""The whole of it: a process of a CUDA torch on the simulated devices."""

import json
import subprocess
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from gpu_environment import on_both_torches

from simgpu.machine import SimulatedGpu

SEES = """
import json, torch
torch.ones(4, device="cuda").sum()
torch.cuda.synchronize()
print(json.dumps([torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]))
"""


@on_both_torches
def test_torch_sees_the_devices_and_they_work(simulated_gpu: SimulatedGpu) -> None:
    done = simulated_gpu.run(["-c", SEES], "t4,a10g", more={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["Tesla T4", "NVIDIA A10G"]
    assert {work.device for work in simulated_gpu.trace()} == {0}


TAKES_TURNS = """
import sys, time, torch
from pathlib import Path
one, other, product = (torch.empty(4096, 4096, device="cuda") for _ in range(3))
torch.mm(one, other, out=product)
torch.cuda.synchronize()
meeting = Path(sys.argv[1])
(meeting / sys.argv[2]).touch()
while len(list(meeting.iterdir())) < 2:
    time.sleep(0.01)
for _ in range(12):
    torch.mm(one, other, out=product)
    torch.cuda.synchronize()
"""


def test_two_processes_share_a_device_and_each_step_doubles(
    simulated_gpu: SimulatedGpu, tmp_path: Path
) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    command = [simulated_gpu.python, "-c", TAKES_TURNS, meeting]
    environment = simulated_gpu.environment("a10g:slower=32")
    both = [subprocess.Popen([*command, name], env=environment) for name in ("one", "other")]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    work = [one for one in simulated_gpu.trace() if one.name.startswith("gemm")]
    assert all(later.begin_ns >= one.end_ns for one, later in pairwise(work))
    by_process = [[one for one in work if one.pid == pid][1:] for pid in {one.pid for one in work}]
    since = max(mine[0].begin_ns for mine in by_process)
    until = min(mine[-1].begin_ns for mine in by_process)
    for mine in by_process:
        begins = [one.begin_ns for one in mine if since <= one.begin_ns <= until]
        step_ns = median(later - one for one, later in pairwise(begins))
        assert step_ns == pytest.approx(2 * work[0].duration_ns, rel=0.03)
