"""Loops without an optimizer of torch, each in a process of its own: torch knows what was made."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

from tunekit.agent import SITE_FOLDER

PRELUDE = f"""
import json, sys
sys.path.append({str(SITE_FOLDER)!r})
import torch
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

Run = Callable[[str], list[dict[str, float]]]


@pytest.fixture(scope="module")
def run() -> Run:
    def run_one(script: str) -> list[dict[str, float]]:
        text = PRELUDE + textwrap.dedent(script) + "\nprint(json.dumps(log.reported))\n"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
        reported: list[dict[str, float]] = json.loads(done.stdout)
        return reported

    return run_one


LOOP = """
for _ in range(100):
    model.zero_grad()
    backward(loss_of())
    {update}
"""


@pytest.mark.parametrize(
    "update",
    [
        "each(lambda p: p.data.add_(p.grad, alpha=-0.1))",
        "each(lambda p: p.sub_(0.1 * p.grad))",
        "each(lambda p: setattr(p, 'data', p.data - 0.1 * p.grad))",
        "each(lambda p: p.copy_(p - 0.1 * p.grad))",
    ],
)
def test_an_update_by_hand_is_told_once_after_a_few_passes(run: Run, update: str) -> None:
    (reported,) = run(LOOP.format(update=update))
    assert (reported["passes"], reported["changes"]) == (5, 3)


def test_leaves_that_are_no_parameters_count_where_there_is_no_module(run: Run) -> None:
    (reported,) = run(
        """
        weight = torch.zeros(4, requires_grad=True)
        for _ in range(100):
            backward((x @ weight - 1).square().mean())
            with torch.no_grad():
                weight -= 0.1 * weight.grad
                weight.grad = None
        """
    )
    assert reported["changes"] == 3


@pytest.mark.parametrize(
    "script",
    [
        "for _ in range(300):\n    backward(loss_of())\n",
        # an attack changes the images, many times for each step
        """
        torch.optim.SGD(model.parameters(), lr=0.1)
        noise = torch.zeros_like(x, requires_grad=True)
        for _ in range(300):
            backward(loss_of(x + noise))
            noise.data.add_(noise.grad.sign(), alpha=0.01)
        """,
        # an inner loop of a meta-learner, before the first step of its optimizer
        """
        torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(20):
            model.zero_grad()
            backward(loss_of())
            each(lambda p: p.sub_(0.1 * p.grad))
        """,
        # a script that scales its weights once
        """
        backward(loss_of())
        backward(loss_of())
        each(lambda p: p.mul_(0.5))
        for _ in range(50):
            backward(loss_of())
        """,
    ],
    ids=["accumulates", "attack", "inner loop", "set up once"],
)
def test_a_loop_that_may_yet_step_an_optimizer_is_left_alone(run: Run, script: str) -> None:
    made = "torch.optim.SGD(model.parameters(), lr=0.1)\n"
    assert run(script if "SGD" in script or "0.5" in script else made + script) == []


def test_a_long_update_by_hand_beside_an_optimizer_is_told(run: Run) -> None:
    (reported,) = run(
        "torch.optim.SGD(model.parameters(), lr=0.1)\n"
        + LOOP.replace("100", "400").format(update="each(lambda p: p.sub_(0.1 * p.grad))")
    )
    assert reported["changes"] >= 64
    assert reported["seconds"] > 10


def test_gradients_without_any_optimizer_are_told_after_a_while(run: Run) -> None:
    """As torch.func asks for them: what it updates are new tensors each time."""
    (reported,) = run(
        """
        for _ in range(400):
            now += 0.1
            watch.saw_gradients(())
        """
    )
    assert reported["changes"] == 0
    assert reported["passes"] >= 64
    assert reported["seconds"] > 20


def test_tensors_of_another_kind_end_nothing(run: Run) -> None:
    assert run("for _ in range(20):\n    watch.saw_gradients((object(),))\n") == []
