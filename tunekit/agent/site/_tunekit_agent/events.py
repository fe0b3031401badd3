"""Append-only JSON lines, one file per process that loads the agent."""

from __future__ import annotations

import json
import os
import threading
import time

from .process import Owner


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
        self._writer_pid = -1
        self._handle = -1
        self._lock = threading.Lock()

    def emit(self, event: str, **fields: object) -> None:
        """Append one event; it is on its way to the parent when this returns."""
        if not self._owner.is_here:
            return
        line = json.dumps({"event": event, "time_s": time.time(), **fields}, default=str) + "\n"
        with self._lock:
            if self._writer_pid != self._owner.pid:
                self._writer_pid = self._owner.pid
                path = os.path.join(self._folder, f"events-{self._writer_pid}.jsonl")
                self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            os.write(self._handle, line.encode("utf-8", "replace"))
