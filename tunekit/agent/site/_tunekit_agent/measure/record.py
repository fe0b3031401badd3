"""The plain facts of a finished measurement, for the parent's record of the loop."""

from __future__ import annotations

import math
from typing import Any

from ..loader.info import LoaderInfo, epoch_of
from ..model import knobs
from ..model.loop import Loop
from ..model.steps import StepWatch
from . import device
from .steady import LoopClock


def loop_facts(loop: Loop, steps: StepWatch, clock: LoopClock, others: dict) -> dict:
    """Return what is known of the loop, with the facts that only the observer knows."""
    training = loop.training.facts if loop.training else {}
    losses: list[Any] = [_finite(loss) for loss in steps.loss_values()]
    return {
        "device": loop.device_facts,
        "world_size": loop.world_size,
        "has_loader": loop.training is not None,
        "batch_size": training.get("batch_size"),
        "num_workers": training.get("num_workers", 0),
        "prefetch_factor": training.get("prefetch_factor"),
        "pin_memory": training.get("pin_memory", False),
        "persistent_workers": training.get("persistent_workers", False),
        "steady_batches": clock.steady_batches,
        "steady_samples": clock.steady_samples,
        "steady_time_s": clock.steady_time_s,
        "rate_interval_relative": clock.interval,
        "rate_trend_relative": clock.trend,
        "stop_reason": clock.stop_reason,
        "discarded_batches": clock.discarded_batches,
        "parts": clock.parts(),
        "boundary_s": clock.boundary_s,
        "boundaries_seen": clock.boundaries_seen,
        **_of_epochs(loop.training, clock),
        "compile_graphs": knobs.graphs_captured(),
        "float32_matmul_precision": knobs.matmul_precision(loop.torch, loop.device_type),
        **device.memory_facts(),
        "loss_first": losses[0] if losses else None,
        "loss_last": _finite(steps.last_loss_value()),
        "losses": losses,
        **others,
    }


def _of_epochs(training: LoaderInfo | None, clock: LoopClock) -> dict:
    samples, batches = epoch_of(training)
    if samples is None and batches is not None and clock.steady_batches:
        samples = round(batches * clock.steady_samples / clock.steady_batches)
    return {"epoch_samples": samples, "epoch_batches": batches}


def _finite(loss: float | None) -> float | None:
    """Return the loss, None for NaN and infinities, which JSON can't hold."""
    return loss if loss is None or math.isfinite(loss) else None
