"""Learn the loop, warm up, measure, report, run the stages, and wait to be ended."""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
from typing import Any, Callable

from . import faults, imports, process
from .events import FETCHING, TRAINING, Progress
from .faults import kept_from_script
from .loader.batches import BatchWatch
from .loader.info import LoaderInfo, epoch_of, restarts
from .loader.watch import LoaderWatch
from .loader.work import WorkWatch, WorkWindow
from .measure import device, errors
from .measure.device_times import DeviceTimes
from .measure.growth import MemoryGrowth
from .measure.host import run_queue_ns
from .measure.host_times import CompileSettling, HostTimes, Startup
from .measure.record import loop_facts, model_bytes
from .measure.steady import DRAINING, FINISHED, MEASURING, LoopClock, ramp_batches
from .model import knobs
from .model.data_parallel import DataParallelWatch
from .model.knobs import AutocastWatch
from .model.loop import Loop
from .model.roots import RootFinder
from .model.schedules import ScheduleWatch
from .model.steps import ManualUpdates, StepWatch
from .options import OptionWatch
from .originals import time
from .process import Owner, Ranks
from .request import Request
from .stages import stages_for
from .stages.runner import StageRunner
from .stages.trace.dry import DrySteps

_DRY_STEPS = 4
"""Optimizer steps after which a loop whose arithmetic is skipped counts as known."""


