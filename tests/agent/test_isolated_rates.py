"""Either half of the loop alone, proved on a scripted clock and a scripted loader."""

from typing import Any

import pytest
import torch
from _tunekit_agent.loader.source import Replay
from _tunekit_agent.stages.isolated_rates import IsolatedRates
from _tunekit_agent.stages.loader_alone import LoaderAlone
from _tunekit_agent.stages.replay import TrainingTimer
from _tunekit_agent.stages.runner import StageRunner
from build_loop import loop_of


class ScriptedSource:
    """A loader of known times on a clock of its own; an epoch's last batch has two samples, the others four.

    Args:
        workers: that make batches side by side, batch_s for each.
        prefetch: batches that each has ready at the start.
        epoch_batches: per epoch; None for no end.
        restart_s: what a new epoch costs.
        epochs: how many there are.
    """

    def __init__(
        self,
        workers: int,
        batch_s: float,
        prefetch: int = 2,
        epoch_batches: int | None = None,
        restart_s: float = 5.0,
        epochs: int = 1000,
    ) -> None:
        self.now = 100.0
        self.info = self
        self.work = None
        self.facts = {
            "num_workers": workers,
            "prefetch_factor": prefetch if workers else None,
            "batch_size": 4,
        }
        self.restarts = 0
        self.has_all_made = True
        self._workers, self._batch_s = workers, batch_s
        self._ready = workers * prefetch
        self._epoch_batches, self._restart_s, self._epochs = epoch_batches, restart_s, epochs
        self._in_epoch = 0

    def clock(self) -> float:
        return self.now

    def take(self) -> Any:
        if self._in_epoch == self._epoch_batches:
            if self.restarts + 1 == self._epochs:
                raise StopIteration
            self.restarts += 1
            self._in_epoch = self._ready = 0
            self.now += self._restart_s
        self._in_epoch += 1
        if self._ready:
            self._ready -= 1
        elif not self._workers or self._in_epoch % self._workers == 0:
            self.now += self._batch_s  # the workers' batches come in bursts
        return torch.zeros(2 if self._in_epoch == self._epoch_batches else 4)


def alone(source: ScriptedSource, window_s: float = 2.0) -> LoaderAlone:
    loader = LoaderAlone(source, window_s, lambda: None, source.clock)
    loader.run()
    return loader


@pytest.mark.parametrize("workers", [0, 1, 2, 3, 8])
def test_a_loader_alone_takes_what_its_workers_take(workers: int) -> None:
    loader = alone(ScriptedSource(workers, 0.05))
    assert loader.why_not == ""
    assert loader.batches % max(workers, 1) == 0
    assert loader.batches >= max(workers, 4)
    assert loader.batch_s == pytest.approx(0.05 / max(workers, 1))


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_what_a_new_epoch_costs_is_left_out(workers: int) -> None:
    source = ScriptedSource(workers, 0.05, epoch_batches=12, restart_s=0.3)
    loader = alone(source)
    assert source.restarts > 0
    assert loader.batch_s == pytest.approx(0.05 / max(workers, 1))


def test_a_loader_too_slow_says_so() -> None:
    loader = alone(ScriptedSource(0, 3.0))
    assert loader.batch_s is None
    assert "too slow" in loader.why_not


class ScriptedDevice:
    """A device whose queued work only shows when it is waited for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.queued_s = 0.0

    def clock(self) -> float:
        return self.now

    def synchronize(self) -> None:
        self.now += self.queued_s
        self.queued_s = 0.0

    def train(self, host_s: float, device_s: float) -> None:
        self.now += host_s
        self.queued_s = max(0.0, self.queued_s - host_s) + device_s


def test_work_that_the_device_still_has_counts() -> None:
    device = ScriptedDevice()
    training = TrainingTimer(1.0, 1, device.synchronize, device.clock)
    device.train(5.0, 5.0)  # a first batch that warms up
    while not training.asked():
        device.train(0.01, 0.04)
    assert training.batches >= 10
    assert training.time_s / training.batches == pytest.approx(0.04, rel=0.05)


def test_both_halves_are_told_and_the_script_gets_one_batch_over_and_over() -> None:
    source = ScriptedSource(2, 0.1)
    isolated = IsolatedRates(loop_of(), source.clock, lambda seconds: None)
    given = []
    while True:
        answer = isolated.asked(source)
        if isolated.is_over:
            break
        assert isinstance(answer, Replay)
        given.append(answer.batch)
        source.now += 0.03
    assert len({id(batch) for batch in given}) == 1
    reported = isolated.facts()
    assert reported["loader_step_s"] == pytest.approx(0.05)
    assert reported["compute_step_s"] == pytest.approx(0.03)
    assert reported["why_not"] is None


def test_a_training_too_slow_for_its_deadline_keeps_the_loaders_half() -> None:
    source = ScriptedSource(2, 0.1)
    isolated = IsolatedRates(loop_of(), source.clock, lambda seconds: None)
    details = StageRunner([isolated], 1.0, lambda name: None, source.clock)
    while not details.is_over:
        details.asked(source)
        source.now += 11.0
    reported = details.facts()
    assert reported["floors"]["loader_step_s"] == pytest.approx(0.05)
    assert reported["floors"]["compute_step_s"] is None
    assert "too slow" in reported["floors"]["why_not"]
    assert "took too long" in reported["faults"][0]
