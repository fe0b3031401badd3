"""Peak device memory of one batch in two parts, on an allocator whose figures are known."""

import pytest
import torch
from _tunekit_agent.peaks import Peaks
from simulated_cuda import SimulatedCuda, Torch

from tunekit.records.details import PeaksSeen

ROWS = torch.zeros(4, 8)


class Training:
    """A training whose device memory is counted by hand; bytes."""

    def __init__(self) -> None:
        self.cuda = SimulatedCuda()
        self.weight = torch.nn.Parameter(torch.zeros(10))
        self.stage = Peaks(Torch(self.cuda), "cuda:1", lambda: [self.weight, self.weight])

    def batch(self, activations: int, in_step: int, steps: int = 1) -> None:
        self.stage.asked(None)
        if self.stage.is_over:
            return
        self.stage.fetched([ROWS])
        self.cuda.hold(activations)
        self.cuda.hold(-activations)
        for _ in range(steps):
            self.stage.step_began()
            self.cuda.hold(in_step)
            self.cuda.hold(-in_step)
            self.stage.step_ended()

    def seen(self) -> PeaksSeen:
        self.stage.leave()
        return PeaksSeen.model_validate(self.stage.facts())


def test_forward_and_the_optimizer_have_peaks_of_their_own():
    training = Training()
    training.cuda.hold(5000)
    training.cuda.hold(-4000)
    training.batch(activations=300, in_step=70)
    training.batch(activations=900, in_step=70)
    seen = training.seen()
    assert seen.forward_backward_bytes == 1300
    assert seen.optimizer_bytes == 1070
    assert seen.batch_bytes == 4 * 8 * 4
    assert training.cuda.asked_devices == {"cuda:1"}


def test_gradients_that_are_there_at_the_start_are_counted_once():
    training = Training()
    training.weight.grad = torch.zeros(10)
    training.batch(100, 10)
    training.weight.grad = None
    training.batch(100, 10)
    assert training.seen().gradients_at_start_bytes == 40


def test_batches_that_only_accumulate_are_passed_over():
    training = Training()
    training.batch(activations=9000, in_step=0, steps=0)
    training.weight.grad = torch.zeros(10)
    training.batch(activations=300, in_step=70)
    training.batch(0, 0)
    seen = training.seen()
    assert seen.forward_backward_bytes == 300
    assert seen.optimizer_bytes == 70
    assert seen.gradients_at_start_bytes == 40


def test_a_second_optimizer_belongs_to_the_second_part():
    training = Training()
    training.batch(activations=300, in_step=70, steps=2)
    training.batch(0, 0)
    assert training.seen().forward_backward_bytes == 300


@pytest.mark.parametrize("batches", [0, 1])
def test_a_batch_that_does_not_end_says_nothing(batches: int):
    training = Training()
    for _ in range(batches):
        training.batch(300, 70)
    training.stage.leave()
    assert training.stage.facts() is None


def test_a_cpu_has_no_device_memory():
    stage = Peaks(torch, None, list)
    stage.asked(None)
    assert stage.is_over
    assert stage.facts() is None
