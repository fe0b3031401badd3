"""Arithmetic and memory traffic of one op, from the shapes of what it takes and gives.

Counted is what matmuls, convolutions, attention and recurrent layers multiply and add, two operations for
each pair; everything else is taken to be bound by memory. Attention counts whole squares of scores, also
where a mask hides half of them.
"""

from __future__ import annotations

import math
from typing import Any

_WRITES_NOTHING = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_")
_HEADS_AFTER_PLACES = ("_efficient_attention", "_flash_attention")
"""Attention on tensors of (batch, places, heads, features); on all others heads come second."""
_BACKWARD_PER_FORWARD = 2.5
"""Of attention that keeps no scores: five products of their size where forward has two."""


def flops(name: str, args: tuple, made: Any) -> int:
    """Return the floating-point operations of an op.

    Args:
        name: without namespace and overload, such as "addmm".
    """
    if name in ("mm", "bmm"):
        return 2 * _numel(args[0]) * int(args[1].shape[-1])
    if name in ("addmm", "baddbmm"):
        return 2 * _numel(args[1]) * int(args[2].shape[-1])
    if name in ("convolution", "_convolution", "cudnn_convolution", "mkldnn_convolution"):
        is_transposed = name in ("convolution", "_convolution") and bool(args[6])
        return _convolution(args[0] if is_transposed else made, args[1])
    if name == "convolution_backward":
        is_transposed, wanted = bool(args[7]), args[10]
        one = _convolution(args[1] if is_transposed else args[0], args[2])
        return one * (bool(wanted[0]) + bool(wanted[1]))
    if name.startswith(("_scaled_dot_product", *_HEADS_AFTER_PLACES)):
        return _attention(name, args)
    if name in ("mkldnn_rnn_layer", "_cudnn_rnn", "mkldnn_rnn_layer_backward", "_cudnn_rnn_backward"):
        return _recurrent(name, args)
    return 0


def moved_bytes(name: str, taken: list, made: list) -> int:
    """Return the bytes that an op reads and writes, each tensor once."""
    if name in _WRITES_NOTHING:
        return 0
    return sum(_bytes(tensor) for tensor in taken) + sum(_bytes(tensor) for tensor in made)


def _bytes(tensor: Any) -> int:
    """Return what a tensor's elements lie in: an expanded one's fewer than it has."""
    try:
        return min(_numel(tensor) * tensor.element_size(), int(tensor.untyped_storage().nbytes()))
    except Exception:  # one without a storage
        return 0


def _numel(tensor: Any) -> int:
    return int(tensor.numel())


def _convolution(positions: Any, weight: Any) -> int:
    """Return the operations where every weight meets every position of one side."""
    return 2 * int(positions.shape[0]) * math.prod(map(int, positions.shape[2:])) * _numel(weight)


def _attention(name: str, args: tuple) -> int:
    tensors = [one for one in args if hasattr(one, "shape") and len(one.shape) == 4]
    is_backward = name.endswith("_backward")
    query, key, value = tensors[1:4] if is_backward else tensors[:3]
    places = int(key.shape[1 if name.startswith(_HEADS_AFTER_PLACES) else 2])
    forward = 2 * math.prod(map(int, query.shape[:3])) * places * (int(query.shape[3]) + int(value.shape[3]))
    return int(_BACKWARD_PER_FORWARD * forward) if is_backward else forward


def _recurrent(name: str, args: tuple) -> int:
    steps = int(args[0].shape[0]) * int(args[0].shape[1])
    weights = args[1] if isinstance(args[1], (list, tuple)) else args[1:5]
    forward = 2 * steps * sum(_numel(one) for one in weights if one is not None and len(one.shape) == 2)
    return 2 * forward if name.endswith("_backward") else forward
