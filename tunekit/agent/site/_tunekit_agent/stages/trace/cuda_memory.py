"""Has torch take, on a CPU, the ways that it takes on a GPU, as far as memory is concerned.

Only for a process that ends after it: what is registered here stays. Known differences:

- attention keeps no scores on a GPU; on a CPU it does where dropout is on, or the mask is no float;
- dropout keeps a byte for each element on a GPU, the element's own width on a CPU;
- autocast runs norms, softmax and losses in float32 on a GPU, and fewer of them on a CPU;
- an LSTM under autocast is one kernel on a GPU, on a CPU only if its input is float32;
- optimizers walk over lists of parameters at once on a GPU, which takes lists of temporaries.

Sources: torch's autocast_mode.h (lists of ops), Dropout.cpp, sdp_utils.cpp, optimizer.py.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterator

_IN_FLOAT32 = (
    "layer_norm",
    "native_layer_norm",
    "group_norm",
    "softmax.int",
    "_softmax",
    "log_softmax.int",
    "_log_softmax",
    "softplus",
    "norm.Scalar",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "exp",
    "log",
    "rsqrt",
    "reciprocal",
    "sum",
    "sum.dim_IntList",
    "cumsum",
    "cosine_similarity",
)
"""Ops that autocast runs in float32 for CUDA and leaves alone for a CPU."""
_CHOOSE_LISTS = ("torch.optim.optimizer", "torch.utils._foreach_utils", "torch.optim.swa_utils")
_DEVICES = "_get_foreach_kernels_supported_devices"
_kept: list = []


def take(torch: Any) -> None:
    """Register the ways of attention, dropout and autocast; once in a process."""
    if _kept:
        return
    library = torch.library.Library("aten", "IMPL")
    _kept.append(library)
    library.impl("scaled_dot_product_attention", _attention(torch), "AutogradCPU")
    library.impl("dropout", _dropout(torch), "AutogradCPU")
    for name in _IN_FLOAT32:
        with contextlib.suppress(Exception):  # registered already, or unknown to this torch
            library.impl(name, _in_float32(torch, name), "AutocastCPU")
    torch._VF.lstm = _lstm(torch, torch._VF.lstm)


@contextlib.contextmanager
def lists_of_parameters() -> Iterator[None]:
    """Have optimizers and gradient clipping walk over lists of tensors where they would on a GPU."""
    found = [sys.modules[name] for name in _CHOOSE_LISTS if hasattr(sys.modules.get(name), _DEVICES)]
    originals = [(module, getattr(module, _DEVICES)) for module in found]
    for module, original in originals:
        setattr(module, _DEVICES, lambda original=original: [*original(), "cpu"])
    try:
        yield
    finally:
        for module, original in originals:
            setattr(module, _DEVICES, original)


def _attention(torch: Any) -> Any:
    aten = torch.ops.aten

    def attention(
        query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
    ):
        if enable_gqa and key.shape[-3] != query.shape[-3]:
            times = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
        is_usual = query.dim() == 4 and not query.is_nested and query.shape[-1] == value.shape[-1]
        flash = getattr(aten, "_scaled_dot_product_flash_attention_for_cpu", None)
        if flash is None or not is_usual:
            plain = aten._scaled_dot_product_attention_math
            return plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)[0]
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                hidden = attn_mask.logical_not()
                attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(hidden, float("-inf"))
            attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
        return flash(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[0]

    return attention


def _lstm(torch: Any, original: Any) -> Any:
    def lstm(tensor, state, weights, *args):
        if isinstance(state, tuple) and weights[0].dtype is torch.float32:
            tensor, state = tensor.float(), tuple(one.float() for one in state)
        return original(tensor, state, weights, *args)

    return lstm


def _dropout(torch: Any) -> Any:
    aten = torch.ops.aten

    def dropout(tensor, p, train):
        if p == 0 or not train or tensor.numel() == 0:
            return tensor
        return aten.native_dropout(tensor, p, train)[0]

    return dropout


def _in_float32(torch: Any, name: str) -> Any:
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def widened(item: Any) -> Any:
        if isinstance(item, torch.Tensor) and item.dtype in (torch.bfloat16, torch.float16):
            return item.float()
        return item

    def in_float32(*args, **kwargs):
        with torch.autocast("cpu", enabled=False):
            return op(*[widened(one) for one in args], **{key: widened(one) for key, one in kwargs.items()})

    return in_float32
