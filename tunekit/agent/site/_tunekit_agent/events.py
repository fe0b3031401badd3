"""What the parent hears: JSON lines, a file for each process; its pulse; the progress of the loop."""

from __future__ import annotations

import mmap
import struct
import sys
import threading
from typing import Any

from .measure import device
from .originals import as_json, os, time
from .process import Owner, Ranks

TRAINING, FETCHING = 0, 1
_PROGRESS_EVERY_S = 0.5
_EARLY_PROGRESS = 32
"""Batches and steps that are each reported: a script that stops early should be known to the batch."""
_PULSE = struct.Struct("<3Q")
_MAX_FAULT_BYTES = 500


class Pulse:
    """What this process does right now, in a few bytes that outlive it however it ends.

    `pulse-PID` in the trial's folder holds three little-endian numbers: FETCHING or TRAINING, batches, steps;
    and then why the last event could not be written, if it could not. Telling costs far less than an event,
    so every batch and step is written. It is made before the script runs: limits that the script sets, a full
    disk and closed descriptors don't reach memory that is mapped.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._open()

    def tell(self, doing: int, batches: int, steps: int) -> None:
        """Overwrite what stood there before."""
        if self._pid != os.getpid():
            self._open()  # a forked rank has its own
        if self._memory is not None:
            _PULSE.pack_into(self._memory, 0, doing, batches, steps)

    def tell_fault(self, fault: str) -> None:
        if self._memory is not None:
            said = fault.encode("utf-8", "replace")[: _MAX_FAULT_BYTES - 1]
            self._memory[_PULSE.size :] = said.ljust(_MAX_FAULT_BYTES, b"\0")

    def _open(self) -> None:
        self._pid = os.getpid()
        self._memory: mmap.mmap | None = None
        try:  # without it, the parent knows the loop by its events
            path = os.path.join(self._folder, f"pulse-{self._pid}")
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                os.write(handle, bytes(_PULSE.size + _MAX_FAULT_BYTES))
                self._memory = mmap.mmap(handle, _PULSE.size + _MAX_FAULT_BYTES)
            finally:
                os.close(handle)
        except (OSError, ValueError):
            pass


class EventLog:
    """Writes events to `events-PID.jsonl` in the trial's folder.

    Pipes don't survive launchers and spawned processes; a file per process does. A forked child
    keeps silent: it is a loader worker or a launcher's helper, and its parent speaks for it.

    Attributes:
        pulse: what this process does, beside its events; None for a real training.
    """

    def __init__(self, folder: str, owner: Owner) -> None:
        self._folder = folder
        self._owner = owner
        self._handle = -1
        self._lock = threading.Lock()
        self._fault = ""
        self.pulse: Pulse | None = None

    def emit(self, event: str, **fields: object) -> None:
        """Append one event; it is on its way to the parent when this returns.

        What can't be written is the parent's to notice, never the script's.
        """
        if not self._owner.is_here:
            return
        # On a line of its own, whatever somebody else wrote before.
        line = "\n" + as_json({"event": event, "time_s": time.time(), **fields}) + "\n"
        with self._lock:
            try:
                self._write(line.encode("utf-8", "replace"))
            except OSError as error:
                self._tell_fault(error.strerror or str(error))
            else:
                self._tell_fault("")

    def _tell_fault(self, fault: str) -> None:
        if self.pulse is not None and fault != self._fault:
            self.pulse.tell_fault(fault)
        self._fault = fault

    def _write(self, line: bytes) -> None:
        """Append a line whole.

        Raises:
            OSError: there is no room for it, or no folder any more.
        """
        path = os.path.join(self._folder, f"events-{self._owner.pid}.jsonl")
        if not self._is_open(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._handle = os.open(path, flags, 0o644)
        while line:  # as much as there is room for is written without an error
            line = line[os.write(self._handle, line) :]

    def _is_open(self, path: str) -> bool:
        """Return whether the handle still is our file: the script may close every descriptor it finds."""
        try:
            return self._handle >= 0 and os.path.samestat(os.fstat(self._handle), os.stat(path))
        except OSError:
            return False


class Progress:
    """Counts batches and steps, and reports them: at every turn in the pulse, now and then in an event."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._reported_at = 0.0
        self.batches = self.steps = self.samples = 0
        self.wait_s = 0.0  # for the loader's next(), all batches together
        self._turn: dict | None = None

    def pulse(self, doing: int) -> None:
        self._log.pulse.tell(doing, self.batches, self.steps)

    def turn_ended(self) -> None:
        """Remember how far the loop has come by now."""
        counted = {"samples": self.samples, "batches": self.batches or self.steps}
        self._turn = {"at_s": time.time(), **counted}

    def report(self, phase: str, ranks: Ranks) -> None:
        """Report the phase, unless that was done a moment ago; of several ranks each tells its memory."""
        now = time.perf_counter()
        if now - self._reported_at < _PROGRESS_EVERY_S and self.batches + self.steps > _EARLY_PROGRESS:
            return
        self._reported_at = now
        if ranks.measures:
            seen = {"batches": self.batches, "steps": self.steps, "wait_s": self.wait_s}
            self._log.emit("progress", phase=phase, **seen)
        if ranks.measures and ranks.world_size == 1:
            return
        memory = device.memory_facts() if "torch" in sys.modules else {}
        self._log.emit("rank", rank=ranks.rank, world_size=ranks.world_size, turn=self._turn, **memory)
