"""Learn the loop, warm up, measure, report, and wait for the end."""

from __future__ import annotations

import atexit
import functools
import math
import sys
import threading
import time
from typing import Any

from . import batches, facts, imports, knobs
from .events import FETCHING, TRAINING, Pulse
from .learn import Learner
from .loaders import LoaderInfo, LoaderWatch
from .own import AutocastWatch
from .process import Owner
from .ranks import Ranks
from .request import Request
from .roots import RootFinder
from .steady import DRAINING, FINISHED, MEASURING, LoopClock, ramp_batches
from .steps import StepWatch

_PROGRESS_EVERY_S = 0.5
_EARLY_PROGRESS = 32
"""Batches and steps that are each told: a script that stops early should be known to the batch."""
_SETTLED_BATCHES = 3
_MAX_SETTLE_BATCHES = 200


def _never_raises(callback: Any) -> Any:
    """Keep an observer's own fault out of the user's loop: tell it once, then observe no more."""

    @functools.wraps(callback)
    def guarded(self, *args, **kwargs):
        if self._failed:
            return None
        try:
            return callback(self, *args, **kwargs)
        except Exception as error:
            self.failed(error)
            return None

    return guarded


class Observer:
    """One trial, seen from inside the training process.

    Args:
        request: what the parent asks.
        log: where events go.
        owner: the process that is observed.
    """

    def __init__(self, request: Request, log: Any, owner: Owner) -> None:
        self._request = request
        self._log = log
        self._pulse = Pulse(request.trial_folder)
        self._started = time.perf_counter()
        loader_knobs, self._model_knobs = knobs.split(request.knobs)
        self.ranks = Ranks(owner, self._joined)
        self.loaders = LoaderWatch(request.loader, loader_knobs, self, owner, request.working_dir)
        self.steps = StepWatch(self, owner)
        self.autocasts = AutocastWatch()
        self.roots = RootFinder(
            request.roots,
            self._apply_to_root,
            lambda: self.loaders.fetching > 0,
            self.failed,
            self.steps.keep_hooks,
        )
        self._learner = Learner(self.loaders, self.steps, self.roots, self.ranks, self.autocasts)
        self._clock: LoopClock | None = None
        self._batches = self._step_count = 0
        self._batch: tuple = (0, 0.0)  # samples and wait of the batch that is being trained on
        self._others_fetched = False
        self._batch_bytes = 0
        self._first_fetch_at: float | None = None
        self._first_batch_s = self._first_step_s = 0.0
        self._fetched_at = self._started
        self._loaderless_samples = self._batches_per_step = 1
        self._window_from: int | None = None
        self._last_graphs = 0
        self._settle_from = 0
        self._last_progress = 0.0
        self._finished = self._failed = False

    @property
    def _training(self) -> LoaderInfo | None:
        return self._learner.training

    @property
    def _measures(self) -> bool:
        """Whether this rank measures; the others have the knobs applied and tell of their memory."""
        return self.ranks.rank == 0

    def failed(self, error: Exception) -> None:
        """Tell of the observer's own fault and leave the script alone from here on."""
        self._failed = self._finished = True
        self.roots.stop()
        self.autocasts.stop()
        self._log.emit("agent_error", message=f"{type(error).__name__}: {str(error)[:500]}")

    def _joined(self) -> None:
        """The process joined a process group: its true rank is known."""
        self._log.emit("rank", rank=self.ranks.rank, world_size=self.ranks.world_size)

    # --- what the loaders tell -------------------------------------------------------------

    @_never_raises
    def loader_built(self, info: LoaderInfo) -> None:
        """A loader was constructed, perhaps the training loader anew for the next epoch."""
        self._learner.loader_built(info)
        self._progress(None)

    @_never_raises
    def epoch_started(self, info: LoaderInfo, now: float) -> None:
        """A loader's iterator is being made or reset."""
        if info is self._training and self._clock is not None:
            self._clock.epoch_started(now)
        info.facts["epoch_started"] = now

    @_never_raises
    def fetch_started(self, info: LoaderInfo) -> str | None:
        """The script asks a loader for a batch; returns "drain" when this epoch should end now."""
        self._pulse.tell(FETCHING, self._batches, self._step_count)
        if self._first_fetch_at is None:
            self._first_fetch_at = time.perf_counter()
            self._progress("fetching")
        if info is not self._training or self._clock is None or self._finished:
            return None
        samples, wait_s = self._batch
        self._batch = (0, 0.0)
        before = self._clock.phase
        phase = self._clock.tick(samples, wait_s, self._others_fetched, self._settled())
        self._others_fetched = False
        if self._window_from is None and phase == MEASURING:
            self._window_from = info.fetches
        self._progress(phase)
        if phase == FINISHED:
            self._finish()
        return "drain" if phase == DRAINING and before != DRAINING else None

    @_never_raises
    def epoch_ended(self, info: LoaderInfo, asked_at: float) -> bool:
        """A loader ran dry; returns whether the observer made it so and another epoch should follow."""
        self._pulse.tell(TRAINING, self._batches, self._step_count)
        if info is not self._training or self._clock is None or self._finished:
            return False
        forced = self._clock.phase == DRAINING
        self._clock.epoch_ended(asked_at)
        return forced

    @_never_raises
    def fetched(self, info: LoaderInfo, batch: object, wait_s: float) -> None:
        """The script has a batch in its hands."""
        self._learner.fetched(info)
        if info is self._training or self._training is None:
            self._take_batch(info, batch, wait_s)
        else:
            self._others_fetched = True
        self._pulse.tell(TRAINING, self._batches, self._step_count)
        if not self._learner.complete and info.fetches == 1 and self._measures:
            # In case the script runs out of memory before its loop is learnt.
            self._tell_learnt([], self._learner.latest())
        learnt_other = self._learner.complete and info is not self._training
        self._progress("validating" if learnt_other else None)

    def _take_batch(self, info: LoaderInfo, batch: object, wait_s: float) -> None:
        samples = max(1, info.samples_in(batch))
        self._batch = (samples, wait_s)
        self._batches += 1
        if not self._batch_bytes or (samples == info.facts.get("batch_size") and info.fetches <= 2):
            self._batch_bytes = (
                batches.size_bytes(batch) * (info.facts.get("batch_size") or samples) // samples
            )
            info.facts["batch_bytes"] = self._batch_bytes
        if self._batches == 1:
            self._first_batch_s = wait_s
            self._fetched_at = time.perf_counter()

    # --- what the optimizers tell ----------------------------------------------------------

    @_never_raises
    def stepped(self, optimizer: Any, now: float) -> None:
        """An optimizer made a step."""
        self._step_count += 1
        self._pulse.tell(TRAINING, self._batches, self._step_count)
        if self._step_count == 1:
            self._synchronize()
            self._first_step_s = time.perf_counter() - self._fetched_at
        if not self._learner.complete and self._learner.stepped(optimizer):
            self._learn()
        if self._clock is not None and self._training is None and not self._finished:
            self._tick_without_loader(optimizer)
        self._progress(None)

    def _learn(self) -> None:
        """Conclude what the loop is and start the clock."""
        roots = self._learner.conclude()
        if self._training is not None:
            self._batch_bytes = self._training.facts.get("batch_bytes", self._batch_bytes)
        if not self._measures:
            return
        self._tell_learnt(roots, self._training)
        self._make_clock(roots)

    def _tell_learnt(self, roots: list, training: LoaderInfo | None) -> None:
        self._log.emit(
            "learnt",
            discovery=self._learner.discovery(roots, training),
            applied=self._applied_facts(training),
        )

    def _make_clock(self, roots: list) -> None:
        training = self._training.facts if self._training else {}
        workers, prefetch = training.get("num_workers", 0), training.get("prefetch_factor") or 0
        _, epoch_batches = facts.epoch_of(self._training)
        self._loaderless_samples = self._request.samples_per_step or (
            (roots[0].input_samples if roots else None) or 1
        )
        self._batches_per_step = self._learner.batches_per_step()
        self._clock = LoopClock(
            time.perf_counter,
            self._synchronize,
            self._request.window_s,
            self._request.interval_goal,
            ramp_batches(workers, prefetch, epoch_batches),
            workers,
            can_force_boundary=self._training is not None and epoch_batches is not None,
        )
        if self._training is not None:
            self._clock.epoch_started(training.get("epoch_started", self._started))

    def _tick_without_loader(self, optimizer: Any) -> None:
        """A loop that makes its own batches: its clock ticks at the steps of the first optimizer."""
        if not self.steps.is_first(optimizer):
            return
        samples = self._loaderless_samples * self._batches_per_step
        phase = self._clock.tick(samples, 0.0, False, self._settled(), self._batches_per_step)
        if phase == FINISHED:
            self._finish()

    # --- applying and settling -------------------------------------------------------------

    def _apply_to_root(self, torch: Any, seen: Any) -> None:
        self.steps.remember_hooks(torch)
        knobs.apply_to_root(torch, seen, self._model_knobs)

    def _settled(self) -> bool:
        """Return whether torch.compile has captured no new graph for a few batches."""
        graphs = knobs.graphs_captured()
        count = self._step_count if self._training is None else self._batches
        if graphs != self._last_graphs:
            self._last_graphs, self._settle_from = graphs, count
        return not graphs or count - self._settle_from >= _SETTLED_BATCHES or count > _MAX_SETTLE_BATCHES

    def _synchronize(self) -> None:
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()

    # --- reporting -------------------------------------------------------------------------

    def _applied_facts(self, training: LoaderInfo | None) -> dict:
        """Return what really holds in this process, for the parent to compare with what it asked."""
        loader = training.facts if training else {}
        return {
            **{name: loader.get(name) for name in knobs.LOADER_KNOBS},
            "addressed": self._request.loader is None
            or (training is not None and self.loaders.is_addressed(training)),
            "roots_applied": [seen.facts() for seen in self.roots.applied],
        }

    def _finish(self) -> None:
        """Report the measurement and wait for the parent to end this process."""
        self._finished = True
        self._report()
        while True:  # never os._exit: `train.py && next` must not run `next`
            threading.Event().wait(3600)

    def _report(self) -> None:
        last = self.steps.loss_values()[1]
        if last is not None and not math.isfinite(last):
            self._log.emit("nonfinite", loss=str(last), steps=self._step_count)
        self._log.emit("done", loop=self._measured())

    def _measured(self) -> dict:
        clock = self._clock
        training = self._training.facts if self._training else {}
        epoch_samples, epoch_batches = facts.epoch_of(self._training)
        if epoch_samples is None and epoch_batches is not None and clock.steady_batches:
            epoch_samples = round(epoch_batches * clock.steady_samples / clock.steady_batches)
        first, last = (facts.finite(loss) for loss in self.steps.loss_values())
        return {
            "device": self._learner.device,
            "world_size": self.ranks.world_size,
            "batch_size": training.get("batch_size") if self._training else self._loaderless_samples,
            "num_workers": training.get("num_workers", 0),
            "prefetch_factor": training.get("prefetch_factor"),
            "pin_memory": training.get("pin_memory", False),
            "persistent_workers": training.get("persistent_workers", False),
            "compile_graphs": knobs.graphs_captured(),
            "float32_matmul_precision": knobs.matmul_precision(sys.modules["torch"]),
            "steady_batches": clock.steady_batches,
            "steady_samples": clock.steady_samples,
            "steady_time_s": clock.steady_time_s,
            "rate_interval_relative": clock.interval,
            "rate_trend_relative": clock.trend,
            "stop_reason": clock.stop_reason,
            "discarded_batches": clock.discarded_batches if self._window_from is None else self._window_from,
            "data_wait_s": clock.data_wait_s,
            "epoch_samples": epoch_samples,
            "epoch_batches": epoch_batches,
            "boundary_s": clock.boundary_s,
            "boundaries_seen": clock.boundaries_seen,
            "startup_s": max(0.0, (self._first_fetch_at or self._started) - self._started),
            "first_batch_s": self._first_batch_s,
            "first_step_s": self._first_step_s,
            "batch_bytes": self._batch_bytes,
            **facts.of_device_memory(),
            "loss_first": first,
            "loss_last": last,
            "script_steps": self._step_count,
        }

    def _progress(self, phase: str | None) -> None:
        now = time.perf_counter()
        early = self._batches + self._step_count <= _EARLY_PROGRESS
        if now - self._last_progress < _PROGRESS_EVERY_S and not early:
            return
        self._last_progress = now
        if not self._measures:
            self._log.emit(
                "rank",
                rank=self.ranks.rank,
                world_size=self.ranks.world_size,
                **(facts.of_device_memory() if "torch" in sys.modules else {}),
            )
            return
        if phase is None:
            started = "learning" if self._batches else "starting"
            phase = self._clock.phase if self._clock else started
        self._log.emit(
            "progress",
            phase=phase,
            batches=self._batches,
            steps=self._step_count,
            graphs=knobs.graphs_captured(),
        )

    @_never_raises
    def script_ended(self) -> None:
        """The interpreter is shutting down: report what there is, and why it ended."""
        if self._finished:
            return
        error = getattr(sys, "last_value", None)
        if error is None and self._clock is not None and self._clock.end():
            self._finished = True
            self._report()
            return
        self._log.emit("exit", steps=self._step_count, batches=self._batches, error=facts.of_error(error))


def install(request: Request, log: Any, owner: Owner) -> None:
    """Hang the observer into torch's modules as the script imports them."""
    observer = Observer(request, log, owner)
    hook_torch(observer, observer.steps.install_optimizer)
    imports.when_imported("torch.utils.data.dataloader", observer.loaders.install_iteration)
    imports.when_imported("torch.autograd", observer.steps.install_autograd)
    for module in ("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler"):
        imports.when_imported(module, observer.steps.install_scaler)
    if "precision" not in request.knobs:
        imports.when_imported("torch.amp.autocast_mode", observer.autocasts.install)
    atexit.register(observer.script_ended)


def hook_torch(watcher: Any, install_optimizer: Any) -> None:
    """Hang in what observing and applying have in common: ranks, loaders, roots, steps."""
    imports.when_imported("torch.distributed.distributed_c10d", watcher.ranks.install)
    imports.when_imported("torch.utils.data.dataloader", watcher.loaders.install)
    imports.when_imported(
        "torchdata.stateful_dataloader.stateful_dataloader", watcher.loaders.install_stateful
    )
    imports.when_imported("torch.optim.optimizer", install_optimizer)
    imports.when_imported("torch.nn.modules.module", watcher.roots.install)
