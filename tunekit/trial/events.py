"""Reads the agents' events as they arrive, and collects them as the evidence of a trial.

Events are validated line by line and bounded in size and number.
"""

import os
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from pydantic import ValidationError

from tunekit.errors import UnreadableError
from tunekit.machine.telemetry.series import Series
from tunekit.plain_text import printable
from tunekit.records.agent_messages import (
    AgentErrorEvent,
    AgentEvent,
    ByHandEvent,
    DoneEvent,
    ExitEvent,
    GuardErrorEvent,
    LearntEvent,
    NonfiniteEvent,
    OptionsEvent,
    ProgressEvent,
    RankEvent,
    RankTurn,
    RerunsMainEvent,
    StartEvent,
    WrittenEvent,
    parse_event,
)
from tunekit.records.data_parallel import RankSeen
from tunekit.records.measurement import TreeMemory
from tunekit.records.target import Discovery, ScriptOption
from tunekit.records.trial import OutcomeKind, WrittenFile
from tunekit.trial.external_launchers import ExternalLauncher
from tunekit.units import count_text
from tunekit.untrusted import open_regular

MAX_LINE_BYTES = 1 << 20
MAX_FILE_BYTES = 64 << 20
MAX_FILES = 512
_PULSE = struct.Struct("<3Q")
_MAX_FAULT_BYTES = 500
"""Size of the message after a pulse's numbers."""
_END_BYTES = 64
"""Size of the last part read, which must still be in the file when reading continues."""
_MAX_COUNTED = 1 << 53
_MAX_WRITTEN = 1000
_MAX_FAULTS = 20
_MAX_PARSERS = 64
_MAX_RANKS = 1024
_MAX_TURNS = 20_000
"""Turns kept per rank, which reports two a second."""
_MIN_TIMED_S = 0.1
"""Minimum time between a rank's first and last turn to compute a rate."""
_LOOP_BATCHES = 16
"""Batches after which a script without steps counts as in its loop; before that, it may still compile."""
_RERUN = "processes that the script starts by spawn or forkserver run all of it again, including its training"
NO_GUARD_REMEDY = (
    'put what the script runs under `if __name__ == "__main__":`, since processes started by spawn or '
    "forkserver import the script again; or load with num_workers=0"
)
_TAIL_BYTES = 64 << 10
_TAIL_LINES = 20
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""ANSI escape sequences."""
_LAUNCHERS_ERROR = "ChildFailedError"
_LAUNCHERS_LINES = re.compile(r"torch[./]distributed[./]elastic[./].*(?:failed \(exitcode|closing signal)")
"""torchrun's first line about a failed rank; the cause is printed before it."""


@dataclass(frozen=True)
class Pulse:
    """The last thing that a training process did, which is known however it ended."""

    fetching: bool
    """Whether it was waiting for a batch rather than training on one."""
    batches: int
    steps: int
    fault: str | None = None
    """Why it could not write its last event, if it failed."""


def read_pulse(folder: Path) -> Pulse | None:
    """Return the pulse of the process that trained most; None if there is no pulse."""
    pulses = [_pulse_in(path) for path in sorted(folder.glob("pulse-*"))[:MAX_FILES]]
    known = [pulse for pulse in pulses if pulse is not None]
    return max(known, key=lambda pulse: (pulse.steps, pulse.batches), default=None)


def _pulse_in(path: Path) -> Pulse | None:
    data = _bytes_from(path, 0, _PULSE.size + _MAX_FAULT_BYTES)
    if len(data) < _PULSE.size:
        return None
    doing, batches, steps = _PULSE.unpack(data[: _PULSE.size])
    fault = data[_PULSE.size :].partition(b"\0")[0].decode("utf-8", "replace")
    return Pulse(doing == 1, batches, steps, fault or None) if max(batches, steps) < _MAX_COUNTED else None


