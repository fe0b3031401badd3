"""Apply mode: the user's real training with tuned knobs, and almost none of our code left in it.

Knobs are set as in a trial. After the first optimizer steps only two hooks remain: the step counter, and the
wrapper that builds loaders, since a script may rebuild its training loader every epoch. A recording
sees fetches and checkpoints too.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable

from . import faults, file_guard, imports
from .faults import kept_from_script
from .loader.info import LoaderInfo
from .loader.watch import LoaderWatch
from .model import knobs
from .model.knobs import NotApplied
from .model.roots import RootFinder
from .model.steps import KeptHooks, keep_from_dynamo
from .originals import time
from .process import Owner, Ranks
from .recording import Recorder
from .request import Request

_WINDOW_S = 60.0
"""Window over which the real rate is computed, in seconds."""
_FIRST_STEPS = 20
_WINDOWS_OUTSIDE = 3
"""Consecutive windows outside the promised range before we say so: a validation may slow one down."""
_SAY_EVERY_S = 1800.0


class StepCounter:
    """Counts optimizer steps and says when the real rate leaves the promised range.

    It is itself the only hook on optimizer steps: hooks can't be replaced while torch iterates over them.

    Args:
        promised_it_per_s: (min, max) loop batches per second over whole epochs; None to check nothing.
        batches_per_step: loop batches per optimizer step.
        at_first: called after the first step, with False; returns whether setting up is finished. If it is
            not, `at_first` is called once more, with True, a few steps later.
    """

    def __init__(
        self,
        promised_it_per_s: Any,
        batches_per_step: int,
        at_first: Callable[[bool], bool],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._low, self._high = promised_it_per_s or (0.0, float("inf"))
        self._at_first = at_first
        self._batches_per_step = batches_per_step
        self._say = say
        self._clock = clock
        self.steps = 0
        self._is_set_up = False
        self._optimizer = 0
        self._check_at = _FIRST_STEPS
        self._window_start: float | None = None
        self._window_steps = 0
        self._outside: list = []
        self._said_at: float | None = None

    @keep_from_dynamo
    def __call__(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Count one step of the first optimizer; called as an optimizer step post-hook."""
        if id(optimizer) != self._optimizer:
            if self._optimizer:
                return
            self._optimizer = id(optimizer)
            self._is_set_up = self._at_first(False)
        self.steps += 1
        if self.steps >= self._check_at:
            self._check()

    def _check(self) -> None:
        now = self._clock()
        if not self._is_set_up:
            self._is_set_up = self._at_first(True)
        if self._window_start is None:  # the first steps compile and fill queues
            self._open_window(now, _FIRST_STEPS)
            return
        elapsed_s, steps = now - self._window_start, self.steps - self._window_steps
        if elapsed_s < _WINDOW_S:
            left = steps * (_WINDOW_S / max(elapsed_s, 1e-3) - 1.0)
            self._check_at = self.steps + max(1, min(int(left), steps))
            return
        self._judge(steps * self._batches_per_step / elapsed_s, now)
        self._open_window(now, steps)

    def _open_window(self, now: float, steps_ahead: int) -> None:
        self._window_start, self._window_steps = now, self.steps
        self._check_at = self.steps + max(1, steps_ahead // 2)

    def _judge(self, it_per_s: float, now: float) -> None:
        inside = self._low <= it_per_s <= self._high
        self._outside = [] if inside else [*self._outside, it_per_s][-_WINDOWS_OUTSIDE:]
        is_recent = self._said_at is not None and now - self._said_at < _SAY_EVERY_S
        if len(self._outside) < _WINDOWS_OUTSIDE or is_recent:
            return
        self._said_at = now
        mean = sum(self._outside) / len(self._outside)
        where = "below" if mean < self._low else "above"
        self._say(
            f"{mean:.3g} it/s over the last {_WINDOWS_OUTSIDE} minutes, {where} the {self._low:.3g} to "
            f"{self._high:.3g} it/s that were measured; if it stays that way, measure again: tunekit search"
        )


class Applier:
    """Sets the knobs and then removes its hooks; receives the watches' events in place of an observer."""

    def __init__(self, request: Request, log: Any, owner: Owner) -> None:
        self._request = request
        self._log = log
        self._model_knobs = knobs.split(request.knobs)[1]
        self.ranks = Ranks(owner, lambda: None)
        self.loaders = LoaderWatch(request.loader, knobs.split(request.knobs)[0], self, owner)
        self.roots = RootFinder(
            request.roots, self._apply_to_root, lambda: False, self.failed, self._keep_hooks
        )
        self._training_built = False
        self._faults: set = set()
        self._not_set: set = set()  # knobs that failed
        self._counter: Any = None
        self.recorder = Recorder(request.trial_folder, self.ranks, log) if request.records else None
        for event in ("epoch_started", "fetch_started", "epoch_ended", "fetched"):
            setattr(self, event, getattr(self.recorder, event, None))
        self._kept: KeptHooks | None = None

    def failed(self, error: Exception) -> None:
        """Say that knobs could not be applied; the training goes on without them."""
        line = faults.line_of(error)
        if isinstance(error, NotApplied):
            self._not_set.update(error.knobs)
            them = "it" if len(error.knobs) == 1 else "them"
            knobs_text = " and ".join(error.knobs)
            what = f"{knobs_text} could not be applied ({line}); training goes on without {them}"
        else:
            self.roots.stop()
            what = f"the agent failed ({line}); training goes on without the knobs that are not applied yet"
        if what not in self._faults:  # a loader may be rebuilt every epoch
            self._faults.add(what)
            kept = faults.report(self._log, self._request.trial_folder, error)
            self.say(f"{what} (traceback: {kept})" if kept else what)

    def say(self, message: str) -> None:
        """Tell the user on standard error, from rank 0 only."""
        self._log.emit("said", message=message)
        if self.ranks.rank == 0:
            with contextlib.suppress(Exception):  # standard error may be closed
                sys.stderr.write(f"tunekit: {message}\n")

    def loader_built(self, info: LoaderInfo) -> None:
        """Note a loader that was constructed."""
        if self._request.loader is not None and self.loaders.is_addressed(info):
            self._training_built = True
            self._log.emit("loader", **{name: info.facts.get(name) for name in knobs.LOADER_KNOBS})

    def _apply_to_root(self, torch: Any, seen: Any) -> None:
        self._kept = KeptHooks(torch, lambda *arguments: None, self._counter)
        knobs.apply(torch, seen.module, self._model_knobs, getattr(seen.device, "type", "cpu"))

    def _keep_hooks(self, torch: Any) -> None:
        if self._kept is not None:
            self._kept.restore()

    def first_steps(self, last: bool) -> bool:
        """Remove the hooks once every knob is applied, or on the last call; say what was not applied.

        Returns:
            Whether the hooks are gone.
        """
        if not last and len(self.roots.applied) < len(self._request.roots):
            return False  # a module may run only every few steps
        self._remove_hooks()
        return True

    @kept_from_script
    def _remove_hooks(self) -> None:
        self.roots.stop()
        if self.loaders.knobs and not self._training_built:
            self.say("the loader that was measured was not built, so its knobs are not applied")
        if self.ranks.world_size != self._request.world_size:
            self.say(
                f"measured with {self._request.world_size} training processes, but this job has "
                f"{self.ranks.world_size}: its global batch size differs, and so does the right learning rate"
            )
        missing = len(self._request.roots) - len(self.roots.applied)
        if self._model_knobs and missing:
            self.say(f"{missing} of the measured modules did not run, so their knobs are not applied")
        roots = [seen.facts() for seen in self.roots.applied]
        self._log.emit("applied", roots=roots, not_set=sorted(self._not_set))
        self.roots.forget()

    def install_optimizer(self, module: Any) -> None:
        promised = self._request.promised_it_per_s if self.ranks.rank == 0 else None
        self._counter = counter = StepCounter(
            promised, self._request.batches_per_step, self.first_steps, self.say
        )
        if (recorder := self.recorder) is not None:
            self._counter = keep_from_dynamo(lambda *step: (recorder.stepped(step[0]), counter(*step)))
        module.register_optimizer_step_post_hook(self._counter)


def install(request: Request, log: Any, owner: Owner) -> None:
    """Hook the knobs into torch's modules as the script imports them."""
    applier = Applier(request, log, owner)
    imports.report_to(applier.failed)
    try:
        imports.hook_torch(applier, applier.install_optimizer)
        if applier.recorder is not None:
            applier.recorder.install(applier.loaders)
        file_guard.redirect(request.redirected)
    except Exception as error:
        applier.failed(error)
