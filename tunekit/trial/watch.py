"""Watches a running trial: its events, limits and memory."""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tunekit.machine.host.limits import oom_kills
from tunekit.machine.telemetry.sampler import GpuSampler, LoopSample, Sampler
from tunekit.machine.telemetry.tree import TreeMeter
from tunekit.records.agent_messages import AgentEvent, DoneEvent
from tunekit.records.measurement import DryLoop
from tunekit.records.trial import OutcomeKind
from tunekit.trial.events import EventReader, Evidence, last_lines, read_pulse
from tunekit.trial.keeper import descendants
from tunekit.trial.launch import AGENT_FOLDER, OUTPUT_FILE
from tunekit.trial.processes import AgentlessTorch, Orphans, ProcessActivity, external_launcher_in
from tunekit.units import count_text

TREE_RAM_SHARE = 0.90
"""Share of the RAM limit at which a trial's process tree is ended."""

_POLL_S = 0.15
_AGENTLESS_POLL_S = 0.5
_DETAILS_LIMIT_S = 120.0
_DETAILS_DEADLINES = 2.0
"""A measured script gets _DETAILS_LIMIT_S for each stage, or this many of the agent's own deadlines if that
is longer: the agent gives up at the loop's next turn, which may never come."""
WINDOWS_PER_DEADLINE = 4.0
"""The agent's own deadline for each stage, as a multiple of --window."""
_KEEPER_LIMIT_S = 30.0
"""Time for the keeper to end the tree once its leash closes; it takes at most ten seconds."""
_QUIET_S = 3.0
"""After this long without an event, check whether the agent can report at all."""
_LAUNCHER_EVERY_S = 1.0
_LAUNCHER_STAYS_S = 20.0
"""How long an external launcher must run to be blamed: a Python next to it may still begin to train."""


@dataclass(frozen=True)
class Limits:
    """The limits at which tunekit ends a trial."""

    trial_s: float
    no_progress_s: float
    """Maximum time without an event, CPU work or file reads."""
    ram_bytes: int
    """Maximum memory of the whole process tree; above it the trial is ended before the OOM killer acts."""
    start_s: float = 0.0
    """Maximum start-up time, until the loop runs, that doesn't count towards `trial_s`."""

    def within(self, max_s: float) -> "Limits":
        """Return the limits of a trial that takes at most `max_s` seconds, including its start."""
        start_s = max(0.0, min(self.start_s, max_s - self.trial_s))
        return replace(self, trial_s=min(self.trial_s, max_s), start_s=start_s)


@dataclass(frozen=True)
class TrialProgress:
    """The progress of a running trial, for display."""

    phase: str
    batches: int
    elapsed_s: float