class EventReader:
    """Reads the event files of one trial's folder incrementally.

    Attributes:
        rejected_lines: number of lines that were skipped because they were not valid events.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._ends: dict[Path, bytes] = {}
        self._partial: dict[Path, bytes] = {}
        self.rejected_lines = 0

    def read_new(self) -> list[AgentEvent]:
        """Return the events that were completed since the last call, in order within each file."""
        events: list[AgentEvent] = []
        for path in sorted(self._folder.glob("events-*.jsonl"))[:MAX_FILES]:
            events.extend(self._read_file(path))
        return events

    def _read_file(self, path: Path) -> list[AgentEvent]:
        offset = self._offsets.get(path, 0)
        if offset >= MAX_FILE_BYTES:
            return []
        end = self._ends.get(path, b"")
        data = _bytes_from(path, offset - len(end), MAX_FILE_BYTES)
        if not data.startswith(end):  # the script removed or emptied the file, and the agent began a new one
            offset, end, data = 0, b"", _bytes_from(path, 0, MAX_FILE_BYTES)
            self._partial.pop(path, None)
        fresh = data[len(end) :]
        self._offsets[path] = offset + len(fresh)
        self._ends[path] = data[-_END_BYTES:]
        *lines, rest = (self._partial.get(path, b"") + fresh).split(b"\n")
        self._partial[path] = rest if len(rest) <= MAX_LINE_BYTES else b"?"  # becomes an invalid event
        return [event for line in lines if line and (event := self._parse(line)) is not None]

    def _parse(self, line: bytes) -> AgentEvent | None:
        try:
            if len(line) > MAX_LINE_BYTES:
                raise ValueError("line too long")
            return parse_event(line)
        except (ValidationError, ValueError):
            self.rejected_lines += 1
            return None


def _bytes_from(path: Path, offset: int, end: int) -> bytes:
    """Return a file's content from one offset to another; empty if the script removed or replaced it."""
    try:
        with open_regular(path, follows=False) as stream:
            stream.seek(offset)
            return stream.read(end - offset) or b""
    except (OSError, UnreadableError):
        return b""


