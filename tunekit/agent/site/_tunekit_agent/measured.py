"""The plain facts of a finished measurement, for the parent's record of the loop."""

from __future__ import annotations

import sys
from typing import Any

from . import facts, knobs
from .learn import Learner
from .loader_info import LoaderInfo
from .loaders import LoaderWatch
from .ranks import Ranks
from .roots import RootFinder
from .steady import LoopClock
from .steps import StepWatch


def loop_facts(learner: Learner, ranks: Ranks, steps: StepWatch, clock: LoopClock, others: dict) -> dict:
    """Return what the watches know of the loop.

    Args:
        learner: of the observer, as are the next three.
        ranks: which rank this is.
        steps: what the optimizers did.
        clock: the steady window.
        others: facts that only the observer knows.
    """
    return {
        "device": learner.device,
        "world_size": ranks.world_size,
        **_of_loader(learner.training),
        **_of_window(clock),
        **_of_epochs(learner.training, clock),
        "compile_graphs": knobs.graphs_captured(),
        "float32_matmul_precision": knobs.matmul_precision(sys.modules["torch"], learner.device["type"]),
        **facts.of_device_memory(),
        **_of_losses(steps),
        **others,
    }


def applied_facts(
    address: dict | None, loaders: LoaderWatch, training: LoaderInfo | None, roots: RootFinder
) -> dict:
    """Return what really holds in this process, for the parent to compare with what it asked.

    Args:
        address: of the training loader, as the parent gave it; None at the baseline.
        loaders: of the observer.
        training: the loader that trains.
        roots: of the observer.
    """
    loader = training.facts if training else {}
    return {
        **{name: loader.get(name) for name in knobs.LOADER_KNOBS},
        "addressed": address is None or (training is not None and loaders.is_addressed(training)),
        "roots_applied": [seen.facts() for seen in roots.applied],
    }


def _of_loader(training: LoaderInfo | None) -> dict:
    loader = training.facts if training else {}
    return {
        "has_loader": training is not None,
        "batch_size": loader.get("batch_size"),
        "num_workers": loader.get("num_workers", 0),
        "prefetch_factor": loader.get("prefetch_factor"),
        "pin_memory": loader.get("pin_memory", False),
        "persistent_workers": loader.get("persistent_workers", False),
    }


def _of_window(clock: LoopClock) -> dict:
    return {
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
    }


def _of_epochs(training: LoaderInfo | None, clock: LoopClock) -> dict:
    samples, batches = facts.epoch_of(training)
    if samples is None and batches is not None and clock.steady_batches:
        samples = round(batches * clock.steady_samples / clock.steady_batches)
    return {"epoch_samples": samples, "epoch_batches": batches}


def _of_losses(steps: StepWatch) -> dict:
    losses: list[Any] = [facts.finite(loss) for loss in steps.loss_values()]
    return {
        "loss_first": losses[0] if losses else None,
        "loss_last": facts.finite(steps.last_loss_value()),
        "losses": losses,
    }
