"""The step numbers that are read from a script's learning-rate schedules."""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from _tunekit_agent.model.schedules import ScheduleWatch
from torch.optim import lr_scheduler

Schedule = Callable[[torch.optim.Optimizer], Any]

ARGS = argparse.Namespace(total_steps=800, lr=0.1)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScheduleWatch]:
    for kind in (lr_scheduler.LRScheduler, lr_scheduler.SequentialLR):
        monkeypatch.setattr(kind, "__init__", kind.__init__)  # put back at the end
    watching = ScheduleWatch()
    watching.install(lr_scheduler)
    yield watching


def seen(watch: ScheduleWatch, schedule: Schedule, steps: int = 4, every: int = 1) -> dict[str, list[int]]:
    """Return the numbers by name, of a schedule that was stepped after every so many optimizer steps."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    scheduler = schedule(optimizer)
    for step in range(steps):
        optimizer.step()
        if (step + 1) % every == 0:
            scheduler.step()
    numbers: dict[str, list[int]] = {}
    for one in watch.facts(steps):
        numbers.setdefault(one["name"], []).append(one["steps"])
    return numbers


def by_closure(optimizer: torch.optim.Optimizer) -> Any:
    warm_up = 100
    return lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / warm_up, step / ARGS.total_steps))


def in_sequence(optimizer: torch.optim.Optimizer) -> Any:
    parts = [lr_scheduler.LinearLR(optimizer, total_iters=50), lr_scheduler.CosineAnnealingLR(optimizer, 750)]
    return lr_scheduler.SequentialLR(optimizer, parts, milestones=[50])


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (lambda of: lr_scheduler.OneCycleLR(of, 0.1, total_steps=800), {"total_steps": [800]}),
        (lambda of: lr_scheduler.OneCycleLR(of, 0.1, epochs=4, steps_per_epoch=200), {"total_steps": [800]}),
        (lambda of: lr_scheduler.CosineAnnealingLR(of, T_max=800), {"T_max": [800]}),
        (lambda of: lr_scheduler.StepLR(of, step_size=300), {"step_size": [300]}),
        (lambda of: lr_scheduler.MultiStepLR(of, [600, 300]), {"milestones": [300, 600]}),
        (by_closure, {"warm_up": [100], "total_steps": [800]}),
        (in_sequence, {"milestones": [50], "total_iters": [50], "T_max": [750]}),
    ],
    ids=["one cycle", "by epochs", "cosine", "step", "milestones", "closure", "sequence"],
)
def test_lengths_of_schedules_are_read(
    watch: ScheduleWatch, schedule: Schedule, expected: dict[str, list[int]]
) -> None:
    assert seen(watch, schedule) == expected


def test_a_schedule_that_is_stepped_once_an_epoch_counts_no_steps(watch: ScheduleWatch) -> None:
    assert seen(watch, lambda of: lr_scheduler.CosineAnnealingLR(of, T_max=90), steps=20, every=10) == {}