@dataclass
class Evidence:
    """Everything that is known when a trial is over; `outcome` turns it into a verdict."""

    started: bool = False
    images: set[int] = field(default_factory=set)
    """Stack start addresses of the processes that run the agent."""
    phase: str = "starting"
    steps: int = 0
    batches: int = 0
    wait_s: float = 0.0
    """Total wait for the loader's next()."""
    ranks: dict[int, RankEvent] = field(default_factory=dict)
    """The latest report of each rank."""
    turns: dict[int, list[RankTurn]] = field(default_factory=dict)
    """Each rank's progress at each of its reports."""
    measuring_from_s: float | None = None
    """When the measurement was first reported to have begun, in seconds since the epoch."""
    measured_at_s: float | None = None
    """When the measurement was complete."""
    fetching: bool = False
    """Whether the loop was waiting for a batch in its last report."""
    fetched: bool = False
    """Whether a loader was ever asked for a batch."""
    learnt: LearntEvent | None = None
    trainers: set[int] = field(default_factory=set)
    """Pids of the processes that train at once; of a process group, only one per host reports its loop."""
    options: dict[int, tuple[ScriptOption, ...]] = field(default_factory=dict)
    """Command-line options, by the pid of the process that parsed them."""
    done: DoneEvent | None = None
    nonfinite: NonfiniteEvent | None = None
    exit: ExitEvent | None = None
    by_hand: ByHandEvent | None = None
    """Set if the loop trains without a torch optimizer."""
    external_launcher: ExternalLauncher | None = None
    """A program in the tree that starts the training where the agent can't run."""
    agent_error: AgentErrorEvent | None = None
    """The agent's own exception, after which it observes nothing more."""
    faults: list[str] = field(default_factory=list)
    """Faults of the file guard and the agent that didn't stop the trial."""
    rejected_lines: int = 0
    """Number of lines in the event files that were not valid events."""
    written: list[WrittenFile] = field(default_factory=list)
    limit: OutcomeKind | None = None
    """Which of our limits ended the trial, if one did."""
    limit_message: str = ""
    limit_remedy: str | None = None
    """The remedy, if it differs from the outcome's usual one."""
    cannot_report: str | None = None
    """Why the agent could not write its events, if it failed."""
    keeper_end: str | None = None
    """How the keeper ended, if not normally."""
    left_running: int = 0
    """Number of processes that were still running after the script had ended."""
    returncode: int | None = None
    start_error: str | None = None
    """Why the command could not be started at all."""
    memory: TreeMemory | None = None
    loop_at_s: float | None = None
    """When its loop was first observed, in seconds since the start; None if it was not."""
    series: tuple[Series, ...] = ()
    """Time series of its processes and GPUs."""
    sampling_cpu_s: float = 0.0
    last_lines: tuple[str, ...] = ()
    output: str = ""
    """Path of the script's complete output."""
    oom_kills: int = 0
    """Processes on this host that the kernel's OOM killer ended during the trial."""
    duration_s: float = 0.0

    def hit_limit(self, limit: OutcomeKind, message: str, remedy: str | None = None) -> None:
        """Note which of our limits ends the trial, with its message and remedy."""
        self.limit, self.limit_message, self.limit_remedy = limit, message, remedy

    def take(self, event: AgentEvent, at_s: float) -> None:
        """Add an agent's event.

        Args:
            event: an event from any process of the trial.
            at_s: seconds since the trial's start.
        """
        if isinstance(event, LearntEvent) and event.discovery.complete:
            running = {pid for pid in self.trainers if os.path.isdir(f"/proc/{pid}")}  # noqa: PTH112 - as below
            self.trainers = running | {event.pid}
        match event:
            case StartEvent():
                self.started = True
                self.images.add(event.image)
            case ProgressEvent():
                self._take_progress(event, at_s)
            case RankEvent():
                self._take_rank(event)
            case OptionsEvent() if event.pid in self.options or len(self.options) < _MAX_PARSERS:
                self.options[event.pid] = event.options
            case LearntEvent() if (
                self.learnt is None or self.learnt.pid == event.pid or not self.learnt.discovery.complete
            ):
                self.learnt = event  # the latest from the first process that knows its loop, or a partial one
            case DoneEvent() if self.done is None or not self.done.is_final:
                self.measured_at_s = self.measured_at_s or event.time_s
                self.done = event  # a later one has more details
            case NonfiniteEvent():
                self.nonfinite = event
            case RerunsMainEvent():
                self.hit_limit(OutcomeKind.WORKER_CRASH, _RERUN, NO_GUARD_REMEDY)
            case ByHandEvent():
                self.by_hand = event
            case ExitEvent():
                self._take_exit(event)
            case WrittenEvent() if len(self.written) < _MAX_WRITTEN:
                self.written.append(WrittenFile(path=event.path, action=event.action))
            case GuardErrorEvent():
                self._add_fault(event.message)
            case AgentErrorEvent() if event.is_over:
                self.agent_error = self.agent_error or event
            case AgentErrorEvent():
                self._add_fault(f"the agent failed {place_and_message(event)}")

    def _take_progress(self, event: ProgressEvent, at_s: float) -> None:
        self.phase = event.phase
        self.wait_s = max(self.wait_s, event.wait_s)
        self.fetched |= event.phase == "fetching"
        if self.measuring_from_s is None and event.phase == "measuring":
            self.measuring_from_s = event.time_s
        self._advance(event.batches, event.steps)
        if self.loop_at_s is None and (event.steps or event.batches >= _LOOP_BATCHES):
            self.loop_at_s = at_s

    def _take_exit(self, event: ExitEvent) -> None:
        is_launchers = event.error is not None and event.error.types[0].endswith(_LAUNCHERS_ERROR)
        error = None if is_launchers else event.error  # a launcher's only says that a rank has failed
        known = self.exit  # the exit of the process that trained says more than its launcher's
        if known is None or event.steps > known.steps or (error and not known.error):
            self.exit = event.changed(error=error)
        self._advance(event.batches, event.steps)

    def _add_fault(self, message: str) -> None:
        fault = plain(message)[:500]
        if fault not in self.faults and len(self.faults) < _MAX_FAULTS:
            self.faults.append(fault)

    def _take_rank(self, event: RankEvent) -> None:
        self.ranks[event.rank] = event
        if event.turn is None or (event.rank not in self.turns and len(self.turns) >= _MAX_RANKS):
            return
        turns = self.turns.setdefault(event.rank, [])
        if len(turns) < _MAX_TURNS:
            turns.append(event.turn)

    def ranks_seen(self) -> tuple[RankSeen, ...]:
        """Return each rank's rate in the measured window; empty unless all ranks have one."""
        if self.measuring_from_s is None or self.measured_at_s is None or len(self.turns) < 2:
            return ()
        window = self.measuring_from_s, self.measured_at_s
        rates = [_rank_seen(rank, turns, *window) for rank, turns in sorted(self.turns.items())]
        timed = tuple(one for one in rates if one is not None)
        return timed if len(timed) == len(rates) else ()

    def take_pulse(self, folder: Path) -> None:
        """Add the training process's last state, since events lag behind and a killed process sends none."""
        if not os.path.isdir(folder):  # noqa: PTH112 - which a locked parent doesn't make raise
            self.cannot_report = f"the agent's folder {folder} was removed or locked by the script"
        pulse = read_pulse(folder)
        if pulse is not None:
            self.cannot_report = pulse.fault
            self.fetching = pulse.fetching
            self.fetched |= pulse.fetching or pulse.batches > 0
            self._advance(pulse.batches, pulse.steps)

    def _advance(self, batches: int, steps: int) -> None:
        self.batches, self.steps = max(self.batches, batches), max(self.steps, steps)

    def standstill(self, limit_s: float) -> tuple[OutcomeKind, str]:
        """Return the outcome of a trial without progress, and its message."""
        if self.batches == self.steps == 0 and not self.started:
            message = f"no Python with tunekit's agent has started within {limit_s:g} s"
            return OutcomeKind.AGENT_ABSENT, message
        if self.batches == self.steps == 0 and not self.fetched:
            message = f"no batch was asked for and no optimizer step was made for {limit_s:g} s"
            return OutcomeKind.NO_TRAINING_LOOP, message
        still = "the loop waited for a batch from its loader" if self.fetching else "no batch and no step"
        seen = f"after {count_text(self.batches, 'batch', 'batches')} and {count_text(self.steps, 'step')}"
        return OutcomeKind.HANG, f"{still} for {limit_s:g} s {seen}; its output is in {self.output}"

    @property
    def discovery(self) -> Discovery | None:
        """What was learnt about the loop, with the options of the command line.

        A process started by a launcher or `spawn` may not have parsed them; then another process's are used.
        """
        if self.learnt is None:
            return None
        last = next(reversed(self.options.values()), ())
        options = self.options.get(self.learnt.pid, last)
        return self.learnt.discovery.changed(options=options)


