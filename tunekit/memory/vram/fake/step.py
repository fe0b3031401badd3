"""Traces training steps of a model that is known as a function, on fake cuda tensors."""

import contextlib
import copy
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tunekit.agent.site._tunekit_agent.trace.tracer import Tracer
from tunekit.memory.vram.fake.compiled import Cut
from tunekit.memory.vram.fake.guard import allow_fake_cuda
from tunekit.memory.vram.fake.recurrent import flat_weights
from tunekit.memory.vram.fake.ways import as_on_a_gpu
from tunekit.records.step_trace import Purpose, StepTrace

BLAS_WORKSPACE_BYTES = 8_519_680
"""cuBLAS's workspace of one thread before Hopper, seen as allocations of torch: forward and backward each."""
_STEPS = 3

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class FakeTraining:
    """A training whose parts are functions, called with cuda as torch's default device.

    `make_model` is called before that, on real tensors. Modules may checkpoint their activations with
    torch.utils.checkpoint, in either way; optimizers may be plain, foreach or fused.

    What can't be done: tensors without data have no values, so nothing in a step may depend on one.
    `.item()`, `.tolist()`, boolean masks, `nonzero` and branches on tensors raise; so do copies to numpy,
    CUDA streams, events and graphs, pinned memory, custom kernels without a fake version, and optimizers
    that look at values (L-BFGS). The steps of a real loop can be traced in place of those.
    """

    make_model: Callable[[], nn.Module]
    make_optimizer: Callable[[Any], torch.optim.Optimizer]
    """Of the model's parameters."""
    make_batch: Callable[[int], Batch]
    """Inputs and targets of a batch size."""
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    """Of outputs and targets."""
    autocast_dtype: torch.dtype | None = None
    channels_last: bool = False
    """Parameters with four dimensions have it; `make_batch` says of itself."""
    has_grad_scaler: bool = False
    """Whether a torch.amp.GradScaler stands around the backward pass. It finds every gradient finite, and so
    never skips a step."""
    keeps_gradients: bool = False
    """Whether gradients are zeroed in place: zero_grad(set_to_none=False)."""
    accumulate_batches: int = 1
    """Batches for each step of the optimizer."""
    is_compiled: bool = False
    """Whether torch.compile is taken to have the model and its loss. What comes out is a bound and no
    estimate: see `compiled`."""

    def __post_init__(self) -> None:
        if self.accumulate_batches < 1:
            raise ValueError(f"accumulate_batches must be at least 1, got {self.accumulate_batches}")


def traced(training: FakeTraining, batch_size: int) -> StepTrace:
    """Return what the first steps allocate of a GPU's memory, its model and workspaces included.

    Args:
        training: what is trained.
        batch_size: samples in a batch.

    Raises:
        NoFakeCuda: this build of torch takes no fake cuda tensors.
    """
    (steps,) = traced_at(training, (batch_size,))
    return steps


def traced_at(training: FakeTraining, batch_sizes: Sequence[int]) -> list[StepTrace]:
    """Return what the first steps allocate at each of some batch sizes; the model is made once.

    Raises:
        NoFakeCuda: this build of torch takes no fake cuda tensors.
    """
    allow_fake_cuda()
    real = training.make_model()
    return [_traced(training, real, size) for size in batch_sizes]


def _traced(training: FakeTraining, real: nn.Module, batch_size: int) -> StepTrace:
    tracer, fakes = Tracer(torch), FakeTensorMode(allow_non_fake_inputs=True)
    with _collecting_between_steps(), as_on_a_gpu(), fakes, tracer:
        model = faked(real, training.channels_last)
        tracer.is_for(Purpose.PARAMETERS, model.parameters())
        tracer.is_for(Purpose.BUFFERS, model.buffers())
        of_batch: nn.Module = _LossOfBatch(training, model)
        optimizer = training.make_optimizer(model.parameters())
        workspaces = [torch.empty(BLAS_WORKSPACE_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)]
        tracer.is_for(Purpose.WORKSPACE, workspaces)
        if training.is_compiled:
            unseen = _Unseen(tracer)
            of_batch = Cut(of_batch, unseen)
            with unseen():
                _first_pass(training, of_batch, batch_size)
                model.zero_grad()
        loop = _Loop(training, of_batch, optimizer, tracer)
        for _ in range(_STEPS):
            loop.step(batch_size)
            gc.collect()
    return StepTrace.model_validate({"batch_size": batch_size, **tracer.facts()})


