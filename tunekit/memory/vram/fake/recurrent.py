"""Recurrent layers on fake cuda tensors, by cuDNN's kernels.

A CPU-only build of torch takes an LSTM apart into a cell per time step, which keeps other things than cuDNN's
single kernel does; and torch's fake version of that kernel keeps nothing at all for the backward pass. Here
its reserve space, of elements of the input's kind:

    elements of a layer's state per sample, time step and direction: 5 hidden for an LSTM, 6 hidden for a GRU
    elements between layers, for each layer but the last: 1 hidden

Source: the sizes that cuDNN returned in pytorch/pytorch issue 2895, 736,000,000 B for an LSTM and
864,000,000 B for a GRU of 4 layers with 320 hidden features, which are 23 and 27 times 4 B x 320 x 25,000
samples and time steps. Measured with cuDNN 6 in fp32: later versions and half precision may keep more, a few
percent of a model's activations. Not known, and so left out: cuDNN's workspace, its dropout masks, and the
state of its random numbers.

Packed sequences, LSTMs with projections and plain RNNs are taken apart as torch does it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_impls import op_implementations_dict

_LSTM, _GRU = 2, 3
"""cuDNN's numbers of the kinds."""
_STATE_ELEMENTS = {_LSTM: 5, _GRU: 6}
_aten = torch.ops.aten
_Tensors = Sequence[torch.Tensor]


def reserve_elements(mode: int, layers: int, directions: int, hidden: int, steps: int) -> int:
    """Return what a recurrent layer keeps for its backward pass, in elements.

    Args:
        mode: 2 for an LSTM, 3 for a GRU.
        layers: of it.
        directions: 2 if it reads both ways.
        hidden: features of its state.
        steps: samples times time steps.
    """
    return steps * hidden * directions * (_STATE_ELEMENTS.get(mode, 0) * layers + layers - 1)


def keep_what_cudnn_keeps() -> None:
    """Have fake tensors know cuDNN's recurrent kernels, forward and backward."""
    op_implementations_dict[_aten._cudnn_rnn.default] = _forward
    op_implementations_dict[_aten._cudnn_rnn_backward.default] = _backward


def recurrent_as_on_a_gpu(library: torch.library.Library) -> None:
    """Have torch take cuDNN's kernels for cuda tensors; a build with CUDA does so by itself."""
    if not torch.backends.cuda.is_built():
        library.impl("lstm.input", _lstm, "AutogradCUDA")
        library.impl("gru.input", _gru, "AutogradCUDA")


def flat_weights(module: nn.Module) -> list[nn.Parameter]:
    """Return the weights that lie one behind another in one block on a GPU; empty for other layers."""
    if not isinstance(module, nn.RNNBase):
        return []
    return [weight for weight in module._flat_weights if isinstance(weight, nn.Parameter)]


def _lstm(
    inputs: torch.Tensor,
    hx: _Tensors,
    params: _Tensors,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    shape = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
    has_projections = hx[0].shape[-1] != hx[1].shape[-1]
    if has_projections:
        taken_apart: tuple[torch.Tensor, ...] = _aten.lstm.input.decompose(inputs, hx, params, *shape)
        return taken_apart[0], taken_apart[1], taken_apart[2]
    output, hidden, cell = _by_cudnn(_LSTM, inputs, hx[0], hx[1], params, *shape)
    return output, hidden, cell


def _gru(
    inputs: torch.Tensor, hx: torch.Tensor, params: _Tensors, *shape: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    output, hidden, _ = _by_cudnn(_GRU, inputs, hx, None, params, *shape)
    return output, hidden


def _by_cudnn(
    mode: int,
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor | None,
    params: _Tensors,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if torch.is_autocast_enabled("cuda"):
        half = torch.get_autocast_dtype("cuda")
        inputs, hidden, params = inputs.to(half), hidden.to(half), [one.to(half) for one in params]
        cell = None if cell is None else cell.to(half)
    # cuDNN reads time steps first: the copy lasts as long as the kernel.
    copied = inputs.detach().transpose(0, 1).contiguous() if batch_first else None
    output, last, last_cell, _, _ = _aten._cudnn_rnn(
        inputs,
        params,
        4 if has_biases else 2,
        _whole(params[0]),
        hidden,
        cell,
        mode,
        hidden.shape[-1],
        0,
        num_layers,
        batch_first,
        dropout,
        train,
        bidirectional,
        [],
        None,
    )
    del copied
    return output, last, last_cell


def _whole(weight: torch.Tensor) -> torch.Tensor:
    """Return all of the block in which a weight lies."""
    elements = weight.untyped_storage().nbytes() // weight.element_size()
    return weight.detach().as_strided((elements,), (1,), 0)


def _forward(fake_mode: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """What `_cudnn_rnn` returns: output, last hidden and cell state, reserve, weights."""
    inputs, weights, _, whole, hidden, cell, mode, features, projected, layers, batch_first = args[:11]
    is_trained, is_bidirectional, lengths = args[12:15]
    directions = 2 if is_bidirectional else 1
    out_features = (projected or features) * directions
    with fake_mode:
        if lengths:
            steps, samples = int(inputs.shape[0]), int(lengths[0])
            output = inputs.new_empty((steps, out_features))
        else:
            times, samples = (inputs.shape[1], inputs.shape[0]) if batch_first else inputs.shape[:2]
            steps = times * samples
            output = inputs.new_empty((times, samples, out_features))
            output = output.transpose(0, 1) if batch_first else output
        last = hidden.new_empty((layers * directions, samples, projected or features))
        last_cell = hidden.new_empty(0 if cell is None else tuple(cell.shape))
        kept = reserve_elements(mode, layers, directions, features, steps) if is_trained else 0
        reserve = inputs.new_empty(kept * inputs.element_size(), dtype=torch.uint8)
        if whole is None:
            whole = inputs.new_empty(sum(weight.numel() for weight in weights))
    return output, last, last_cell, reserve, whole


def _backward(fake_mode: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """What `_cudnn_rnn_backward` returns: gradients of input, states and weights."""
    inputs, weights, _, _, hidden, cell = args[:6]
    wants_inputs, wants_hidden, wants_cell, wants_weights = (
        args[21] if len(args) > 21 else kwargs["output_mask"]
    )
    with fake_mode:
        of_inputs = torch.empty_like(inputs) if wants_inputs else None
        of_hidden = torch.empty_like(hidden) if wants_hidden else None
        of_cell = torch.empty_like(cell) if wants_cell and cell is not None else None
        of_weights: list[torch.Tensor] = []  # parts of one block
        if wants_weights:
            sizes = [weight.numel() for weight in weights]
            parts = weights[0].new_empty(sum(sizes)).split(sizes)
            of_weights = [part.view(one.shape) for part, one in zip(parts, weights, strict=True)]
    return of_inputs, of_hidden, of_cell, of_weights
