"""Watches one trial while it runs: its events, its limits, its memory."""

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tunekit.machine.host.limits import oom_kills
from tunekit.machine.telemetry.sampler import GpuSampler, LoopSample, Sampler, Series
from tunekit.machine.telemetry.tree import TreeMeter
from tunekit.plain_text import printable
from tunekit.records.agent_messages import (
    AgentErrorEvent,
    ByHandEvent,
    DoneEvent,
    ExitEvent,
    GuardErrorEvent,
    LearntEvent,
    NonfiniteEvent,
    OptionsEvent,
    ProgressEvent,
    RankEvent,
    StartEvent,
    WrittenEvent,
)
from tunekit.records.measurement import DryLoop, TreeMemory
from tunekit.records.target import Discovery, ScriptOption
from tunekit.records.trial import MemoryPoint, OutcomeKind, WrittenFile
from tunekit.trial.elsewhere import Elsewhere
from tunekit.trial.events import EventReader, read_pulse
from tunekit.trial.keeper import descendants
from tunekit.trial.launch import OUTPUT_FILE
from tunekit.trial.processes import AgentlessTorch, AtWork, Orphans, elsewhere_in

TREE_RAM_SHARE = 0.90
"""Share of the RAM limit at which a trial's process tree is ended."""

_POLL_S = 0.15
_AGENTLESS_POLL_S = 0.5
_MAX_WRITTEN = 1000
_MAX_FAULTS = 20
_MAX_PARSERS = 64
_LOOP_BATCHES = 16
"""A script that has loaded so many is in a loop, though it made no step; before, it may still compile."""
_DETAILS_LIMIT_S = 120.0
_DETAILS_DEADLINES = 2.0
"""A measured script is given that long for each thing that is looked at, or two of the agent's own deadlines
if that is longer: the agent gives up at the loop's next turn, which may never come."""
_KEEPER_LIMIT_S = 30.0
"""For the keeper to end the tree once it is let go, which takes it ten seconds at the most."""
_QUIET_S = 3.0
"""Without an event for that long, it is asked whether the agent can tell at all."""
_HANG_SHARE = 1 / 3
_HANG_GAPS = 10.0
_HANG_STEPS = 3
"""A trial limit that comes first tells a hang where nothing moved for that share of the shorter limit, for
that many times the longest pause before, and after that many steps."""
_MOST_EXECS = 20
"""Programs that one process may become before its first batch."""
_ELSEWHERE_EVERY_S = 1.0
_ELSEWHERE_S, _ELSEWHERE_BESIDE_PYTHON_S = 4.0, 20.0
"""For how long a program that trains elsewhere is there alone, or beside a Python that may train yet."""
_TAIL_BYTES = 64 << 10
_TAIL_LINES = 20
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""Colours and moves of the cursor, which progress bars print and nobody misses."""


@dataclass(frozen=True)
class Limits:
    """When a trial is ended from outside."""

    trial_s: float
    no_progress_s: float
    """Without an event, and without work on a CPU or of storage."""
    ram_bytes: int
    """Memory of the whole tree above which it is ended, before the kernel picks a victim."""
    start_s: float = 0.0
    """Of the time until the loop runs, what the trial's limit leaves out at the most."""


@dataclass(frozen=True)
class TrialProgress:
    """What a running trial is doing, for the screen."""

    phase: str
    batches: int
    elapsed_s: float


