"""A training whose steps are captured in a CUDA graph: it goes on as it would, and its steps are counted."""

import json
from pathlib import Path

from gpu_environment import ON_THIS_THREAD

from simgpu.machine import SimulatedGpu
from tunekit.agent import SITE_FOLDER

SCRIPT = """
import importlib, json, sys
import torch
from _tunekit_agent.measure import device, errors
from _tunekit_agent.model.steps import StepWatch

class Seen:
    is_here, ended = True, 0
    def step_began(self, now): pass
    def stepped(self, optimizer, now):
        Seen.ended += 1
        device.synchronize()
    def saw_gradients(self, losses): pass

watch = StepWatch(Seen(), Seen(), Seen())
watch.install_optimizer(importlib.import_module("torch.optim.optimizer"))
watch.install_graphs(importlib.import_module("torch.cuda.graphs"))
watch.install_autograd(torch.autograd)
model = torch.nn.Linear(64, 64, device="cuda")
rate = torch.tensor(0.01, device="cuda")
optimizer = torch.optim.Adam(model.parameters(), capturable=True)
optimizer.param_groups[0]["lr"] = rate
rows = torch.zeros(8, 64, device="cuda")

def step():
    optimizer.zero_grad(set_to_none=True)
    model(rows).sum().backward()
    optimizer.step()

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
eager = Seen.ended
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
captured = Seen.ended
for _ in range(5):
    graph.replay()
torch.cuda.synchronize()
print(json.dumps([eager, captured, Seen.ended, len(watch.losses), watch.last_loss_value() is not None]))
"""


def test_captured_steps_are_left_alone_and_their_replays_counted(
    simulated_gpu: SimulatedGpu, tmp_path: Path
) -> None:
    script = tmp_path / "captured.py"
    script.write_text(ON_THIS_THREAD + SCRIPT)
    done = simulated_gpu.run([script], more={"PYTHONPATH": str(SITE_FOLDER)})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [3, 3, 8, 3, True]
