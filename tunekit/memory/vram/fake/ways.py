"""Has torch take the ways that it takes where a GPU is, for steps on fake cuda tensors."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.amp.autocast_mode
import torch.optim.optimizer as optimizers
import torch.utils._foreach_utils as foreach
from torch._subclasses.fake_impls import op_implementations_dict
from torch._subclasses.fake_tensor import FakeTensor

from tunekit.memory.vram.fake.attention import attention_as_on_a_gpu
from tunekit.memory.vram.fake.recurrent import keep_what_cudnn_keeps, recurrent_as_on_a_gpu

INITIAL_SCALE = 65536.0
"""What a gradient scaler says its scale is: its first one."""


@contextlib.contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Have torch take these ways; what it is told here stays for the process."""
    library = torch.library.Library("aten", "IMPL")
    attention_as_on_a_gpu(library)
    recurrent_as_on_a_gpu(library)
    keep_what_cudnn_keeps()
    _let_optimizers_take_fake_tensors()
    _let_scalers_step()
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda including_emulation=True: True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    del library


def _let_optimizers_take_fake_tensors() -> None:
    for kinds in (
        optimizers._foreach_supported_types,
        getattr(foreach, "_foreach_supported_types", []),
    ):
        if FakeTensor not in kinds:
            kinds.append(FakeTensor)  # else optimizers walk over parameters one by one
    for name in ("default", "tensor_lr"):  # torch has fake versions of its other fused optimizers
        op_implementations_dict[getattr(torch.ops.aten._fused_sgd_, name)] = _in_place


def _let_scalers_step() -> None:
    """Have gradient scalers find every gradient finite: fake ones have no values to look at."""
    torch.amp.GradScaler._maybe_opt_step = _step_always  # type: ignore[method-assign,assignment]
    torch.amp.GradScaler.get_scale = lambda self: INITIAL_SCALE  # type: ignore[method-assign]


def _step_always(
    scaler: torch.amp.GradScaler,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    *args: Any,
    **kwargs: Any,
) -> Any:
    return optimizer.step(*args, **kwargs)


def _in_place(fake_mode: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """What an op that changes its arguments and returns nothing does to fake ones."""
