"""Learns the loop: which loader trains, which modules own what is stepped, what the script sets itself."""

from __future__ import annotations

import platform
import sys
from typing import Any

from . import facts, knobs
from .loader_info import LoaderInfo, means
from .loaders import LoaderWatch
from .originals import time
from .own import AutocastWatch
from .ranks import Ranks
from .roots import RootFinder
from .steps import StepWatch

_LEARN_BATCHES = 8
_LEARN_TIME_S = 5.0
_SILENT_STEPS = 32
"""Steps of one optimizer in a row without a fetch, after which the loop is taken to make its own batches."""
_MAX_LISTED = 64


class Learner:
    """Credits loaders with the steps that follow their batches, until the loop is known.

    Args:
        loaders, steps, roots, ranks, autocasts: what watches the process.

    Attributes:
        training: the training loader, None before it is known and for a loop without one.
        device: of the roots, as plain facts.
        complete: whether the loop is known.
    """

    def __init__(
        self,
        loaders: LoaderWatch,
        steps: StepWatch,
        roots: RootFinder,
        ranks: Ranks,
        autocasts: AutocastWatch,
    ) -> None:
        self._loaders, self._steps, self._roots = loaders, steps, roots
        self._ranks, self._autocasts = ranks, autocasts
        self.training: LoaderInfo | None = None
        self.device: dict = {"type": "cpu", "name": "cpu", "memory_bytes": None}
        self.complete = False
        self._address: dict | None = None
        self._since_step: list = []
        self._iterations = self._silent_steps = 0
        self._fetched = False
        self._first_step_at: float | None = None

    def loader_built(self, info: LoaderInfo) -> None:
        """A loader was constructed, perhaps the training loader anew for the next epoch."""
        if self._address is not None and means(self._address, info):
            self.training = info

    def fetched(self, info: LoaderInfo) -> None:
        """The script took a batch from a loader."""
        self._fetched = True
        if not self.complete:
            self._since_step.append(info)

    def stepped(self, optimizer: Any) -> bool:
        """Credit the loaders whose batches this step consumed, the last fetched most.

        Returns:
            Whether enough is known to conclude.
        """
        self._first_step_at = self._first_step_at or time.perf_counter()
        self._roots.stepped(optimizer)
        if self._since_step:
            self._silent_steps = 0
        elif self._steps.is_first(optimizer):
            self._silent_steps += 1
        if self._since_step or (self._steps.is_first(optimizer) and self._makes_own_batches()):
            self._iterations += 1
        for info in set(self._since_step):
            info.credits += 1.0 if info is self._since_step[-1] else 0.5
        self._since_step.clear()
        seconds = time.perf_counter() - self._first_step_at
        return self._iterations >= _LEARN_BATCHES or (self._iterations >= 3 and seconds > _LEARN_TIME_S)

    def conclude(self) -> list:
        """Fix what the first batches showed and return the roots."""
        self.complete = True
        self._roots.stop()
        self._autocasts.stop()
        trained = [info for info in self._loaders.infos if info.credits]
        if not self._trains_from_memory():
            self.training = max(trained, key=lambda info: info.credits, default=None)
        if self.training is not None:
            self._address = self._loaders.address_of(self.training)
        roots: list = self._roots.roots()
        self.device = self._roots.device_facts()
        return roots

    def latest(self) -> LoaderInfo | None:
        """Return the loader that was fetched from last since a step."""
        return self._since_step[-1] if self._since_step else None

    def batches_per_step(self) -> int:
        """Return the loop batches per optimizer step.

        Without a loader, a batch is what has a backward pass and a forward of the root of its own.
        """
        most_steps = max(self._steps.steps.values(), default=1)
        if self.training is not None:
            return max(1, round(self.training.fetches / most_steps))
        forwards = max((root.forwards for root in self._roots.roots()), default=self._steps.backwards)
        return max(1, round(min(self._steps.backwards, forwards) / most_steps))

    def has_own_autocast(self) -> bool:
        """Return whether the script chooses a precision for its modules by itself."""
        return bool(self._autocasts.dtype) or any(root.autocast_dtype for root in self._roots.roots())

    def discovery(self, roots: list, training: LoaderInfo | None) -> dict:
        """Return the plain facts of a Discovery record."""
        torch = sys.modules["torch"]
        return {
            "complete": self.complete,
            "loaders": [
                {
                    "address": self._loaders.address_of(info),
                    "training": info is training,
                    **facts.of_loader(info),
                }
                for info in self._loaders.infos[:_MAX_LISTED]
            ],
            "roots": [root.facts() for root in roots[:_MAX_LISTED]],
            "roots_cover_step": self._roots.cover_step(),
            "optimizers": self._steps.seen()[:_MAX_LISTED],
            "batches_per_step": self.batches_per_step(),
            "scales_gradients": self._steps.scales_gradients,
            "autocast_dtype": self._autocasts.dtype,
            "compiles": knobs.graphs_captured() > 0,
            "world_size": self._ranks.world_size,
            "float32_matmul_precision": knobs.matmul_precision(torch, self.device["type"]),
            **knobs.tf32_in_use(torch, self._roots.device()),
            "benchmarks_cudnn": bool(torch.backends.cudnn.benchmark),
            "device_type": self.device["type"],
            "bf16_native": facts.bf16_native(torch, self._roots.device()),
            "torch_version": str(torch.__version__),
            "python_version": platform.python_version(),
        }

    def _makes_own_batches(self) -> bool:
        return not self._fetched or self._trains_from_memory()

    def _trains_from_memory(self) -> bool:
        """Return whether the script read its loader once and now steps without it."""
        return self._silent_steps > _SILENT_STEPS