@dataclass
class Evidence:
    """Everything that is known when a trial is over; `outcome` makes a verdict of it."""

    started: bool = False
    images: set[int] = field(default_factory=set)
    """Where the stacks of the processes start that have the agent."""
    steps: int = 0
    batches: int = 0
    ranks: dict[int, RankEvent] = field(default_factory=dict)
    """What the ranks that don't measure told last."""
    fetching: bool = False
    """Whether the loop was waiting for a batch when it was last seen."""
    fetched: bool = False
    """Whether a loader was ever asked for a batch."""
    learnt: LearntEvent | None = None
    options: dict[int, tuple[ScriptOption, ...]] = field(default_factory=dict)
    """Of the command line, by the process that parsed it."""
    done: DoneEvent | None = None
    nonfinite: NonfiniteEvent | None = None
    exit: ExitEvent | None = None
    by_hand: ByHandEvent | None = None
    """The loop trains without an optimizer of torch."""
    elsewhere: Elsewhere | None = None
    """A program of the tree that has the training run where the agent is not."""
    agent_error: str | None = None
    faults: list[str] = field(default_factory=list)
    """The guard's own faults, which the trial went on after."""
    rejected_lines: int = 0
    """Lines of the event files that were no valid event."""
    written: list[WrittenFile] = field(default_factory=list)
    limit: OutcomeKind | None = None
    """Which of our limits ended it, if one did."""
    limit_message: str = ""
    limit_remedy: str | None = None
    """What to do about it, where that is not what the outcome always says."""
    cannot_tell: str | None = None
    """Why the agent could not write its events, if it could not."""
    keeper_end: str | None = None
    """How the keeper ended, where it did not end by itself."""
    left_running: int = 0
    """Processes that ran on when the script had ended by itself."""
    returncode: int | None = None
    start_error: str | None = None
    """Why the command could not be started at all."""
    memory: TreeMemory | None = None
    growth: tuple[MemoryPoint, ...] = ()
    """How the tree's memory went."""
    fetched_at_s: float | None = None
    """When a loader was first asked for a batch, since the start; None if none was."""
    series: tuple[Series, ...] = ()
    """What its processes and GPUs did over time."""
    sampling_cpu_s: float = 0.0
    last_lines: tuple[str, ...] = ()
    output: str = ""
    """Where the script's whole output is."""
    oom_kills: int = 0
    """Processes that the kernel killed for want of memory, here and during the trial."""
    duration_s: float = 0.0

    def reach(self, limit: OutcomeKind, message: str, remedy: str | None = None) -> None:
        """Note which of our limits ends the trial, and what to say of it."""
        self.limit, self.limit_message, self.limit_remedy = limit, message, remedy

    @property
    def discovery(self) -> Discovery | None:
        """What was learnt of the loop, with the options of the command line.

        A process that a launcher or `spawn` started may not have parsed it: then another's are taken.
        """
        if self.learnt is None:
            return None
        last = next(reversed(self.options.values()), ())
        options = self.options.get(self.learnt.pid, last)
        return self.learnt.discovery.changed(options=options)


