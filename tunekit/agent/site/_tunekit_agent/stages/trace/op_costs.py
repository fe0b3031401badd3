"""Arithmetic and memory traffic of one op, from the shapes of its tensors.

Only matmuls, convolutions, attention and recurrent layers have arithmetic, two operations per multiply-add,
by torch's own formulas where these are right; all other ops are taken to be limited by memory bandwidth.
Masked attention scores count too.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, Callable

WRITES_NOTHING = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_")
_CONVOLUTION_ARGS = {"convolution": (0, 1, 8), "convolution_backward": (1, 2, 9)}
"""Positions of the input, the weight and the number of groups."""


def flop_formulas(torch: Any) -> dict[Any, Callable]:
    """Return a formula per op packet, called with the op's arguments and its result as `out_val`."""
    aten = torch.ops.aten
    formulas = dict(importlib.import_module(f"{torch.__name__}.utils.flop_counter").flop_registry)
    own = {"convolution_backward": _convolution_backward}
    for suffix, per_weight in (("", 2), ("_backward", 4)):
        own[f"mkldnn_rnn_layer{suffix}"] = own[f"_cudnn_rnn{suffix}"] = _recurrent(per_weight)
        flash = f"_scaled_dot_product_flash_attention{suffix}"
        own[flash.replace("attention", "attention_for_cpu")] = formulas.get(getattr(aten, flash, None))
    formulas.update((getattr(aten, name), formula) for name, formula in own.items() if hasattr(aten, name))
    return formulas


def full_name(name: str, args: tuple) -> str:
    """Add to a convolution's name what decides its speed, such as "convolution.depthwise.nhwc"."""
    if name not in _CONVOLUTION_ARGS:
        return name
    taken, weight, groups = (args[place] for place in _CONVOLUTION_ARGS[name])
    if groups > 1:
        name += ".depthwise" if weight.shape[1] == 1 else ".grouped"
    is_channels_last = len(taken.shape) >= 4 and taken.shape[1] > 1 and taken.stride(1) == 1
    return name + ".nhwc" if is_channels_last else name


def moved_bytes(name: str, taken: list, made: list) -> int:
    """Return the bytes that an op reads and writes, each tensor counted once."""
    if name in WRITES_NOTHING:
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


def _convolution_backward(*args: Any, **_: Any) -> int:
    """Unlike torch's formula, this one accounts for groups."""
    is_transposed, wanted = bool(args[7]), args[10]
    one = _convolution(args[1] if is_transposed else args[0], args[2])
    return one * (bool(wanted[0]) + bool(wanted[1]))


def _recurrent(per_weight: int) -> Callable:
    """Return the formula of a recurrent layer: so many operations per weight and time step."""

    def formula(*args: Any, **_: Any) -> int:
        weights = args[1] if isinstance(args[1], (list, tuple)) else args[1:5]
        matrices = sum(_numel(one) for one in weights if one is not None and len(one.shape) == 2)
        return per_weight * int(args[0].shape[0]) * int(args[0].shape[1]) * matrices

    return formula