def _rank_seen(rank: int, turns: Sequence[RankTurn], from_s: float, until_s: float) -> RankSeen | None:
    """Return a rank's rate from its first to its last turn in a time range; None without two turns."""
    inside = [turn for turn in turns if from_s <= turn.at_s <= until_s]
    if not inside:
        return None
    time_s, samples = inside[-1].at_s - inside[0].at_s, inside[-1].samples - inside[0].samples
    if time_s < _MIN_TIMED_S or samples <= 0:
        return None
    batches = inside[-1].batches - inside[0].batches
    return RankSeen(
        rank=rank, samples_per_s=samples / time_s, batch_samples=samples / batches if batches > 0 else None
    )


def place_and_message(event: AgentErrorEvent) -> str:
    """Return where the agent failed, and with which exception: "in PLACE: MESSAGE"."""
    return f"in {event.place or 'an unknown place'}: {event.message}"


def plain(text: str) -> str:
    """Return text from the script without colours, with other invisible characters escaped."""
    lines = _COLOURS.sub("", text).expandtabs().split("\n")
    return "\n".join(printable(line) for line in lines)


def last_lines(log: Path) -> tuple[str, ...]:
    """Return the script's last output lines, without blank lines and torchrun's report on its ranks."""
    try:
        with open_regular(log, follows=False) as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            text = (stream.read(_TAIL_BYTES) or b"").decode("utf-8", "replace")
    except (OSError, UnreadableError):
        return ()
    lines = [plain(line).rstrip()[:500] for line in text.replace("\r", "\n").splitlines()]
    of_ranks = list(takewhile(lambda line: not _LAUNCHERS_LINES.search(line), lines))
    return tuple([line for line in of_ranks if line][-_TAIL_LINES:])
