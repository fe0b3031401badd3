"""Optimizer steps that torch compiles: seen and counted, and the script meets no warning of it."""

import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from _tunekit_agent.apply import StepCounter
from _tunekit_agent.model.steps import StepWatch

OPTIMIZERS = importlib.import_module("torch.optim.optimizer")


class Seen:
    """What an observer is told, by a process that is its own."""

    is_here = True

    def __init__(self) -> None:
        self.began = self.ended = 0

    def step_began(self, now: float) -> None:
        self.began += 1

    def stepped(self, optimizer: Any, now: float) -> None:
        self.ended += 1


@pytest.fixture
def registered() -> Iterator[None]:
    """Hooks, and the count of captured graphs, that are gone after the test."""
    hooks = (OPTIMIZERS._global_optimizer_pre_hooks, OPTIMIZERS._global_optimizer_post_hooks)
    before = [dict(one) for one in hooks]
    yield
    for one, kept in zip(hooks, before, strict=True):
        one.clear()
        one.update(kept)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def train(steps: int) -> None:
    """Train with a compiled step, and with warnings that are errors."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step: Callable[[], None] = torch.compile(optimizer.step, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", UserWarning)
        for _ in range(steps):
            model(torch.randn(2, 4)).sum().backward()
            step()


@pytest.mark.usefixtures("registered")
def test_a_compiled_step_is_seen_and_nothing_is_warned_of() -> None:
    seen: Any = Seen()
    watch = StepWatch(seen, seen, seen)
    watch.install_optimizer(OPTIMIZERS)
    train(5)
    assert (seen.began, seen.ended) == (5, 5)
    assert [one["base_lr"] for one in watch.seen()] == [0.01]


@pytest.mark.usefixtures("registered")
def test_a_real_training_counts_its_compiled_steps_and_nothing_is_warned_of() -> None:
    counter = StepCounter(None, 1, lambda last: True, lambda text: None)
    OPTIMIZERS.register_optimizer_step_post_hook(counter)
    train(5)
    assert counter.steps == 5
