"""What the stepped modules and their optimizers take on the training device."""

from __future__ import annotations

from typing import Any

from ..loader import batches
from ..loader.storages import Storages, data_bytes, is_tensor


def of_model(roots: list, optimizers: list) -> dict | None:
    """Return the plain facts of a ModelBytes record, None without a module.

    Storages on the first root's device count, each once; a sharded parameter counts with its local part.
    Where a root has no gradients, as after zero_grad, they are predicted: the bytes of its parameters that
    require one, in the parameter's dtype.
    """
    modules = [root.module for root in roots]
    device = next((one.device for module in modules for one in module.parameters()), None)
    if device is None:
        return None
    parameters, buffers, states = Storages(device), Storages(device), Storages(device)
    for module in modules:
        for parameter in module.parameters():
            parameters.add(parameter)
        for buffer in module.buffers():
            buffers.add(buffer)
    for optimizer in optimizers:
        _add_state(states, optimizer)
    gradients_bytes, are_predicted = _gradients_bytes(modules, device)
    return {
        "parameters_bytes": parameters.bytes,
        "buffers_bytes": buffers.bytes,
        "gradients_bytes": gradients_bytes,
        "gradients_are_predicted": are_predicted,
        "optimizer_bytes": states.bytes,
    }


def _add_state(states: Storages, optimizer: Any) -> None:
    for _, leaf in batches.walk([list(getattr(optimizer, "state", {}).values())]):
        if is_tensor(leaf):
            states.add(leaf)


def _gradients_bytes(modules: list, device: Any) -> tuple:
    present = Storages(device)
    predicted = 0
    known: set = set()
    for module in modules:
        own = [one for one in module.parameters() if one.device == device and id(one) not in known]
        known.update(id(one) for one in own)
        gradients = [one.grad for one in own if one.grad is not None]
        for gradient in gradients:
            present.add(gradient)
        if not gradients:
            predicted += sum(data_bytes(one) for one in own if one.requires_grad)
    return present.bytes + predicted, predicted > 0
