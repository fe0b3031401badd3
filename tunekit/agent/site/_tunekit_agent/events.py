"""Reports to the parent: JSON event lines and a pulse per process, and the loop's progress."""

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
"""This many batches and steps are reported one by one, so that an early stop is known to the batch."""
_PULSE = struct.Struct("<3Q")
_MAX_FAULT_BYTES = 500


class Pulse:
    """A few bytes that say what this process is doing and survive however it ends.

    `pulse-PID` in the trial's folder holds three little-endian numbers (FETCHING or TRAINING, batches,
    steps), followed by why the last event could not be written, if it failed. A pulse is far cheaper than an
    event, so every batch and step is recorded. It is created before the script runs: mapped memory is immune
    to limits that the script sets, to a full disk and to closed descriptors.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._open()

    def record(self, doing: int, batches: int, steps: int) -> None:
        """Overwrite the previous state."""
        if self._pid != os.getpid():
            self._open()  # a forked rank gets its own
        if self._memory is not None:
            _PULSE.pack_into(self._memory, 0, doing, batches, steps)

    def record_fault(self, fault: str) -> None:
        if self._memory is not None:
            said = fault.encode("utf-8", "replace")[: _MAX_FAULT_BYTES - 1]
            self._memory[_PULSE.size :] = said.ljust(_MAX_FAULT_BYTES, b"\0")

    def _open(self) -> None:
        self._pid = os.getpid()
        self._memory: mmap.mmap | None = None
        try:  # without a pulse, the parent only has the events
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

    Pipes don't survive launchers and spawned processes; a file per process does. A forked child reports
    nothing: it is a loader worker or a launcher's helper, and its parent reports for it.

    Attributes:
        pulse: the process's current state, written in addition to events; None for a real training.
    """

    def __init__(self, folder: str, owner: Owner) -> None:
        self._folder = folder
        self._owner = owner
        self._handle = -1
        self._lock = threading.Lock()
        self._fault = ""
        self.pulse: Pulse | None = None

    def emit(self, event: str, **fields: object) -> None:
        """Append one event, which has reached the file when this returns.

        A failed write is left for the parent to notice; the script never sees it.
        """
        if not self._owner.is_here:
            return
        # Start a new line, in case something else wrote half of one.
        line = "\n" + as_json({"event": event, "time_s": time.time(), **fields}) + "\n"
        with self._lock:
            try:
                self._write(line.encode("utf-8", "replace"))
            except OSError as error:
                self._record_fault(error.strerror or str(error))
            else:
                self._record_fault("")

    def _record_fault(self, fault: str) -> None:
        if self.pulse is not None and fault != self._fault:
            self.pulse.record_fault(fault)
        self._fault = fault

    def _write(self, line: bytes) -> None:
        """Append a complete line.

        Raises:
            OSError: there is no room for it, or the folder is gone.
        """
        path = os.path.join(self._folder, f"events-{self._owner.pid}.jsonl")
        if not self._is_open(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._handle = os.open(path, flags, 0o644)
        while line:  # a nearly full disk takes a part without an error
            line = line[os.write(self._handle, line) :]

    def _is_open(self, path: str) -> bool:
        """Return whether the handle is still our file: the script may close every descriptor it finds."""
        try:
            return self._handle >= 0 and os.path.samestat(os.fstat(self._handle), os.stat(path))
        except OSError:
            return False


class Progress:
    """Counts batches and steps, and reports them: each one in the pulse, now and then in an event."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._reported_at = 0.0
        self.batches = self.steps = self.samples = 0
        self.wait_s = 0.0  # total wait for the loader's next()
        self._turn: dict | None = None

    def pulse(self, doing: int) -> None:
        self._log.pulse.record(doing, self.batches, self.steps)

    def turn_ended(self) -> None:
        """Remember how far the loop has come."""
        counted = {"samples": self.samples, "batches": self.batches or self.steps}
        self._turn = {"at_s": time.time(), **counted}

    def report(self, phase: str, ranks: Ranks) -> None:
        """Report the phase, unless that was done a moment ago; each of several ranks reports its memory."""
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
