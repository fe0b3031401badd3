"""Traces training steps of a model that is known as a function, on fake cuda tensors."""

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.amp.autocast_mode
import torch.optim.optimizer as optimizers
import torch.utils._foreach_utils as foreach
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from tunekit.memory.vram.fake.attention import as_on_a_gpu
from tunekit.memory.vram.fake.guard import allow_fake_cuda
from tunekit.memory.vram.fake.tracer import AllocationTracer
from tunekit.memory.vram.trace import AllocationTrace, Purpose

BLAS_WORKSPACE_BYTES = 8_519_680
"""cuBLAS's workspace of one thread before Hopper, seen as allocations of torch: forward and backward each."""
_STEPS = 3

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class FakeTraining:
    """A training whose parts are functions, called with cuda as torch's default device.

    `make_model` is called before that, on real tensors.
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


def traced(training: FakeTraining, batch_size: int) -> AllocationTrace:
    """Return what the first steps allocate of a GPU's memory, its model and workspaces included.

    Args:
        training: what is trained.
        batch_size: samples in a batch.

    Raises:
        NoFakeCuda: this build of torch takes no fake cuda tensors.
    """
    allow_fake_cuda()
    real = training.make_model()
    tracer = AllocationTracer()
    with _as_on_a_gpu(), FakeTensorMode(allow_non_fake_inputs=True), tracer:
        model = faked(real, training.channels_last)
        tracer.is_for(Purpose.PARAMETERS, model.parameters())
        tracer.is_for(Purpose.BUFFERS, model.buffers())
        optimizer = training.make_optimizer(model.parameters())
        workspaces = [torch.empty(BLAS_WORKSPACE_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)]
        tracer.is_for(Purpose.WORKSPACE, workspaces)
        inputs = targets = None
        for _ in range(_STEPS):
            del inputs, targets  # a loop frees the last batch where it takes the next
            with torch.device("cuda"):
                inputs, targets = training.make_batch(batch_size)
            tracer.is_for(Purpose.BATCH, (inputs, targets))
            _step(training, model, optimizer, inputs, targets, tracer)
    return tracer.trace(batch_size)


def faked(model: nn.Module, channels_last: bool = False) -> nn.Module:
    """Return a copy of a model on fake cuda tensors; tied weights stay tied. Called in a FakeTensorMode.

    `Module.to` does not do it: it swaps tensors, which fake ones refuse.
    """
    twins: dict[int, Any] = {}
    for parameter in model.parameters():
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


def _step(
    training: FakeTraining,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    tracer: AllocationTracer,
) -> None:
    optimizer.zero_grad()
    with torch.autocast("cuda", training.autocast_dtype, enabled=training.autocast_dtype is not None):
        loss = training.loss_of(model(inputs), targets)
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    tracer.is_for(Purpose.GRADIENTS, gradients)
    optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values()]
    tracer.is_for(Purpose.OPTIMIZER, [one for one in states if isinstance(one, torch.Tensor)])


@contextlib.contextmanager
def _as_on_a_gpu() -> Iterator[None]:
    """Have torch take the ways that it takes where a GPU is."""
    library = as_on_a_gpu()
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda including_emulation=True: True
    for kinds in (
        optimizers._foreach_supported_types,
        getattr(foreach, "_foreach_supported_types", []),
    ):
        if FakeTensor not in kinds:
            kinds.append(FakeTensor)  # else optimizers walk over parameters one by one
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    del library
