"""Append-only JSON lines, one file per process that loads the agent, and its pulse."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import threading
import time

from .process import Owner

TRAINING, FETCHING = 0, 1
_PULSE = struct.Struct("<3Q")


class EventLog:
    """Writes events to `events-PID.jsonl` in the trial's folder.

    Pipes don't survive launchers and spawned processes; a file per process does. A forked child
    keeps silent: it is a loader worker or a launcher's helper, and its parent speaks for it.

    Args:
        folder: the trial's folder.
        owner: the process that speaks.
    """

    def __init__(self, folder: str, owner: Owner) -> None:
        self._folder = folder
        self._owner = owner
        self._handle = -1
        self._lock = threading.Lock()

    def emit(self, event: str, **fields: object) -> None:
        """Append one event; it is on its way to the parent when this returns.

        A folder that is gone is the parent's to notice, never the script's.
        """
        if not self._owner.is_here:
            return
        told = {"event": event, "time_s": time.time(), **fields}
        # Not as ASCII: an escaped half of a surrogate pair, as odd file names have, is no valid JSON. On a
        # line of its own, whatever somebody else wrote before.
        line = "\n" + json.dumps(told, default=str, ensure_ascii=False) + "\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        path = os.path.join(self._folder, f"events-{self._owner.pid}.jsonl")
        with self._lock, contextlib.suppress(OSError):
            if not self._is_open(path):
                self._handle = os.open(path, flags, 0o644)
            os.write(self._handle, line.encode("utf-8", "replace"))

    def _is_open(self, path: str) -> bool:
        """Return whether the handle still is our file: the script may close every descriptor it finds."""
        try:
            return self._handle >= 0 and os.path.samestat(os.fstat(self._handle), os.stat(path))
        except OSError:
            return False


class Pulse:
    """What this process does right now, in a few bytes that outlive it however it ends.

    `pulse-PID` in the trial's folder holds three little-endian numbers: FETCHING or TRAINING, batches, steps.
    Telling costs far less than an event, so every batch and step is told.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, f"pulse-{os.getpid()}")
        self._memory: mmap.mmap | None = None
        self._is_tried = False

    def tell(self, doing: int, batches: int, steps: int) -> None:
        """Overwrite what was told before."""
        if self._memory is None:
            if self._is_tried:
                return
            self._open()
        if self._memory is not None:
            _PULSE.pack_into(self._memory, 0, doing, batches, steps)

    def _open(self) -> None:
        self._is_tried = True
        with contextlib.suppress(OSError, ValueError):  # without it, the parent knows the loop by its events
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                os.write(handle, bytes(_PULSE.size))
                self._memory = mmap.mmap(handle, _PULSE.size)
            finally:
                os.close(handle)
