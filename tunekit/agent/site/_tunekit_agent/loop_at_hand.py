"""What the stages that look closer may know of a loop that was measured."""

from __future__ import annotations

from typing import Any, Callable

from .learn import Learner
from .ranks import Ranks
from .request import Request
from .roots import RootFinder
from .steps import StepWatch
from .trace.dry import DrySteps


class LoopAtHand:
    """A measured loop, while it is still there.

    Args:
        request: what the parent asks.
        learner: of the observer, as are roots, steps and ranks.
        batch_shm_bytes: what one full batch takes of /dev/shm.
        loaderless_samples: samples in a loop batch of a script without a loader.
        step_s: seconds per loop batch of the steady window.
        batches_per_step: loop batches per optimizer step.
        synchronize: returns when the device has no work left.
        dry: skips arithmetic, for what is traced on a CPU; None where the parent wants it computed.

    Attributes:
        window_s: steady seconds that the trial aims for.
        sizes: batch sizes to train at alone.
        working_dir: the script's.
        trial_folder: where files may go.
        has_own_autocast: whether the script chooses a precision for its modules by itself.
        roots_cover_step: whether the roots own every parameter that is stepped.
        device_type: of the roots.
        is_dry: whether nothing was computed since its first forward: nothing of it can be timed.
        batches_per_turn: loop batches from one turn of the loop to the next: those of a step, where there is
            no loader.
    """

    def __init__(
        self,
        request: Request,
        learner: Learner,
        roots: RootFinder,
        steps: StepWatch,
        ranks: Ranks,
        batch_shm_bytes: int,
        loaderless_samples: int,
        step_s: float,
        batches_per_step: int,
        synchronize: Callable[[], None],
        dry: DrySteps | None,
    ) -> None:
        self.window_s, self.working_dir = request.window_s, request.working_dir
        self.sizes, self.trial_folder = request.sizes, request.trial_folder
        self.has_own_autocast = learner.has_own_autocast()
        self.roots_cover_step = roots.cover_step()
        self.device_type = learner.device["type"]
        self.ranks = ranks
        self.batch_shm_bytes = batch_shm_bytes
        self.loaderless_samples = loaderless_samples
        self.step_s = step_s
        self.batches_per_step = batches_per_step
        self.batches_per_turn = batches_per_step if learner.training is None else 1
        self.synchronize, self.dry = synchronize, dry
        self.is_dry = dry is not None and dry.is_entered
        self._roots, self._steps = roots, steps

    @property
    def device(self) -> Any:
        """Return torch's device of the roots, None where there is no root."""
        return self._roots.device()

    def modules(self) -> list:
        """Return the roots' modules."""
        return [seen.module for seen in self._roots.roots()]

    def parameters(self) -> list:
        """Return the roots' parameters."""
        return [parameter for module in self.modules() for parameter in module.parameters()]

    def buffers(self) -> list:
        """Return the roots' buffers."""
        return [buffer for module in self.modules() for buffer in module.buffers()]

    def optimizers(self) -> list:
        """Return the optimizers that stepped."""
        return self._steps.living()

    def last_loss(self) -> Any:
        """Return the loss of the latest backward pass, another object after each."""
        return self._steps.last_loss