class Observer:
    """One trial, seen from inside the training process."""

    def __init__(self, request: Request, log: Any, owner: Owner) -> None:
        self._request = request
        self._log = log
        self._progress_log = Progress(log)
        loader_knobs, self._model_knobs = knobs.split(request.knobs)
        self.ranks = Ranks(owner, self._joined)
        self.loaders = LoaderWatch(request.loader, loader_knobs, self, owner)
        self.work = WorkWatch(owner, request.scratch_folder)
        self.steps = StepWatch(self, owner, ManualUpdates(log))
        self.autocasts = AutocastWatch()
        self.schedules = ScheduleWatch()
        self.roots = RootFinder(
            request.roots,
            self._apply_to_root,
            lambda: self.loaders.fetching > 0,
            self.failed,
            self.steps.keep_hooks,
            request.device_memory_bytes,
            self._before_first_forward,
        )
        self.data_parallel = DataParallelWatch(request.no_sync)
        self._loop = Loop(request, self.loaders, self.steps, self.roots, self.ranks, self.autocasts)
        self._clock: Any = None  # a LoopClock once the loop is learnt
        self._samples = 0  # in the batch that is being trained on
        self._host_times = HostTimes(run_queue_ns)
        self._times: Any = DeviceTimes(None, "cpu")
        self._stages: Any = None  # a StageRunner once it is measured
        self._measured: dict = {}
        self._others_fetched = False
        self._source: Any = None  # the source of the requested batch, while the clock ticks
        self._batch_watch = BatchWatch()
        self._work_window = WorkWindow()
        self._stepped_roots: list = []
        self._startup = Startup(time.perf_counter())
        self._settling = CompileSettling()
        self._growth = MemoryGrowth()
        self._window_from: int | None = None
        self._finished = self.has_failed = False

    def failed(self, error: Exception) -> None:
        """Report the observer's own fault, once, and leave the script alone from then on."""
        if self.has_failed:
            return
        self.has_failed = self.steps.has_failed = self._finished = True
        self.roots.stop()
        self.autocasts.stop()
        if self._stages is not None:
            self._stages.call("leave")
        faults.report(self._log, self._request.trial_folder, error)

    def _joined(self) -> None:
        self._log.emit("rank", rank=self.ranks.rank, world_size=self.ranks.world_size)

    # --- what the loaders do -------------------------------------------------------------------

    @kept_from_script
    def loader_built(self, info: LoaderInfo) -> None:
        self._progress(None)

    @kept_from_script
    def epoch_started(self, info: LoaderInfo, now: float) -> None:
        self._loop.epoch_started(info)
        if info is self._loop.training and self._clock is not None:
            if self._loop.reads_ahead:  # its thread finished the epoch before the loop does
                self._clock.epoch_ended(now)
            self._clock.epoch_started(now)
            self._growth.epoch_started()
            self._work_window.follow(info.work)
        if self._stages is not None:
            self._stages.call("interrupted")
            self._progress(None)
        epoch_of(info)  # remembered now, while the loader still exists

    @kept_from_script
    def fetch_started(self, info: LoaderInfo, source: Any) -> Any:
        """Note that the script asks a loader for a batch; return a `loader.source.Replay` or None."""
        now = time.perf_counter()
        self._progress_log.pulse(FETCHING)
        if self._startup.asked_at is None:
            self._startup.asked_at = now
            self._progress("fetching")
        if self._loop.training in (None, info) and not self._loop.reads_ahead:
            self._settling.asked(
                now,
                knobs.graphs_captured(),
                self._progress_log.batches,
                has_stepped=self._progress_log.steps > 0,
                is_whole=not self._others_fetched,
            )
        if info is not self._loop.training or self._finished:
            return None
        self._turn_ended()
        if self._stages is not None:
            return self._ask_stages(source)
        ticks = self._clock is not None and not self._loop.reads_ahead
        return self._tick(now, info, source) if ticks else None

    def _turn_ended(self) -> None:
        """Note that a batch has been trained on, which every rank of a distributed job reports."""
        if self._loop.complete and self.ranks.world_size > 1:
            self._progress_log.turn_ended()

    def _tick(self, now: float, info: LoaderInfo | None = None, source: Any = None) -> Any:
        """Advance the clock: the loop asks its loader for a batch, or without one its optimizer stepped."""
        batches = 1 if info is not None else self._loop.batches_per_step
        samples = self._samples if info is not None else self._loop.own_batch_samples * batches
        parts = self._host_times.asked(now)
        before, self._source = self._clock.phase, source
        self._times.asked(self._clock.counts_batch and not self._others_fetched)
        count = self._progress_log.steps if self._loop.turns_are_steps else self._progress_log.batches
        is_settled = self._settling.is_settled(count)
        phase = self._clock.tick(samples, parts, self._others_fetched, is_settled, batches)
        self._samples, self._others_fetched, self._source = 0, False, None
        if info is not None and self._window_from is None and phase == MEASURING:
            self._window_from = info.fetches
        self._window_moved(before, phase)
        if phase == MEASURING:
            self._growth.asked(now, info.fetches if info is not None else self._progress_log.steps * batches)
        if info is not None:
            self._progress(phase)
        if phase == FINISHED:
            return self._measurement_complete(source)
        if phase == DRAINING and before != DRAINING:
            limit_s = self._clock.boundary_limit_s
            # Reported first: what follows may exceed the trial's limit or end the script.
            self._measured = self._measurement()
            self._report_done(is_final=False, next_within_s=2 * limit_s)
            source.end_epoch(time.perf_counter() + limit_s, lambda: self._progress(phase))
        return None

    def _discard_ready_batches(self) -> None:
        until = time.perf_counter() + self._clock.boundary_limit_s
        self._source.discard_ready(until, lambda: self._progress(None))

    @kept_from_script
    def epoch_ended(self, info: LoaderInfo, asked_at: float) -> bool:
        """Note a loader's end; return whether the observer caused it, so that another epoch should follow."""
        self._progress_log.pulse(TRAINING)
        if self._stages is not None:
            self._stages.call("interrupted")
        if info is not self._loop.training or self._clock is None or self._finished or self._loop.reads_ahead:
            return False
        forced = self._clock.phase == DRAINING
        self._clock.epoch_ended(asked_at)
        return forced

    @kept_from_script
    def fetched(self, info: LoaderInfo, batch: object, wait_s: float, cpu_s: float) -> None:
        if self._stages is not None:
            self._fetched_in_stage(info, batch)
            return
        self._loop.fetched(info)
        is_partner = self._loop.is_partner(info)
        if info is self._loop.training or self._loop.training is None:
            self._take_batch(info, batch, wait_s, cpu_s)
        elif is_partner:
            if not self._loop.reads_ahead:  # else this thread's own waits are counted
                self._host_times.fetched(wait_s, cpu_s)
            samples = self._samples_in(info, batch)
            self._samples += samples if self._samples else 0  # 0: no training batch in this turn yet
        else:
            self._others_fetched = True
        self._progress_log.pulse(TRAINING)
        if not self._loop.complete and info.fetches == 1 and self.ranks.measures:
            # In case the script runs out of memory before its loop is learnt.
            self._report_learnt([], self._loop.latest())
        learnt_other = self._loop.complete and info is not self._loop.training and not is_partner
        self._progress("validating" if learnt_other else None)

    def _fetched_in_stage(self, info: LoaderInfo, batch: object) -> None:
        is_training = info is self._loop.training
        self._progress_log.batches += is_training
        self._progress_log.pulse(TRAINING)
        is_other = not is_training and not self._loop.is_partner(info)
        self._progress("validating" if is_other else None)
        if is_training:
            self._stages.call("fetched", batch)
        elif is_other:
            self._stages.call("interrupted")

    def _samples_in(self, info: LoaderInfo, batch: object) -> int:
        samples = max(1, info.samples_in(batch, self._request.samples_per_step))
        info.samples += samples
        self._progress_log.samples += samples
        return samples

    def _take_batch(self, info: LoaderInfo, batch: object, wait_s: float, cpu_s: float) -> None:
        if not self._loop.reads_ahead:  # else the loop waits for its reading thread instead
            self._times.fetched()
            self._host_times.fetched(wait_s, cpu_s)
            self._progress_log.wait_s += wait_s
        self._samples = samples = self._samples_in(info, batch)
        self._progress_log.batches += 1
        self._batch_watch.take(info, batch, samples, info is self._loop.training)
        if self._progress_log.batches == 1:
            self._startup.fetched(wait_s, time.perf_counter())

    # --- what the optimizers do ----------------------------------------------------------------

    def step_began(self, now: float) -> None:
        if self._stages is not None:
            self._stages.call("step_began")
            return
        self._host_times.step_began(now)
        self._times.step_began()

    def stepped(self, optimizer: Any, now: float) -> None:
        self._progress_log.steps += 1
        self._progress_log.pulse(TRAINING)
        if self._stages is not None:
            self._progress(None)
            self._stages.call("step_ended")
            if self._loop.training is None and self.steps.is_first(optimizer):
                self._ask_stages(None)
            return
        self._host_times.step_ended(now)
        self._times.step_ended()
        self.data_parallel.stepped()
        if self._progress_log.steps == 1:
            if process.imports_main():
                self._log.emit("reruns_main")
            device.synchronize()
            self._startup.stepped(time.perf_counter())
        if self._loop.complete:
            self._loop.step_counted(optimizer)
        elif self._loop.stepped(optimizer) or (self._loop.is_dry and self._progress_log.steps >= _DRY_STEPS):
            self._learn()
        if self._loop.training is None and self.steps.is_first(optimizer):
            self._progress_log.samples += self._loop.own_batch_samples * self._loop.batches_per_step
            self._turn_ended()
        turns_are_steps = self._clock is None or self._loop.turns_are_steps
        ticks = self._clock is not None and turns_are_steps and not self._finished
        if ticks and self.steps.is_first(optimizer):
            now, graphs, steps = time.perf_counter(), knobs.graphs_captured(), self._progress_log.steps
            per_step = self._loop.batches_per_step
            self._settling.asked(now, graphs, steps, has_stepped=True, batches=per_step)
            self._tick(now)
        if turns_are_steps:
            self._progress(None)

    def _learn(self) -> None:
        """Conclude what the loop is and start the clock, on ranks that measure."""
        roots = self._stepped_roots = self._loop.conclude()
        if not self.ranks.measures:
            return
        if self._loop.reads_ahead:
            self._time_waits_for_threads()
        self.data_parallel.found(self._loop.modules())
        self._report_learnt(roots, self._loop.training)
        if self._loop.is_dry:
            self._start_stages(self._dry_facts(), self._request.details, 0.0)
        else:
            self._make_clock()

    def _report_learnt(self, roots: list, training: LoaderInfo | None) -> None:
        discovery, applied = self._loop.discovery(roots, training), self._loop.applied(training)
        numbers = self.schedules.facts(max(self.steps.steps.values(), default=0))
        self._log.emit("learnt", pid=os.getpid(), discovery=discovery, applied=applied, step_numbers=numbers)

    def _time_waits_for_threads(self) -> None:
        """Count this thread's waits for other threads, on queues and futures, as its wait for data."""
        here, original = threading.get_ident(), threading.Condition.wait

        def wait(condition, timeout=None):
            began = time.perf_counter()
            try:
                return original(condition, timeout)
            finally:
                if threading.get_ident() == here:
                    self._host_times.fetched(time.perf_counter() - began, 0.0)

        threading.Condition.wait = wait  # type: ignore[method-assign]

    def _make_clock(self) -> None:
        training = self._loop.training.facts if self._loop.training else {}
        workers, prefetch = training.get("num_workers", 0), training.get("prefetch_factor") or 0
        _, epoch_batches = epoch_of(self._loop.training)
        # Ending an epoch early would break ranks that need equal batch counts, and loaders read in pairs.
        is_alone = self._loop.world_size == 1 and not self._loop.partners and not self._loop.reads_ahead
        self._clock = LoopClock(
            time.perf_counter,
            device.synchronize,
            self._request.window_s,
            self._request.interval_goal,
            ramp_batches(workers, prefetch, epoch_batches),
            workers,
            can_force_boundary=epoch_batches is not None and is_alone and restarts(self._loop.training),
            rate_to_beat=self._request.rate_to_beat,
            throw_away=self._discard_ready_batches if self._loop.training and is_alone else None,
        )
        self._times = DeviceTimes(
            self._loop.torch,
            self._loop.device_type,
            self.roots.device(),
            has_loader=not self._loop.turns_are_steps,
            batches_per_turn=self._loop.batches_per_turn,
        )

    # --- skipping arithmetic -------------------------------------------------------------------

    def _dry_steps(self) -> DrySteps:
        if self._loop.dry is None:
            self._loop.dry = DrySteps(sys.modules["torch"], lambda: self.loaders.fetching > 0)
        return self._loop.dry

    def _before_first_forward(self, torch: Any, seen: Any) -> None:
        """Skip all arithmetic from a root module's first forward pass on, if the request asks for it.

        Only on a CPU: steps on a GPU are quick, and real ones say more.
        """
        on_cpu = seen.device is not None and seen.device.type == "cpu"
        is_learning = self.ranks.world_size == 1 and not self._loop.complete
        if self._request.skips == "all" and on_cpu and is_learning:
            self._dry_steps().enter()

    def _dry_facts(self) -> dict:
        training = self._loop.training.facts if self._loop.training else {}
        startup, own_samples = self._startup.facts(), self._loop.own_batch_samples
        return {
            "device": self._loop.device_facts,
            "batch_size": training.get("batch_size") if self._loop.training else own_samples,
            "batch_samples": self._samples or own_samples,
            "num_workers": training.get("num_workers", 0),
            "epoch_samples": epoch_of(self._loop.training)[0],
            "startup_s": startup["startup_s"],
            "first_batch_s": startup["first_batch_s"],
            "script_steps": self._progress_log.steps,
        }

    # --- applying and settling -----------------------------------------------------------------

    def _apply_to_root(self, torch: Any, seen: Any) -> None:
        self.steps.remember_hooks(torch)
        knobs.apply(torch, seen.module, self._model_knobs, getattr(seen.device, "type", "cpu"))

    # --- reporting -----------------------------------------------------------------------------

    def _window_moved(self, before: str, phase: str) -> None:
        if phase == MEASURING and before != MEASURING:
            device.forget_cudnn_tries()
            self._times.open()
            self._work_window.open(self._loop.training.work if self._loop.training is not None else None)
        elif before == MEASURING and phase != MEASURING:
            self._work_window.close()

    def _measurement_complete(self, source: Any) -> Any:
        """Report the measurement, then run the requested stages, or wait to be ended if there are none."""
        samples_unknown = self._loop.training is None and self._request.samples_per_step is None
        wanted = [] if samples_unknown or self._clock.is_abandoned else self._request.details
        self._start_stages(self._measurement(), wanted, self._step_s())
        if self._loop.reads_ahead and wanted:
            return None  # its reading thread calls the stages
        return self._ask_stages(source)

    def _step_s(self) -> float:
        return self._clock.steady.time_s / max(1, self._clock.steady.batches)

    def _start_stages(self, measured: dict, wanted: list, step_s: float) -> None:
        batch = self._batch_watch.facts(self._loop.training)["batch"]
        self._loop.step_s, self._loop.batch_shm_bytes = step_s, batch["shared_bytes"] if batch else 0
        if self._request.skips != "nothing":
            self._dry_steps()
        self._measured = measured
        stages = stages_for(wanted, self._loop)
        self._stages = StageRunner(
            stages, self._request.window_s, self._progress, step_s=step_s, passed=self._report_stages
        )
        if stages:
            self._report_stages()
        else:
            self._report_done(is_final=True)

    def _ask_stages(self, source: Any) -> Any:
        """Pass this turn of the loop to the current stage; once all have finished, block until ended.

        Never os._exit: `train.py && next` must not run `next`. The parent ends this process.
        """
        self._progress(None)
        answer = None
        if not self._stages.is_over:
            answer = self._stages.asked(source)
            if self._stages.is_over:
                self._report_done(is_final=True, details=self._stages.facts())
        if self._stages.is_over:
            self._finished = True
            while True:
                time.sleep(3600)
        return answer

    def _report_stages(self) -> None:
        """Report the results so far, in case a later stage ends the process."""
        stages = self._stages
        self._report_done(is_final=False, details=stages.facts(), next_within_s=stages.deadline_s)

    def _report_done(self, is_final: bool, details: dict | None = None, next_within_s: float = 0.0) -> None:
        """Report a complete measurement, the stages' results, and the current stage's deadline."""
        self._log.emit(
            "done", loop=self._measured, is_final=is_final, details=details, next_within_s=next_within_s
        )

    def _measurement(self) -> dict:
        """Return the plain facts of the measurement, and report a non-finite loss."""
        if self._loop.recount():
            self._report_learnt(self._stepped_roots, self._loop.training)
        last = self.steps.last_loss_value()
        if last is not None and not math.isfinite(last):
            self._log.emit("nonfinite", loss=str(last), steps=self._progress_log.steps)
        others = {
            **self._startup.facts(),
            **self._batch_watch.facts(self._loop.training),
            "loader_work": self._work_window.facts(),
            "model": self._facts_or_none(model_bytes, self._stepped_roots, self.steps.living()),
            "data_parallel": self._facts_or_none(
                self.data_parallel.facts, self.roots.device(), self.ranks.world_size
            ),
            "device_parts": self._times.facts(),
            **self._growth.facts(),
            "recompile_s": self._settling.recompile_s(self._step_s()),
            "script_steps": self._progress_log.steps,
        }
        if self._loop.training is None:
            others["batch_size"] = self._request.samples_per_step
        if self._window_from is not None:
            others["discarded_batches"] = self._window_from
        return loop_facts(self._loop, self.steps, self._clock, others)

    def _facts_or_none(self, facts_of: Callable, *objects: Any) -> dict | None:
        """Return facts about the script's objects, or None on failure; the rate is valid without them."""
        try:
            return facts_of(*objects)
        except Exception as error:  # the script's own modules and optimizers may raise anything
            faults.report(self._log, self._request.trial_folder, error, is_over=False)
            return None

    def _progress(self, phase: str | None) -> None:
        self._progress_log.report(phase or self._phase(), self.ranks)

    def _phase(self) -> str:
        if self._stages is not None and self._stages.phase is not None:
            return self._stages.phase
        if self._clock is not None:
            return self._clock.phase
        return "learning" if self._progress_log.batches else "starting"

    @kept_from_script
    def script_ended(self) -> None:
        """Report what is known when the interpreter shuts down, and why it ended."""
        if self._finished:
            return
        error = getattr(sys, "last_value", None)
        if self._stages is None and error is None and self._clock is not None and self._clock.end():
            self._finished, self._measured = True, self._measurement()
            self._report_done(is_final=True)
            return
        self._log.emit(
            "exit",
            steps=self._progress_log.steps,
            batches=self._progress_log.batches,
            gradients=self.steps.manual_updates.passes,
            error=errors.error_facts(error),
        )


def install(request: Request, log: Any, owner: Owner) -> None:
    OptionWatch(request.option_names, log).install()
    observer = Observer(request, log, owner)
    imports.report_to(observer.failed)
    imports.hook_torch(observer, observer.steps.install_optimizer)
    imports.when_imported("torch.utils.data.dataloader", observer.loaders.install_iteration)
    start = observer.work.wrap_start
    imports.when_imported("torch.utils.data.dataloader", lambda module: start(module.DataLoader))
    imports.when_imported(imports.STATEFUL, lambda module: start(module.StatefulDataLoader))
    imports.when_imported("torch.utils.data._utils.fetch", observer.work.install_fetch)
    imports.when_imported("torch.optim.lr_scheduler", observer.schedules.install)
    imports.when_imported("torch.cuda.graphs", observer.steps.install_graphs)
    imports.when_imported("torch.autograd", observer.steps.install_autograd)
    imports.when_imported("torch.nn.parallel.distributed", observer.data_parallel.install)
    for module in ("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler"):
        imports.when_imported(module, observer.steps.install_scaler)
    if "precision" not in request.knobs:
        imports.when_imported("torch.amp.autocast_mode", observer.autocasts.install)
    atexit.register(observer.script_ended)
