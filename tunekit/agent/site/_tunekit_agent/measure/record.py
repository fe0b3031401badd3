"""The plain facts of a finished measurement, for the parent's record of the loop."""

from __future__ import annotations

from typing import Any

from ..loader import batches
from ..loader.info import epoch_of
from ..loader.storages import Storages, is_tensor
from ..model import knobs
from ..model.loop import Loop
from ..model.steps import StepWatch
from ..originals import os
from . import device
from .estimates import trend_relative
from .steady import LoopClock

_MAX_LETTERS = 200


def loop_facts(loop: Loop, steps: StepWatch, clock: LoopClock, others: dict) -> dict:
    """Return what is known of the loop, with the facts that only the observer knows."""
    training = loop.training.facts if loop.training else {}
    return {
        "device": loop.device_facts,
        "world_size": loop.world_size,
        "has_loader": loop.training is not None,
        "batch_size": training.get("batch_size"),
        "num_workers": training.get("num_workers", 0),
        "prefetch_factor": training.get("prefetch_factor"),
        "pin_memory": training.get("pin_memory", False),
        "persistent_workers": training.get("persistent_workers", False),
        "steady_batches": clock.steady.batches,
        "steady_samples": clock.steady.samples,
        "steady_time_s": clock.steady.time_s,
        "rate_interval_relative": clock.interval,
        "rate_trend_relative": trend_relative(clock.steady.durations),
        "stop_reason": clock.stop_reason,
        "discarded_batches": clock.discarded_batches,
        "parts": clock.parts(),
        "boundary_s": clock.boundary_s,
        "boundary_deviation_s": clock.boundary_deviation_s,
        "boundaries_seen": clock.boundaries_seen,
        **_of_epochs(loop, clock),
        "compile_graphs": knobs.graphs_captured(),
        "float32_matmul_precision": knobs.matmul_precision(loop.torch, loop.device_type),
        "threads": thread_facts(loop.torch, loop.request.thread_variables),
        **device.memory_facts(),
        "losses": steps.loss_values(),
        **others,
    }


def thread_facts(torch: Any, variables: list) -> dict:
    """Return the plain facts of a Threads record, of the thread that calls.

    Args:
        torch: the module, as the script imported it.
        variables: names to report, where they are set by now, whoever set them.
    """
    values = {name: os.environ[name][:_MAX_LETTERS] for name in variables if name in os.environ}
    return {
        "intra_op": torch.get_num_threads(),
        "inter_op": torch.get_num_interop_threads(),
        "variables": values,
    }


def _of_epochs(loop: Loop, clock: LoopClock) -> dict:
    samples, batches = epoch_of(loop.training)
    if batches is None and samples is None:
        samples, batches = clock.whole_epoch
    elif samples is not None:
        samples = round(samples * loop.samples_ratio)
    elif clock.steady.batches:
        samples = round(batches * clock.steady.samples / clock.steady.batches)
    return {"epoch_samples": samples, "epoch_batches": batches}


def model_bytes(roots: list, optimizers: list) -> dict | None:
    """Return the plain facts of a ModelBytes record, None without a module.

    Storages on the first root's device count, each once; a sharded parameter counts with its local part.
    Where a root has no gradients, as after zero_grad, they are predicted: the bytes of its parameters that
    require one, in the parameter's dtype.
    """
    modules = [root.module for root in roots]
    here = device.of_tensors(one for module in modules for one in module.parameters())
    if here is None:
        return None
    parameters, trained, buffers, states, gradients, predicted = (Storages(here) for _ in range(6))
    for module in modules:
        has_gradients = any(parameter.grad is not None for parameter in module.parameters())
        for parameter in module.parameters():
            parameters.add(parameter)
            if parameter.requires_grad:
                trained.add(parameter)
            if parameter.grad is not None:
                gradients.add(parameter.grad)
            elif parameter.requires_grad and not has_gradients:
                predicted.add(parameter)
        for buffer in module.buffers():
            buffers.add(buffer)
    for tensor in states_of(optimizers):
        states.add(tensor)
    return {
        "parameters_bytes": parameters.bytes,
        "buffers_bytes": buffers.bytes,
        "frozen_bytes": parameters.bytes - trained.bytes,
        "gradients_bytes": gradients.bytes + predicted.bytes,
        "gradients_are_predicted": predicted.bytes > 0,
        "optimizer_bytes": states.bytes,
    }


def states_of(optimizers: list) -> list:
    """Return the tensors in optimizers' states."""
    states = [list(getattr(optimizer, "state", {}).values()) for optimizer in optimizers]
    return [leaf for _, leaf in batches.walk(states) if is_tensor(leaf)]