class TrialWatch:
    """Follows one keeper until its tree is gone.

    Args:
        keeper: the process that `launch.start_trial` returned.
        folder: the trial's folder.
        limits: the limits at which to end it.
        gpus: the GPUs that it may use.
        on_progress: called a few times a second with the trial's progress.
        clock: returns seconds; scripted in tests.
        tree: the meter of its processes; by default of all the keeper's descendants.
    """

    def __init__(
        self,
        keeper: subprocess.Popen[bytes],
        folder: Path,
        limits: Limits,
        gpus: GpuSampler,
        on_progress: Callable[[TrialProgress], None],
        clock: Callable[[], float] = time.monotonic,
        tree: TreeMeter | None = None,
    ) -> None:
        self._keeper = keeper
        self._folder = folder
        self._limits = limits
        self._on_progress = on_progress
        self._clock = clock
        self._reader = EventReader(folder / AGENT_FOLDER)
        find_processes = partial(descendants, keeper.pid)
        self._tree = tree or TreeMeter(keeper.pid, find_processes, clock)
        self._work = ProcessActivity(self._tree, clock)
        self._agentless = AgentlessTorch(find_processes)
        self._looked_at = clock()
        self._sampler = Sampler(self._tree, gpus, clock)
        self._is_sampling = True
        self.evidence = Evidence(output=str(folder / OUTPUT_FILE))
        """All that is known so far; `gathered` completes it."""
        self._oom_kills_before = oom_kills()
        self._started_at = self._moved_at = self._told_at = clock()
        self._launcher_since: float | None = None
        self._launcher_look_at = self._started_at

    def run(self) -> Evidence:
        """Watch until the measurement is done, a limit is reached or the target ends.

        The tree is gone when this returns or is interrupted.
        """
        with Orphans() as orphans:
            try:
                with self._sampler:
                    self._follow()
            finally:
                self.end(orphans)
        return self.gathered()

    def gathered(self) -> Evidence:
        """Return all evidence of a trial whose tree is gone, even if it was interrupted."""
        evidence = self.evidence
        self.take(*self._reader.read_new())
        evidence.take_pulse(self._folder / AGENT_FOLDER)
        if self._oom_kills_before is not None:
            evidence.oom_kills = max(0, (oom_kills() or 0) - self._oom_kills_before)
        evidence.memory = evidence.memory or self._tree.peaks()
        evidence.series = self._sampler.series()
        evidence.sampling_cpu_s = self._sampler.cost_cpu_s
        evidence.rejected_lines = self._reader.rejected_lines
        evidence.last_lines = last_lines(self._folder / OUTPUT_FILE)
        evidence.duration_s = self._clock() - self._started_at
        return evidence

    def _follow(self) -> None:
        while self._keeper.poll() is None:
            self.take(*self._reader.read_new())
            if self._is_waiting_to_be_ended() or self.is_over_limit() or self._has_agentless_torch():
                break
            self.sample()
            self._report()
            time.sleep(_POLL_S)

    def _has_agentless_torch(self) -> bool:
        """Return whether some process has loaded torch without the agent: it would train unseen."""
        if self._clock() - self._looked_at < _AGENTLESS_POLL_S:
            return False
        self._looked_at = self._clock()
        found = self._agentless.find(self.evidence.images)
        if found is not None:
            message = f"torch was loaded by a Python without tunekit's agent: {found}"
            self.evidence.hit_limit(OutcomeKind.AGENT_ABSENT, message)
        return found is not None

    def sample(self) -> None:
        """Take the samples that are due; an error ends the sampling, not the trial."""
        if self._is_sampling:
            try:
                seen = self.evidence
                self._sampler.tick(LoopSample(seen.phase, seen.batches, seen.steps, seen.wait_s))
            except Exception as error:  # drivers and kernels may fail in any way
                self._is_sampling = False
                self.evidence.faults.append(f"sampling ended: {type(error).__name__}: {error}")

    def _is_waiting_to_be_ended(self) -> bool:
        """Return whether the agent is done and blocks; a script whose own loop ended is left to exit."""
        done = self.evidence.done
        if done is None or not done.is_final:
            return False
        return isinstance(done.loop, DryLoop) or done.loop.stop_reason != "loop_ended"

    def take(self, *events: AgentEvent) -> None:
        """Add events of the agents, and keep the tree's memory peaks when the measurement is complete."""
        for event in events:
            self._moved_at = self._clock()
            known = self.evidence.done
            self.evidence.take(event, self._moved_at - self._started_at)
            if self.evidence.done is not known:
                self._told_at = self._moved_at
                if known is None:
                    self._keep_peaks(isinstance(event, DoneEvent) and event.is_final)

    def _keep_peaks(self, is_final: bool) -> None:
        """Keep the memory peaks so far: the stages that follow use memory that training doesn't."""
        if is_final or not self._tree.peaks().samples:
            self._tree.sample()
        self.evidence.memory = self._tree.peaks()

    def is_over_limit(self) -> bool:
        """Return whether the trial must be ended now; the evidence then says why."""
        now, limits, evidence = self._clock(), self._limits, self.evidence
        self._work.look()
        if evidence.agent_error is not None or evidence.by_hand is not None or evidence.limit is not None:
            return True
        if self._trains_elsewhere(now):
            return True
        if now - self._moved_at > _QUIET_S and self._cannot_report():
            evidence.hit_limit(OutcomeKind.AGENT_ABSENT, "")
        elif now - self._started_at - self._start_s(now) > limits.trial_s:
            self._hit_trial_limit(now)
        elif evidence.done is not None and now - self._told_at > _details_limit_s(evidence.done):
            taken_s = _details_limit_s(evidence.done)
            evidence.hit_limit(
                OutcomeKind.TIMEOUT,
                f"looking closer took over {taken_s:.0f} s ({evidence.phase})",
                f"that limit follows --window: give --window {window_s_for(taken_s):g}",
            )
        elif now - max(self._moved_at, self._work.last_at) > limits.no_progress_s:
            evidence.take_pulse(self._folder / AGENT_FOLDER)
            evidence.hit_limit(*evidence.standstill(limits.no_progress_s))
        elif self._tree.is_above(limits.ram_bytes):
            evidence.hit_limit(
                OutcomeKind.HOST_OOM,
                f"the process tree used {self._tree.last_pss_bytes >> 20} MiB of host memory, "
                f"more than the limit of {limits.ram_bytes >> 20} MiB",
            )
        return evidence.limit is not None

    def _start_s(self, now: float) -> float:
        """Return the start-up time so far that doesn't count towards the trial's limit."""
        loop_at_s = self.evidence.loop_at_s
        return min(self._limits.start_s, now - self._started_at if loop_at_s is None else loop_at_s)

    def _trains_elsewhere(self, now: float) -> bool:
        """Return whether an external launcher keeps running while no training has begun here."""
        evidence = self.evidence
        if evidence.steps or evidence.batches or evidence.learnt is not None or now < self._launcher_look_at:
            return False
        self._launcher_look_at = now + _LAUNCHER_EVERY_S
        found = external_launcher_in(descendants(self._keeper.pid))
        self._launcher_since = self._launcher_since or now if found else None
        if self._launcher_since is None:
            return False
        evidence.external_launcher = found if now - self._launcher_since >= _LAUNCHER_STAYS_S else None
        return evidence.external_launcher is not None

    def _cannot_report(self) -> bool:
        """Return whether the training process is alive but can't write its events."""
        pulse = read_pulse(self._folder / AGENT_FOLDER)
        trains = pulse is not None and pulse.batches + pulse.steps > 0  # else it may be a helper's
        if self._folder.is_dir() and not (trains and pulse is not None and pulse.fault):
            return False
        self.evidence.take_pulse(self._folder / AGENT_FOLDER)
        return True

    def _hit_trial_limit(self, now: float) -> None:
        """End a trial that took too long; say so if no agent started or no step was made."""
        evidence = self.evidence
        evidence.take_pulse(self._folder / AGENT_FOLDER)
        if not evidence.started and evidence.batches == evidence.steps == 0:
            evidence.hit_limit(*evidence.standstill(round(now - self._started_at)))
        elif evidence.loop_at_s is not None and evidence.steps == 0:
            loaded_s = now - self._started_at - evidence.loop_at_s
            loaded = f"{count_text(evidence.batches, 'batch', 'batches')} loaded in {loaded_s:.0f} s"
            evidence.hit_limit(OutcomeKind.NO_TRAINING_LOOP, f"{loaded} without one optimizer step")
        else:
            missed = "not measured" if evidence.done is None else "still looking closer"
            taken_s = self._limits.trial_s + self._start_s(now)
            evidence.hit_limit(OutcomeKind.TIMEOUT, f"{missed} after {taken_s:.0f} s ({evidence.phase})")

    def _report(self) -> None:
        elapsed_s = self._clock() - self._started_at
        self._on_progress(TrialProgress(self.evidence.phase, self.evidence.batches, elapsed_s))

    def end(self, orphans: Orphans) -> None:
        """Close the leash, read how the target ended, and end what a killed keeper left behind."""
        try:
            reply, _ = self._keeper.communicate(timeout=_KEEPER_LIMIT_S)
        except subprocess.TimeoutExpired:  # it was suspended, or waits for the disk
            self._keeper.kill()
            reply, _ = self._keeper.communicate()
        finally:
            orphans.end()
        evidence = self.evidence
        try:
            status = json.loads(reply)
            evidence.returncode, evidence.start_error = status["returncode"], status["error"]
            evidence.left_running = status["left"]
        except (ValueError, KeyError, TypeError):
            code = self._keeper.returncode
            evidence.keeper_end = (
                f"was killed (signal {-code})" if code < 0 else f"failed with exit status {code}"
            )


def window_s_for(deadline_s: float) -> float:
    """Return the --window in seconds that gives each of the agent's stages this deadline."""
    return deadline_s / WINDOWS_PER_DEADLINE


def _details_limit_s(done: DoneEvent) -> float:
    return max(_DETAILS_LIMIT_S, _DETAILS_DEADLINES * done.next_within_s)
