"""Loops without an optimizer of torch, each in a fork of its own: torch knows what was made."""

import json
import subprocess
import sys

import pytest

from tunekit.agent import SITE_FOLDER

PRELUDE = f"""
import json, sys
sys.path.append({str(SITE_FOLDER)!r})
import torch, torch._dynamo  # which each fork would import by its first optimizer
from _tunekit_agent.model import steps

class Log:
    def __init__(self):
        self.reported = []
    def emit(self, event, **fields):
        self.reported.append(fields)

now = 0.0
steps.time.perf_counter = lambda: now
log = Log()
watch = steps.ManualUpdates(log)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
x = torch.randn(16, 4)

def backward(loss):
    global now
    now += 0.1
    watch.saw_gradients((loss,))
    loss.backward()

def loss_of(inputs=x):
    return model(inputs).square().mean()

def each(change):
    with torch.no_grad():
        for parameter in model.parameters():
            change(parameter)
"""

LOOP = """
for _ in range({passes}):
    model.zero_grad()
    backward(loss_of())
    {update}
"""
MADE = "torch.optim.SGD(model.parameters(), lr=0.1)\n"
BY_HAND = "each(lambda p: p.sub_(0.1 * p.grad))"
UPDATES = {
    "data": "each(lambda p: p.data.add_(p.grad, alpha=-0.1))",
    "in place": BY_HAND,
    "other data": "each(lambda p: setattr(p, 'data', p.data - 0.1 * p.grad))",
}
LEFT_ALONE = {
    "accumulates": MADE + "for _ in range(300):\n    backward(loss_of())\n",
    "attacks its images, many times for each step": MADE
    + """
noise = torch.zeros_like(x, requires_grad=True)
for _ in range(300):
    backward(loss_of(x + noise))
    noise.data.add_(noise.grad.sign(), alpha=0.01)
""",
    "a meta-learner's inner loop, before its first step": MADE + LOOP.format(passes=20, update=BY_HAND),
    "scales its weights once": """
backward(loss_of())
backward(loss_of())
each(lambda p: p.mul_(0.5))
for _ in range(50):
    backward(loss_of())
""",
    "tensors of another kind": "for _ in range(20):\n    watch.saw_gradients((object(),))\n",
}
CASES = {
    **{name: LOOP.format(passes=100, update=update) for name, update in UPDATES.items()},
    **LEFT_ALONE,
    "leaves without a module": """
weight = torch.zeros(4, requires_grad=True)
for _ in range(100):
    backward((x @ weight - 1).square().mean())
    with torch.no_grad():
        weight -= 0.1 * weight.grad
        weight.grad = None
""",
    "beside an optimizer": MADE + LOOP.format(passes=400, update=BY_HAND),
    "gradients alone, as torch.func makes them": """
for _ in range(400):
    now += 0.1
    watch.saw_gradients(())
""",
}
FORKS = """
import os
for name, script in json.loads(sys.argv[1]).items():
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    exec(script, globals())
    print(json.dumps([name, log.reported]), flush=True)
    os._exit(0)
"""
Reported = dict[str, list[dict[str, float]]]


@pytest.fixture(scope="module")
def reported() -> Reported:
    command = [sys.executable, "-c", PRELUDE + FORKS, json.dumps(CASES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert found.keys() == CASES.keys(), done.stderr
    return found


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_by_hand_is_told_once_after_a_few_passes(name: str, reported: Reported) -> None:
    (one,) = reported[name]
    assert (one["passes"], one["changes"]) == (5, 3)


def test_leaves_that_are_no_parameters_count_where_there_is_no_module(reported: Reported) -> None:
    assert [one["changes"] for one in reported["leaves without a module"]] == [3]


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_a_loop_that_may_yet_step_an_optimizer_is_left_alone(name: str, reported: Reported) -> None:
    assert reported[name] == []


def test_a_long_update_by_hand_beside_an_optimizer_is_told(reported: Reported) -> None:
    (one,) = reported["beside an optimizer"]
    assert one["changes"] >= 64
    assert one["seconds"] > 10


def test_gradients_without_any_optimizer_are_told_after_a_while(reported: Reported) -> None:
    (one,) = reported["gradients alone, as torch.func makes them"]
    assert one["changes"] == 0
    assert one["passes"] >= 64
    assert one["seconds"] > 20
