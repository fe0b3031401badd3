"""Learn the loop, warm up, measure, report, and wait for the end."""

from __future__ import annotations

import functools
import math
import os
import sys
from typing import Any

from . import facts, knobs, measured, model_bytes
from .batches import BatchWatch
from .beginnings import Beginnings, Settling
from .by_hand import UpdatesByHand
from .closer_look import CloserLook, tell_done
from .device_times import DeviceTimes
from .events import FETCHING, TRAINING
from .learn import Learner
from .loader_info import LoaderInfo
from .loader_work import WorkWatch, WorkWindow
from .loaders import LoaderWatch
from .loop_at_hand import LoopAtHand
from .originals import time
from .own import AutocastWatch
from .parts import StepSplit
from .process import Owner
from .ranks import Ranks
from .request import Request
from .roots import RootFinder
from .steady import DRAINING, FINISHED, MEASURING, LoopClock, ramp_batches
from .steps import StepWatch
from .telling import Teller
from .trace.dry import DrySteps


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


_DRY_STEPS = 4
"""Optimizer steps after which a loop that computes nothing is known: how long each takes says nothing."""


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
        self._teller = Teller(log)
        self._started = time.perf_counter()
        loader_knobs, self._model_knobs = knobs.split(request.knobs)
        self.ranks = Ranks(owner, self._joined)
        self.loaders = LoaderWatch(request.loader, loader_knobs, self, owner)
        self.work = WorkWatch(owner, request.scratch_folder)
        self.steps = StepWatch(self, owner, UpdatesByHand(log))
        self.autocasts = AutocastWatch()
        self.roots = RootFinder(
            request.roots,
            self._apply_to_root,
            lambda: self.loaders.fetching > 0,
            self.failed,
            self.steps.keep_hooks,
            request.device_memory_bytes,
            self._root_begins,
        )
        self._dry: DrySteps | None = None
        self._learner = Learner(self.loaders, self.steps, self.roots, self.ranks, self.autocasts)
        self._clock: LoopClock | None = None
        self._samples = 0  # of the batch that is being trained on
        self._split = StepSplit()
        self._times: Any = DeviceTimes(None, "cpu")
        self._closer: CloserLook | None = None
        self._others_fetched = False
        self._source: Any = None  # of the batch that is asked for, while the clock ticks
        self._batch_watch = BatchWatch()
        self._work_window = WorkWindow()
        self._stepped_roots: list = []
        self._beginnings = Beginnings(self._started)
        self._settling = Settling()
        self._loaderless_samples = self._batches_per_step = 1
        self._window_from: int | None = None
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
            self._work_window.follow(info.work)
        if self._closer is not None:
            self._closer.interrupted()
            self._progress(None)
        info.facts["epoch_started"] = now
        facts.epoch_of(info)  # while the loader is there

    @_never_raises
    def fetch_started(self, info: LoaderInfo, source: Any) -> Any:
        """The script asks a loader for a batch; returns a `loaders.Replay` or None."""
        now = time.perf_counter()
        self._teller.pulse(FETCHING)
        if not self._beginnings.has_asked:
            self._beginnings.asked(now)
            self._progress("fetching")
        if self._training in (None, info):
            self._settling.asked(
                now,
                knobs.graphs_captured(),
                self._teller.batches,
                has_stepped=self._teller.steps > 0,
                is_whole=not self._others_fetched,
            )
        if info is not self._training or self._finished:
            return None
        if self._closer is not None:
            return self._look_closer(source)
        return self._tick(info, source, now) if self._clock is not None else None

    def _tick(self, info: LoaderInfo, source: Any, now: float) -> Any:
        """The loop asks its training loader for a batch."""
        assert self._clock is not None
        parts = self._split.asked(now)
        before, self._source = self._clock.phase, source
        self._times.asked(self._clock.counts_batch and not self._others_fetched)
        phase = self._clock.tick(self._samples, parts, self._others_fetched, self._settled)
        self._samples, self._others_fetched, self._source = 0, False, None
        if self._window_from is None and phase == MEASURING:
            self._window_from = info.fetches
        self._window_moved(before, phase)
        self._progress(phase)
        if phase == FINISHED:
            return self._measurement_complete(source)
        if phase == DRAINING and before != DRAINING:
            limit_s = self._clock.boundary_limit_s
            # Told before: what follows may take longer than the trial may, or end the script.
            tell_done(self._log, self._measurement(), is_final=False, next_within_s=2 * limit_s)
            source.end_epoch(time.perf_counter() + limit_s, lambda: self._progress(phase))
        return None

    def _throw_away(self) -> None:
        """Throw away the batches that lie ready while the clock ticks."""
        assert self._clock is not None
        until = time.perf_counter() + self._clock.boundary_limit_s
        self._source.throw_away(until, lambda: self._progress(None))

    @_never_raises
    def epoch_ended(self, info: LoaderInfo, asked_at: float) -> bool:
        """A loader ran dry; returns whether the observer made it so and another epoch should follow."""
        self._teller.pulse(TRAINING)
        if self._closer is not None:
            self._closer.interrupted()
        if info is not self._training or self._clock is None or self._finished:
            return False
        forced = self._clock.phase == DRAINING
        self._clock.epoch_ended(asked_at)
        return forced

    @_never_raises
    def fetched(self, info: LoaderInfo, batch: object, wait_s: float, cpu_s: float) -> None:
        """The script has a batch in its hands."""
        if self._closer is not None:
            self._fetched_meanwhile(info, batch)
            return
        self._learner.fetched(info)
        if info is self._training or self._training is None:
            self._times.fetched()
            self._split.fetched(wait_s, cpu_s)
            self._take_batch(info, batch, wait_s)
        else:
            self._others_fetched = True
        self._teller.pulse(TRAINING)
        if not self._learner.complete and info.fetches == 1 and self._measures:
            # In case the script runs out of memory before its loop is learnt.
            self._tell_learnt([], self._learner.latest())
        learnt_other = self._learner.complete and info is not self._training
        self._progress("validating" if learnt_other else None)

    def _fetched_meanwhile(self, info: LoaderInfo, batch: object) -> None:
        """The script has a batch in its hands while its loop is looked at."""
        assert self._closer is not None
        is_training = info is self._training
        self._teller.batches += is_training
        self._teller.pulse(TRAINING)
        self._progress(None if is_training else "validating")
        if is_training:
            self._closer.fetched(batch)
        else:
            self._closer.interrupted()

    def _take_batch(self, info: LoaderInfo, batch: object, wait_s: float) -> None:
        self._samples = samples = max(1, info.samples_in(batch))
        self._teller.batches += 1
        self._batch_watch.take(info, batch, samples, info is self._training)
        if self._teller.batches == 1:
            self._beginnings.fetched(wait_s, time.perf_counter())

    # --- what the optimizers tell ----------------------------------------------------------

    @_never_raises
    def step_began(self, now: float) -> None:
        """An optimizer begins a step."""
        if self._closer is not None:
            self._closer.step_began()
            return
        self._split.step_began(now)
        self._times.step_began()

    @_never_raises
    def stepped(self, optimizer: Any, now: float) -> None:
        """An optimizer made a step."""
        self._teller.steps += 1
        self._teller.pulse(TRAINING)
        if self._closer is not None:
            self._progress(None)
            self._closer.step_ended()
            if self._training is None and self.steps.is_first(optimizer):
                self._look_closer(None)
            return
        self._split.step_ended(now)
        self._times.step_ended()
        if self._teller.steps == 1:
            facts.synchronize()
            self._beginnings.stepped(time.perf_counter())
        if not self._learner.complete and self._knows_enough(self._learner.stepped(optimizer)):
            self._learn()
        if self._clock is not None and self._training is None and not self._finished:
            self._tick_without_loader(optimizer)
        self._progress(None)

    def _learn(self) -> None:
        """Conclude what the loop is and start the clock."""
        roots = self._stepped_roots = self._learner.conclude()
        if not self._measures:
            return
        self._tell_learnt(roots, self._training)
        self._loaderless_samples = self._request.samples_per_step or 1
        self._batches_per_step = self._learner.batches_per_step()
        if self._is_dry:
            self._look(self._dry_facts(), self._request.details, 0.0)
        else:
            self._make_clock()

    def _tell_learnt(self, roots: list, training: LoaderInfo | None) -> None:
        self._log.emit(
            "learnt",
            pid=os.getpid(),
            discovery=self._learner.discovery(roots, training),
            applied=measured.applied_facts(self._request.loader, self.loaders, training, self.roots),
        )

    def _make_clock(self) -> None:
        training = self._training.facts if self._training else {}
        workers, prefetch = training.get("num_workers", 0), training.get("prefetch_factor") or 0
        _, epoch_batches = facts.epoch_of(self._training)
        self._clock = LoopClock(
            time.perf_counter,
            facts.synchronize,
            self._request.window_s,
            self._request.interval_goal,
            ramp_batches(workers, prefetch, epoch_batches),
            workers,
            can_force_boundary=self._may_end_epoch(epoch_batches),
            rate_to_beat=self._request.rate_to_beat,
            # Of several ranks, all train on the same count of batches.
            throw_away=self._throw_away if self._training and self.ranks.world_size == 1 else None,
        )
        self._times = DeviceTimes(
            sys.modules["torch"],
            self._learner.device["type"],
            self.roots.device(),
            has_loader=self._training is not None,
            batches_per_turn=self._batches_per_step if self._training is None else 1,
        )

    def _may_end_epoch(self, epoch_batches: int | None) -> bool:
        """Return whether an epoch may be ended early: another follows, and no other rank goes on in this."""
        return epoch_batches is not None and self.ranks.world_size == 1 and facts.is_there(self._training)

    def _tick_without_loader(self, optimizer: Any) -> None:
        """A loop that makes its own batches: its clock ticks at the steps of the first optimizer."""
        if not self.steps.is_first(optimizer):
            return
        samples = self._loaderless_samples * self._batches_per_step
        now = time.perf_counter()
        self._settling.asked(
            now,
            knobs.graphs_captured(),
            self._teller.steps,
            has_stepped=True,
            batches=self._batches_per_step,
        )
        parts = self._split.asked(now)
        before = self._clock.phase
        self._times.asked(self._clock.counts_batch)
        phase = self._clock.tick(samples, parts, False, self._settled, self._batches_per_step)
        self._window_moved(before, phase)
        if phase == FINISHED:
            self._measurement_complete(None)

    # --- computing nothing -----------------------------------------------------------------

    @property
    def _is_dry(self) -> bool:
        return self._dry is not None and self._dry.is_entered

    def _dry_steps(self) -> DrySteps:
        if self._dry is None:
            self._dry = DrySteps(sys.modules["torch"], lambda: self.loaders.fetching > 0)
        return self._dry

    def _root_begins(self, torch: Any, seen: Any) -> None:
        """A module is about to run for the first time: from here on nothing is computed, where that is asked.

        On a GPU steps take little time, and measured they say more.
        """
        on_cpu = seen.device is not None and seen.device.type == "cpu"
        if (
            self._request.skips == "all"
            and on_cpu
            and self.ranks.world_size == 1
            and not self._learner.complete
        ):
            self._dry_steps().enter()

    def _knows_enough(self, is_learnt: bool) -> bool:
        return is_learnt or (self._is_dry and self._teller.steps >= _DRY_STEPS)

    def _dry_facts(self) -> dict:
        """Return the plain facts of a DryLoop record."""
        training = self._training.facts if self._training else {}
        beginnings = self._beginnings.facts()
        return {
            "device": self._learner.device,
            "batch_size": training.get("batch_size") if self._training else self._loaderless_samples,
            "batch_samples": self._samples or self._loaderless_samples,
            "num_workers": training.get("num_workers", 0),
            "epoch_samples": facts.epoch_of(self._training)[0],
            "startup_s": beginnings["startup_s"],
            "first_batch_s": beginnings["first_batch_s"],
            "script_steps": self._teller.steps,
        }

    # --- applying and settling -------------------------------------------------------------

    def _apply_to_root(self, torch: Any, seen: Any) -> None:
        self.steps.remember_hooks(torch)
        knobs.apply_to_root(torch, seen, self._model_knobs)

    def _settled(self) -> bool:
        return self._settling.is_settled(
            self._teller.steps if self._training is None else self._teller.batches
        )

    # --- reporting -------------------------------------------------------------------------

    def _window_moved(self, before: str, phase: str) -> None:
        """The steady window opened or closed."""
        if phase == MEASURING and before != MEASURING:
            facts.forget_cudnn_tries()
            self._times.open()
            self._work_window.open(self._training.work if self._training is not None else None)
        elif before == MEASURING and phase != MEASURING:
            self._work_window.close()

    def _measurement_complete(self, source: Any) -> Any:
        """Tell what was measured, then look closer if that is asked for, else wait for the end."""
        assert self._clock is not None
        samples_unknown = self._training is None and self._request.samples_per_step is None
        wanted = [] if samples_unknown or self._clock.is_abandoned else self._request.details
        self._look(self._measurement(), wanted, self._step_s())
        return self._look_closer(source)

    def _step_s(self) -> float:
        """Return the seconds of a steady loop batch."""
        assert self._clock is not None
        return self._clock.steady_time_s / max(1, self._clock.steady_batches)

    def _look(self, known: dict, wanted: list, step_s: float) -> None:
        """Have the loop looked at, from its next turn on.

        Args:
            known: plain facts of what is known of it so far.
            wanted: names of what to look at.
            step_s: seconds per loop batch.
        """
        batch = self._batch_watch.facts(self._training)["batch"]
        loop = LoopAtHand(
            self._request,
            self._learner,
            self.roots,
            self.steps,
            self.ranks,
            batch["shared_bytes"] if batch else 0,
            self._loaderless_samples,
            step_s,
            self._batches_per_step,
            facts.synchronize,
            self._dry_steps() if self._request.skips != "nothing" else None,
        )
        self._closer = CloserLook(known, wanted, self._log, loop, self._progress)

    def _look_closer(self, source: Any) -> Any:
        """Let the stage at work see this turn of the loop; once all are through, wait for the end.

        Never os._exit: `train.py && next` must not run `next`; the parent ends this process.
        """
        assert self._closer is not None
        self._progress(None)
        answer = self._closer.asked(source)
        if self._closer.is_over:
            self._finished = True
            while True:
                time.sleep(3600)
        return answer

    def _measurement(self) -> dict:
        """Return the plain facts of the measurement, and tell of a loss that is none."""
        last = self.steps.last_loss_value()
        if last is not None and not math.isfinite(last):
            self._log.emit("nonfinite", loss=str(last), steps=self._teller.steps)
        others = {
            **self._beginnings.facts(),
            **self._batch_watch.facts(self._training),
            "loader_work": self._work_window.facts(),
            "model": model_bytes.of_model(self._stepped_roots, self.steps.living()),
            "device_parts": self._times.facts(),
            "recompile_s": self._settling.recompile_s(self._step_s()),
            "script_steps": self._teller.steps,
        }
        if self._training is None:
            others["batch_size"] = self._request.samples_per_step
        if self._window_from is not None:
            others["discarded_batches"] = self._window_from
        return measured.loop_facts(self._learner, self.ranks, self.steps, self._clock, others)

    def _progress(self, phase: str | None) -> None:
        self._teller.progress(phase or self._phase(), self.ranks)

    def _phase(self) -> str:
        if self._closer is not None and self._closer.phase is not None:
            return self._closer.phase
        if self._clock is not None:
            return self._clock.phase
        return "learning" if self._teller.batches else "starting"

    @_never_raises
    def script_ended(self) -> None:
        """The interpreter is shutting down: report what there is, and why it ended."""
        if self._finished:
            return
        error = getattr(sys, "last_value", None)
        if self._closer is None and error is None and self._clock is not None and self._clock.end():
            self._finished = True
            tell_done(self._log, self._measurement(), is_final=True)
            return
        self._log.emit(
            "exit",
            steps=self._teller.steps,
            batches=self._teller.batches,
            gradients=self.steps.by_hand.passes,
            error=facts.of_error(error),
        )