def faked(model: nn.Module, channels_last: bool = False) -> nn.Module:
    """Return a copy of a model on fake cuda tensors; tied weights stay tied. Called in a FakeTensorMode.

    `Module.to` does not do it: it swaps tensors, which fake ones refuse.
    """
    twins: dict[int, Any] = {}
    for module in model.modules():
        weights = flat_weights(module)
        sizes = [weight.numel() for weight in weights]
        if not weights:
            continue
        block = torch.empty(sum(sizes), dtype=weights[0].dtype, device="cuda")
        for weight, part in zip(weights, block.split(sizes), strict=True):
            twin = part.view(weight.shape).detach()
            twins[id(weight)] = nn.Parameter(twin, requires_grad=weight.requires_grad)
    for parameter in model.parameters():
        if id(parameter) not in twins:
            fake = _faked_tensor(parameter, channels_last)
            twins[id(parameter)] = nn.Parameter(fake, requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        twins[id(buffer)] = _faked_tensor(buffer, channels_last)
    return copy.deepcopy(model, twins)


def _faked_tensor(tensor: torch.Tensor, channels_last: bool) -> torch.Tensor:
    if channels_last and tensor.dim() == 4:
        layout = torch.channels_last
        return torch.empty(tensor.size(), dtype=tensor.dtype, device="cuda", memory_format=layout)
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cuda")


class _LossOfBatch(nn.Module):
    """A model with its loss, in the precision that it is trained with."""

    def __init__(self, training: FakeTraining, model: nn.Module) -> None:
        super().__init__()
        self._training, self.model = training, model

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        half = self._training.autocast_dtype
        with torch.autocast("cuda", half, enabled=half is not None):
            return self._training.loss_of(self.model(inputs), targets)


def _first_pass(training: FakeTraining, of_batch: nn.Module, batch_size: int) -> None:
    """Have a step compiled, forward and backward."""
    with torch.device("cuda"):
        inputs, targets = training.make_batch(batch_size)
    of_batch(inputs, targets).backward()


@contextlib.contextmanager
def _collecting_between_steps() -> Iterator[None]:
    """Free cycles of objects nowhere but where it is asked for: two traces do alike, and take less time."""
    gc.freeze()  # what was imported is not looked at again
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


class _Unseen:
    """Enters contexts, one in another too, in which a tracer sees nothing."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer, self._depth = tracer, 0

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        if not self._depth:
            self._tracer.leave()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._tracer.enter()


class _Loop:
    """A training loop: one optimizer step at a time."""

    def __init__(
        self, training: FakeTraining, of_batch: nn.Module, optimizer: torch.optim.Optimizer, tracer: Tracer
    ) -> None:
        self._training, self._of_batch, self._optimizer, self._tracer = training, of_batch, optimizer, tracer
        self._scaler = torch.amp.GradScaler("cuda", enabled=training.has_grad_scaler)
        self._batch: Batch | None = None

    def step(self, batch_size: int) -> None:
        training, tracer = self._training, self._tracer
        for place in range(training.accumulate_batches):
            batch = self._next(batch_size, is_first=place == 0)
            if place == 0:
                self._optimizer.zero_grad(set_to_none=not training.keeps_gradients)
            loss = self._of_batch(*batch)
            if training.accumulate_batches > 1:
                loss = loss / training.accumulate_batches
            self._scaler.scale(loss).backward()
            del batch, loss
        held = [one for group in self._optimizer.param_groups for one in group["params"]]
        gradients = [one.grad for one in held if one.grad is not None]
        tracer.is_for(Purpose.GRADIENTS, gradients)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        states = [value for state in self._optimizer.state.values() for value in state.values()]
        tracer.is_for(Purpose.OPTIMIZER, [one for one in states if isinstance(one, torch.Tensor)])

    def _next(self, batch_size: int, is_first: bool) -> Batch:
        """Return the next batch; a loop frees the last one where it takes the next."""
        self._batch = None
        with torch.device("cuda"):
            batch = self._batch = self._training.make_batch(batch_size)
        if is_first:
            self._tracer.mark()
        self._tracer.is_for(Purpose.BATCH, batch)
        return batch