class TrialWatch:
    """Follows one keeper until its tree is gone.

    Args:
        keeper: the process that `launch.start_trial` returned.
        folder: the trial's folder.
        limits: when to end it.
        gpus: the GPUs that it may use.
        on_progress: called a few times a second with what the trial does.
        clock: returns seconds; scripted in tests.
    """

    def __init__(
        self,
        keeper: subprocess.Popen[bytes],
        folder: Path,
        limits: Limits,
        gpus: GpuSampler,
        on_progress: Callable[[TrialProgress], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keeper = keeper
        self._folder = folder
        self._limits = limits
        self._on_progress = on_progress
        self._clock = clock
        self._reader = EventReader(folder)
        find_processes = partial(descendants, keeper.pid)
        self._tree = TreeMeter(keeper.pid, find_processes, clock)
        self._work = AtWork(self._tree, clock)
        self._agentless = AgentlessTorch(find_processes)
        self._looked_at = clock()
        self._sampler = Sampler(self._tree, gpus, clock)
        self._is_sampling = True
        self._evidence = Evidence(output=str(folder / OUTPUT_FILE))
        self._oom_kills_before = oom_kills()
        self._started_at = self._moved_at = self._told_at = clock()
        self._loops_at: float | None = None
        self._longest_pause_s = 0.0
        self._starts: Counter[int] = Counter()
        self._phase = "starting"
        self._elsewhere_since: float | None = None
        self._look_elsewhere_at = self._started_at

    def run(self) -> Evidence:
        """Watch until the measurement is done, a limit is reached or the target ends.

        The tree is gone when this returns, also when it is interrupted.
        """
        with Orphans() as orphans:
            try:
                with self._sampler:
                    self._follow()
            finally:
                self._end(orphans)
        return self.gathered()

    def gathered(self) -> Evidence:
        """Return all that is known of a trial whose tree is gone, also of one that was interrupted."""
        self._take_events()
        self._take_pulse()
        evidence = self._evidence
        if self._oom_kills_before is not None:
            evidence.oom_kills = max(0, (oom_kills() or 0) - self._oom_kills_before)
        evidence.memory = evidence.memory or self._tree.peaks()
        evidence.growth = self._tree.growth()
        evidence.series = self._sampler.series()
        evidence.sampling_cpu_s = self._sampler.cost_cpu_s
        evidence.rejected_lines = self._reader.rejected_lines
        evidence.last_lines = last_lines(self._folder / OUTPUT_FILE)
        evidence.duration_s = self._clock() - self._started_at
        return evidence

    def _follow(self) -> None:
        while self._keeper.poll() is None:
            self._take_events()
            if self._is_waiting_for_its_end() or self._over_limit() or self._has_agentless_torch():
                break
            self._sample()
            self._report()
            time.sleep(_POLL_S)

    def _has_agentless_torch(self) -> bool:
        """Return whether some process has loaded torch without the agent: it would train unseen."""
        if self._clock() - self._looked_at < _AGENTLESS_POLL_S:
            return False
        self._looked_at = self._clock()
        found = self._agentless.find(self._evidence.images)
        if found is not None:
            message = f"torch was loaded by a Python without tunekit's agent: {found}"
            self._evidence.reach(OutcomeKind.AGENT_ABSENT, message)
        return found is not None

    def _sample(self) -> None:
        """Take the samples that are due; a fault of sampling ends the sampling, not the trial."""
        if self._is_sampling:
            try:
                self._sampler.tick(LoopSample(self._phase, self._evidence.batches, self._evidence.steps))
            except Exception as error:  # drivers and kernels fail in ways of their own
                self._is_sampling = False
                self._evidence.faults.append(f"sampling ended: {type(error).__name__}: {error}")

    def _is_waiting_for_its_end(self) -> bool:
        """Return whether the agent is done and blocks; a script that ended by itself is let to exit."""
        done = self._evidence.done
        if done is None or not done.is_final:
            return False
        return isinstance(done.loop, DryLoop) or done.loop.stop_reason != "loop_ended"

    def _take_events(self) -> None:
        for event in self._reader.read_new():
            if not isinstance(event, StartEvent):
                self._moved()
            match event:
                case StartEvent():
                    self._take_start(event)
                case ProgressEvent():
                    self._phase = event.phase
                    self._evidence.fetched |= event.phase == "fetching"
                    if self._evidence.fetched_at_s is None and self._evidence.fetched:
                        self._evidence.fetched_at_s = self._clock() - self._started_at
                    self._evidence.batches = max(self._evidence.batches, event.batches)
                    self._evidence.steps = max(self._evidence.steps, event.steps)
                    if self._loops_at is None and (event.steps or event.batches >= _LOOP_BATCHES):
                        self._loops_at = self._clock()
                case RankEvent():
                    self._evidence.ranks[event.rank] = event
                case OptionsEvent() if event.pid in self._evidence.options or (
                    len(self._evidence.options) < _MAX_PARSERS
                ):
                    self._evidence.options[event.pid] = event.options
                case LearntEvent():
                    self._take_learnt(event)
                case DoneEvent():
                    self._take_done(event)
                case NonfiniteEvent():
                    self._evidence.nonfinite = event
                case ByHandEvent():
                    self._evidence.by_hand = event
                case ExitEvent():
                    self._take_exit(event)
                case WrittenEvent() if len(self._evidence.written) < _MAX_WRITTEN:
                    self._evidence.written.append(WrittenFile(path=event.path, action=event.action))
                case GuardErrorEvent() if len(self._evidence.faults) < _MAX_FAULTS:
                    self._evidence.faults.append(plain(event.message)[:500])
                case AgentErrorEvent():
                    self._evidence.agent_error = event.message

    def _moved(self) -> None:
        now = self._clock()
        if self._evidence.steps >= _HANG_STEPS:
            self._longest_pause_s = max(self._longest_pause_s, now - self._moved_at)
        self._moved_at = now

    def _take_start(self, event: StartEvent) -> None:
        """A process loaded the agent; one that becomes another program again and again gets nowhere."""
        evidence = self._evidence
        evidence.started = True
        evidence.images.add(event.image)
        self._starts[event.pid] += 1
        if self._starts[event.pid] == 1:
            self._moved()
        elif self._starts[event.pid] > _MOST_EXECS and evidence.batches == evidence.steps == 0:
            evidence.reach(
                OutcomeKind.SCRIPT_ERROR,
                f"process {event.pid} started Python anew {_MOST_EXECS} times in its own place (os.exec) "
                "and never asked for a batch",
                "see by what the script decides to start itself again: a variable or flag that it sets for "
                "that may not arrive",
            )

    def _take_pulse(self) -> None:
        """Take what the training process did last: its events lag behind, and a killed one tells no end."""
        if not self._folder.is_dir():
            self._evidence.cannot_tell = f"the trial's folder {self._folder} was removed by the script"
        pulse = read_pulse(self._folder)
        if pulse is None:
            return
        evidence = self._evidence
        evidence.cannot_tell = pulse.fault
        evidence.fetching = pulse.fetching
        evidence.fetched |= pulse.fetching or pulse.batches > 0
        evidence.batches = max(evidence.batches, pulse.batches)
        evidence.steps = max(evidence.steps, pulse.steps)

    def _take_learnt(self, event: LearntEvent) -> None:
        """Keep the first complete discovery, or the latest partial one."""
        known = self._evidence.learnt
        if known is None or not known.discovery.complete:
            self._evidence.learnt = event

    def _take_done(self, event: DoneEvent) -> None:
        """Keep the measurement, and the tree's peaks so far; told again, it comes with more details."""
        known = self._evidence.done
        if known is not None and known.is_final:
            return
        self._evidence.done = event
        self._told_at = self._clock()
        if known is None:
            self._keep_peaks(event.is_final)

    def _keep_peaks(self, is_final: bool) -> None:
        """Keep what the tree took until now: looking closer holds what training does not."""
        if is_final or not self._tree.peaks().samples:
            self._tree.sample()
        self._evidence.memory = self._tree.peaks()

    def _take_exit(self, event: ExitEvent) -> None:
        """Keep the exit of the process that trained; a launcher's own exit says less."""
        known = self._evidence.exit
        if known is None or event.steps > known.steps or (event.error and not known.error):
            self._evidence.exit = event
        self._evidence.steps = max(self._evidence.steps, event.steps)
        self._evidence.batches = max(self._evidence.batches, event.batches)

    def _over_limit(self) -> bool:
        now, limits, evidence = self._clock(), self._limits, self._evidence
        self._work.look()
        if evidence.agent_error is not None or evidence.by_hand is not None or evidence.limit is not None:
            return True
        if self._trains_elsewhere(now):
            return True
        if now - self._moved_at > _QUIET_S and self._cannot_tell():
            evidence.reach(OutcomeKind.AGENT_ABSENT, "")
        elif now - self._started_at - self._start_s(now) > limits.trial_s:
            self._reach_trial_limit(now)
        elif evidence.done is not None and now - self._told_at > _details_limit_s(evidence.done):
            taken_s = _details_limit_s(evidence.done)
            evidence.reach(OutcomeKind.TIMEOUT, f"looking closer took over {taken_s:.0f} s ({self._phase})")
        elif now - max(self._moved_at, self._work.last_at) > limits.no_progress_s:
            self._take_pulse()
            evidence.reach(*standstill(evidence, limits.no_progress_s))
        elif self._tree.is_above(limits.ram_bytes):
            evidence.reach(
                OutcomeKind.HOST_OOM,
                f"the process tree used {self._tree.last_pss_bytes >> 20} MiB of host memory, "
                f"more than the limit of {limits.ram_bytes >> 20} MiB",
            )
        return evidence.limit is not None

    def _start_s(self, now: float) -> float:
        """Return the seconds so far that the trial's limit leaves out: it starts, compiles its first step."""
        return min(self._limits.start_s, (self._loops_at or now) - self._started_at)

    def _trains_elsewhere(self, now: float) -> bool:
        """Return whether a program that stays starts the training elsewhere, while none here has begun to."""
        evidence = self._evidence
        if evidence.steps or evidence.batches or evidence.learnt is not None or now < self._look_elsewhere_at:
            return False
        self._look_elsewhere_at = now + _ELSEWHERE_EVERY_S
        found = elsewhere_in(descendants(self._keeper.pid))
        if found is None:
            self._elsewhere_since = None
            return False
        if self._elsewhere_since is None:
            self._elsewhere_since = now
        stays_s = _ELSEWHERE_BESIDE_PYTHON_S if evidence.started else _ELSEWHERE_S
        evidence.elsewhere = found if now - self._elsewhere_since >= stays_s else None
        return evidence.elsewhere is not None

    def _cannot_tell(self) -> bool:
        """Return whether the process that trains lives and can't write its events."""
        pulse = read_pulse(self._folder)
        trains = pulse is not None and pulse.batches + pulse.steps > 0  # else it may be some helper's
        if self._folder.is_dir() and not (trains and pulse is not None and pulse.fault):
            return False
        self._take_pulse()
        return True

    def _reach_trial_limit(self, now: float) -> None:
        """End a trial that took too long; say so if it stood still for long before, or made no step."""
        limits, evidence = self._limits, self._evidence
        quiet_s = now - self._moved_at
        shorter_s = min(limits.trial_s, limits.no_progress_s)
        self._take_pulse()
        stood_still = (
            evidence.done is None
            and evidence.steps >= _HANG_STEPS
            and quiet_s > max(_HANG_SHARE * shorter_s, _HANG_GAPS * self._longest_pause_s)
        )
        if stood_still:
            kind, message = standstill(evidence, round(quiet_s))
            message += f"; the trial's limit of {limits.trial_s:g} s ended it"
            evidence.reach(kind, message, "if it was only slow, raise the limit with --trial-limit")
        elif not evidence.started and evidence.batches == evidence.steps == 0:
            evidence.reach(*standstill(evidence, round(now - self._started_at)))
        elif self._loops_at is not None and evidence.steps == 0:
            loaded = f"{evidence.batches} batches were loaded in {now - self._loops_at:.0f} s"
            evidence.reach(OutcomeKind.NO_TRAINING_LOOP, f"{loaded} without one optimizer step")
        else:
            missed = "not measured" if evidence.done is None else "still looking closer"
            taken_s = limits.trial_s + self._start_s(now)
            evidence.reach(OutcomeKind.TIMEOUT, f"{missed} after {taken_s:.0f} s ({self._phase})")

    def _report(self) -> None:
        elapsed_s = self._clock() - self._started_at
        self._on_progress(TrialProgress(self._phase, self._evidence.batches, elapsed_s))

    def _end(self, orphans: Orphans) -> None:
        """Let go of the leash, read how the target ended, and end what a killed keeper left."""
        try:
            told, _ = self._keeper.communicate(timeout=_KEEPER_LIMIT_S)
        except subprocess.TimeoutExpired:  # it was stopped, or waits for the disk
            self._keeper.kill()
            told, _ = self._keeper.communicate()
        finally:
            orphans.end()
        evidence = self._evidence
        try:
            status = json.loads(told)
            evidence.returncode, evidence.start_error = status["returncode"], status["error"]
            evidence.left_running = status["left"]
        except (ValueError, KeyError, TypeError):
            code = self._keeper.returncode
            evidence.keeper_end = (
                f"was killed (signal {-code})" if code < 0 else f"failed with exit status {code}"
            )


def _details_limit_s(done: DoneEvent) -> float:
    return max(_DETAILS_LIMIT_S, _DETAILS_DEADLINES * done.next_within_s)


def standstill(evidence: Evidence, limit_s: float) -> tuple[OutcomeKind, str]:
    """Return what it is when nothing moves any more, and how to say so."""
    if evidence.batches == evidence.steps == 0 and not evidence.started:
        return OutcomeKind.AGENT_ABSENT, f"no Python with tunekit's agent has started within {limit_s:g} s"
    if evidence.batches == evidence.steps == 0 and not evidence.fetched:
        message = f"no batch was asked for and no optimizer step was made for {limit_s:g} s"
        return OutcomeKind.NO_TRAINING_LOOP, message
    still = "the loop waited for a batch from its loader" if evidence.fetching else "no batch and no step"
    seen = f"after {evidence.batches} batches and {evidence.steps} steps"
    return OutcomeKind.HANG, f"{still} for {limit_s:g} s {seen}; its output is in {evidence.output}"


def plain(text: str) -> str:
    """Return text of the script's, colours left out and whatever else is no visible letter written out."""
    lines = _COLOURS.sub("", text).expandtabs().split("\n")
    return "\n".join(printable(line) for line in lines)


def last_lines(log: Path) -> tuple[str, ...]:
    """Return the last output lines of the script, without blank ones."""
    try:
        with log.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ()
    lines = [plain(line).rstrip()[:500] for line in text.replace("\r", "\n").splitlines()]
    return tuple([line for line in lines if line][-_TAIL_LINES:])
