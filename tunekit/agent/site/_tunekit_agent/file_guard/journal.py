"""What the processes of one trial did to the files, in the order they did it, for all of them to know."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import posix
import sys
import threading
from typing import Any, Callable

from .paths import make_folders

_HEADER_BYTES = 8
"""The file's size when the last line was complete; it is mapped into memory, so that asking costs nothing."""
_READ_BYTES = 1 << 16


class Journal:
    """An append-only file of JSON lines; as a context, the right to read, decide and append.

    Forked workers, spawned children and the ranks of one trial hold it in turns. A process that dies
    loses it; the script may close every descriptor that it finds.

    Args:
        path: the file, made when it is missing.
        apply: called with the words of each line, in order, whichever process wrote it.
    """

    def __init__(self, path: str, apply: Callable) -> None:
        self._path = path
        self._apply = apply
        self._read = _HEADER_BYTES
        self._handle = -1
        self._depth = 0
        self._threads = threading.RLock()
        make_folders(os.path.dirname(path))
        handle = posix.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(handle)
            if posix.fstat(handle).st_size < _HEADER_BYTES:
                posix.pwrite(handle, _HEADER_BYTES.to_bytes(_HEADER_BYTES, sys.byteorder), 0)
            self._size = memoryview(mmap.mmap(handle, _HEADER_BYTES)).cast("Q")
        finally:
            posix.close(handle)
        os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        self._threads = threading.RLock()
        self._depth = 0

    @property
    def has_news(self) -> bool:
        """Whether there are lines that this process hasn't read."""
        return self._size[0] != self._read

    def __enter__(self) -> Journal:
        self._threads.acquire()
        self._depth += 1
        if self._depth == 1:
            self._handle = -1
            with contextlib.suppress(OSError):  # the trial's folder is gone: it is over
                self._handle = posix.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
                _lock(self._handle)
                self._take()
        return self

    def __exit__(self, *_: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._handle >= 0:
            posix.close(self._handle)
        self._threads.release()

    def add(self, *words: object) -> None:
        """Append a line and apply it."""
        with self:
            if self._handle < 0:
                self._apply(*words)
                return
            posix.write(self._handle, (json.dumps(words) + "\n").encode("ascii"))
            self._size[0] = posix.fstat(self._handle).st_size
            self._take()

    def _take(self) -> None:
        data = b""
        while True:
            more = posix.pread(self._handle, _READ_BYTES, self._read + len(data))
            data += more
            if len(more) < _READ_BYTES:
                break
        complete = data.rpartition(b"\n")[0]
        if complete:
            self._read += len(complete) + 1
            for line in complete.split(b"\n"):
                self._apply(*json.loads(line))


def _lock(handle: int) -> None:
    """Wait for the other processes; a file system without locks is used without."""
    with contextlib.suppress(OSError):
        posix.lockf(handle, os.F_LOCK, 0)
