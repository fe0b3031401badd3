"""The training loop: its loader, the modules with the optimized parameters, the script's own settings."""

from __future__ import annotations

import platform
import sys
import threading
from collections import deque
from statistics import median_high
from typing import Any

from ..loader.info import LoaderInfo, matches
from ..loader.watch import LoaderWatch
from ..measure import device
from ..originals import time
from ..process import Ranks
from ..request import Request
from . import knobs
from .knobs import AutocastWatch
from .roots import RootFinder
from .steps import StepWatch

_LEARN_BATCHES = 8
_LEARN_TIME_S = 5.0
_SILENT_STEPS = 32
"""Steps of one optimizer without a fetch after which the loop is assumed to build its own batches."""
_LATEST_STEPS, _MIN_STEPS = 10, 3
"""Recent steps that batches per step are counted over; gradient accumulation may grow."""
_MAX_LISTED = 64


class Loop:
    """The script's training loop, learnt from its first batches, as the stages see it.

    A loader is credited with the steps that follow its batches.

    Args:
        loaders, steps, roots, ranks, autocasts: what watches the process.

    Attributes:
        training: the training loader, None before it is known and for a loop without one.
        partners: addresses of other loaders that are read in each loop batch too.
        samples_ratio: samples of a loop batch over those from the training loader.
        reads_ahead: whether a thread of the script takes the training loader's batches, and hands them over.
        device_facts: type, name and memory of the roots' device.
        complete: whether the loop is known.
        own_batch_samples: samples in a loop batch of a script without a loader.
        step_s: seconds per loop batch of the steady window.
        batch_shm_bytes: what one full batch takes of /dev/shm.
        dry: skips arithmetic, for what is traced on a CPU; None where the parent wants it computed.
    """

    def __init__(
        self,
        request: Request,
        loaders: LoaderWatch,
        steps: StepWatch,
        roots: RootFinder,
        ranks: Ranks,
        autocasts: AutocastWatch,
    ) -> None:
        self.request = request
        self._loaders, self._steps, self._roots = loaders, steps, roots
        self._ranks, self._autocasts = ranks, autocasts
        self.training: LoaderInfo | None = None
        self.partners: list = []
        self.samples_ratio = 1.0
        self.reads_ahead = False
        self.device_facts: dict = {"type": "cpu", "name": "cpu", "memory_bytes": None}
        self.complete = False
        self.own_batch_samples = request.samples_per_step or 1
        self.step_s = 0.0
        self.batch_shm_bytes = 0
        self.dry: Any = None
        self._address: dict | None = None
        self._since_step: list = []
        self._order: list = []  # loaders by their fetches, while they are learnt
        self._latest: deque = deque(maxlen=_LATEST_STEPS)  # batches of each step
        self._unstepped = 0
        self._leading = 0  # id of the optimizer that steps most
        self._iterations = self._silent_steps = 0
        self._fetched = False
        self._first_step_at: float | None = None
        self._batches_per_step: int | None = None

    # --- learning ------------------------------------------------------------------------------

    def epoch_started(self, info: LoaderInfo) -> None:
        """Follow a training loader that is built again; the same line may build one for evaluation."""
        if self.training is None or self._address is None or info.fetches:
            return
        data, trained = (
            [one.facts.get(name) for name in ("dataset", "dataset_samples")] for one in (info, self.training)
        )
        is_like_it = data == trained or any(module.training for module in self.modules())
        if is_like_it and matches(self._address, info):
            self.training, info.credits = info, 1.0

    def fetched(self, info: LoaderInfo) -> None:
        self._fetched = True
        info.thread = threading.get_ident()
        if not self.complete:
            self._since_step.append(info)
            self._order.append(info)
        self._unstepped += info is self.training

    def stepped(self, optimizer: Any) -> bool:
        """Credit the loaders whose batches this step consumed, the last fetched most.

        Returns:
            Whether enough is known to conclude.
        """
        if self._first_step_at is None:
            self._first_step_at = time.perf_counter()
            self._order = self._order[-len(set(self._since_step)) :]  # not what a script looks at before
        self._roots.stepped(optimizer)
        threads = {info.thread for info in self._loaders.infos if info.fetches}
        is_fed = bool(self._since_step or threads - {threading.get_ident()})  # a thread may be far ahead
        is_first = self._steps.is_first(optimizer)
        if is_fed:
            self._silent_steps = 0
        elif is_first:
            self._silent_steps += 1
        if is_fed or (is_first and (not self._fetched or self._silent_steps > _SILENT_STEPS)):
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
        if self._silent_steps <= _SILENT_STEPS:
            self.training = max(trained, key=lambda info: info.credits, default=None)
        if self.training is not None:
            self._find_partners(self.training)
            self._address = self._loaders.address_of(self.training)
            self.reads_ahead = self.training.thread != threading.get_ident()
            if self.reads_ahead:
                self.own_batch_samples = round(self.training.samples / self.training.fetches)
        self.device_facts = self._roots.device_facts()
        self._batches_per_step = self._count_batches_per_step()
        self._leading = max(self._steps.steps, key=self._steps.steps.__getitem__, default=0)
        return self._roots.roots()

    def _find_partners(self, trained: LoaderInfo) -> None:
        """Find what each loop batch takes from every loader; the training loader has the most samples."""
        others = self._read_with(trained)
        together = [trained, *(one for one in others if trained in self._read_with(one))]
        together.sort(key=self._order.index)
        # Samples since just before the first step: a script may read a loader for its mean at first.
        taken = {one: one.samples / one.fetches * self._order.count(one) for one in set(self._order)}
        training = max(together, key=lambda info: (self._loaders.is_addressed(info), taken[info]))
        self.training = training
        partners = self._read_with(training)
        self.partners = [self._loaders.address_of(info) for info in partners]
        for info in (training, *partners):
            info.facts["step_samples"] = taken[info] / self._order.count(training)
        self.samples_ratio = 1 + sum(taken[info] for info in partners) / taken[training]

    def _read_with(self, info: LoaderInfo) -> list:
        """Return the loaders that were read between any two of its batches."""
        places = [place for place, one in enumerate(self._order) if one is info]
        between = [set(self._order[a + 1 : b]) for a, b in zip(places, places[1:])]  # noqa: B905, RUF007 - Python 3.9
        return list(set.intersection(*between)) if len(between) > 1 else []

    def is_partner(self, info: LoaderInfo) -> bool:
        """Return whether each loop batch takes from this loader, beside the training one."""
        return info is not self.training and any(matches(address, info) for address in self.partners)

    def step_counted(self, optimizer: Any) -> None:
        """Remember how many batches a step took, once the loop is known."""
        if id(optimizer) == self._leading:
            self._latest.append(self._unstepped)
            self._unstepped = 0

    def recount(self) -> bool:
        """Update the batches per step and the loader's address; return whether either changed."""
        before = self.batches_per_step, self._address
        if self.training is not None:
            self._address = self._loaders.address_of(self.training)
        if self.training is not None and not self.reads_ahead and len(self._latest) >= _MIN_STEPS:
            self._batches_per_step = max(1, median_high(self._latest))
        return (self.batches_per_step, self._address) != before

    def latest(self) -> LoaderInfo | None:
        """Return the loader that was fetched from last since a step."""
        return self._since_step[-1] if self._since_step else None

    def _count_batches_per_step(self) -> int:
        """Where there are no fetches, a batch is a backward pass with a forward pass of the root."""
        max_steps = max(self._steps.steps.values(), default=1)
        if self.training is not None and not self.reads_ahead:
            return max(1, round(self.training.fetches / max_steps))
        forwards = max((root.forwards for root in self._roots.roots()), default=self._steps.backwards)
        return max(1, round(min(self._steps.backwards, forwards) / max_steps))

    # --- what is known -------------------------------------------------------------------------

    @property
    def torch(self) -> Any:
        return sys.modules["torch"]

    @property
    def on_cuda(self) -> bool:
        return self.device_type == "cuda"

    @property
    def device_type(self) -> str:
        return self.device_facts["type"]

    @property
    def device(self) -> Any:
        """Torch's device of the roots, None where the loop does not train on CUDA."""
        return self._roots.device() if self.on_cuda else None

    @property
    def is_dry(self) -> bool:
        """Whether the loop computes nothing since the first forward pass, so that it can't be timed."""
        return self.dry is not None and self.dry.is_entered

    @property
    def world_size(self) -> int:
        return self._ranks.world_size

    @property
    def batches_per_step(self) -> int:
        return self._batches_per_step or self._count_batches_per_step()

    @property
    def turns_are_steps(self) -> bool:
        """Whether only steps mark the loop's batches: it has no loader, or another thread reads it."""
        return self.training is None or self.reads_ahead

    @property
    def batches_per_turn(self) -> int:
        """Loop batches from one turn to the next: those of a step, where turns are steps."""
        return self.batches_per_step if self.turns_are_steps else 1

    @property
    def roots_cover_step(self) -> bool:
        """Whether the roots hold every optimized parameter."""
        return self._roots.cover_step()

    @property
    def has_own_autocast(self) -> bool:
        """Whether the script sets its modules' precision itself."""
        return bool(self._autocasts.dtype) or any(root.autocast_dtype for root in self._roots.roots())

    def graphs_captured(self) -> int:
        """Return the graphs that torch.compile captured so far."""
        return knobs.graphs_captured()

    def synchronize(self) -> None:
        """Return when the device has no work left."""
        device.synchronize()

    def modules(self) -> list:
        return [seen.module for seen in self._roots.roots()]

    def parameters(self) -> list:
        return [parameter for module in self.modules() for parameter in module.parameters()]

    def buffers(self) -> list:
        return [buffer for module in self.modules() for buffer in module.buffers()]

    def optimizers(self) -> list:
        return self._steps.living()

    def last_loss(self) -> Any:
        """Return the loss of the latest backward pass, a new object each time."""
        return self._steps.last_loss

    def discovery(self, roots: list, training: LoaderInfo | None) -> dict:
        """Return the plain facts of a Discovery record."""
        torch, root_device = self.torch, self._roots.device()
        return {
            "complete": self.complete,
            "loaders": [
                {
                    "address": self._loaders.address_of(info),
                    "training": info is training,
                    "batch": info.batch_sizes if info is training else [],
                    **info.facts,
                }
                for info in dict.fromkeys((*self._loaders.infos[:_MAX_LISTED], *filter(None, [training])))
            ],
            "roots": [root.facts() for root in roots[:_MAX_LISTED]],
            "roots_cover_step": self.roots_cover_step,
            "optimizers": self._steps.seen()[:_MAX_LISTED],
            "batches_per_step": self.batches_per_step,
            "scales_gradients": self._steps.scales_gradients,
            "autocast_dtype": self._autocasts.dtype,
            "compiles": knobs.graphs_captured() > 0,
            "world_size": self.world_size,
            "float32_matmul_precision": knobs.matmul_precision(torch, self.device_type),
            **knobs.tf32_in_use(torch, root_device),
            "device_type": self.device_type,
            "bf16_native": device.bf16_native(torch, root_device),
            "torch_version": str(torch.__version__),
            "python_version": platform.python_version(),
        }

    def applied(self, training: LoaderInfo | None) -> dict:
        """Return the settings in effect, for the parent to compare with its request."""
        asked = self.request.loader
        is_addressed = training is not None and self._loaders.is_addressed(training)
        return {
            "addressed": asked is None or is_addressed,
            "roots_applied": [seen.facts() for seen in self._roots.applied],
        }
