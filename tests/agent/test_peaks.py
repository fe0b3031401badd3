"""Peak device memory of one batch in two parts, on an allocator whose figures are known."""

import torch
from _tunekit_agent.stages.peaks import Peaks
from _tunekit_agent.stages.runner import StageRunner
from build_loop import loop_of
from simulated_cuda import SimulatedCuda, Torch

from tunekit.records.details import PeaksSeen

ROWS = torch.zeros(4, 8)


class Training:
    """A training whose device memory is counted by hand; bytes."""

    def __init__(self) -> None:
        self.cuda = SimulatedCuda()
        self.weight = torch.nn.Parameter(torch.zeros(10))
        self.loss = torch.zeros(1)
        parameters = [self.weight, self.weight]
        loop = loop_of(
            torch=Torch(self.cuda),
            device="cuda:1",
            parameters=lambda: parameters,
            last_loss=lambda: self.loss,
        )
        self.stage = Peaks(loop)

    def batch(self, activations: int, in_step: int, steps: int = 1) -> None:
        self.stage.asked(None)
        if self.stage.is_over:
            return
        self.stage.fetched([ROWS])
        self.hold(activations)
        for _ in range(steps):
            self.step(in_step)

    def hold(self, size_bytes: int) -> None:
        self.cuda.hold(size_bytes)
        self.cuda.hold(-size_bytes)

    def step(self, size_bytes: int) -> None:
        self.stage.step_began()
        self.hold(size_bytes)
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


def test_a_closure_is_told_for_its_passes_are_within_the_step():
    training = Training()
    details = StageRunner([training.stage], 1.0, lambda name: None)
    details.asked(None)
    training.loss = torch.ones(1)
    details.call("step_began")
    training.loss = torch.ones(1)
    details.call("step_ended")
    details.asked(None)
    (fault,) = details.facts()["faults"]
    assert "closure" in fault
    assert "peaks" not in details.facts()


def test_a_batch_with_a_validation_or_an_epochs_end_in_it_is_not_looked_at():
    training = Training()
    training.stage.asked(None)
    training.hold(300)
    training.step(70)
    training.stage.interrupted()
    training.hold(5000)
    training.stage.asked(None)
    assert not training.stage.is_over
    training.hold(200)
    training.step(70)
    training.stage.asked(None)
    assert training.seen().forward_backward_bytes == 200


def test_a_cpu_has_no_device_memory():
    stage = Peaks(loop_of())
    stage.asked(None)
    assert stage.is_over
    assert stage.facts() is None
