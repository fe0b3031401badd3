"""A journal in a folder that several hosts see: one of them at a time writes to it, and only whole lines."""

import errno
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from optuna.storages.journal import JournalFileBackend

GRACE_S = 30.0
"""How long a host may hold the lock: one that did not give it back by then is gone, or was stopped."""
_HELD = "held"
_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 1.0
_OCCUPIED = (errno.EEXIST, errno.ENOTEMPTY)
_BLOCK_BYTES = 1 << 16


class JournalLock:
    """A lock between hosts that holds on network file systems too, and is one owner's at a time.

    Who has it has a folder with one file, whose name nobody else ever has. A folder moves to its place only
    where there is none or an empty one, and to end a hold is to remove that file by its name. Both are single
    steps of the file server, so that one host of many has the lock, and none ends another's hold by mistake.

    Args:
        folder: of the lock, made if it is not there.
        grace_s: seconds after which a lock that is held all the while is taken over.
        clock: returns seconds; only differences count.
        pause: waits for so many.
    """

    def __init__(
        self,
        folder: Path,
        grace_s: float = GRACE_S,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._held = folder / _HELD
        self._grace_s = grace_s
        self._clock = clock
        self._pause = pause
        self._token = ""

    def acquire(self) -> None:
        """Wait for the lock; one that was not given back for too long is taken over.

        Raises:
            OSError: the folder can't be used.
        """
        self._token = token = secrets.token_hex(8)
        ready = self._folder / token
        try:
            ready.mkdir(parents=True)
            (ready / token).touch()
            holder, since, pause_s = None, self._clock(), _FIRST_PAUSE_S
            while not self._is_moved(ready):
                now, before, holder = self._clock(), holder, self._holder()
                if holder is None or holder != before:
                    since = now
                elif now - since > self._grace_s:
                    self._end(holder)
                    since, pause_s = now, _FIRST_PAUSE_S
                self._pause(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        except BaseException:
            self._end(token)
            shutil.rmtree(ready, ignore_errors=True)
            raise

    def insist(self) -> None:
        """See to it that this host still has the lock.

        Raises:
            OSError: it was taken over, as this host was stopped while it had it.
        """
        if not self._is_held_by(self._token):
            raise OSError(f"{self._folder} was taken over by another host, as this one was stopped")

    def release(self) -> None:
        """Give the lock back, unless it is another's by now."""
        self._end(self._token)

    def _is_moved(self, ready: Path) -> bool:
        try:
            ready.rename(self._held)
        except FileNotFoundError:  # a file server may do again what it has done
            if not self._is_held_by(ready.name):
                raise
        except OSError as error:
            if error.errno not in _OCCUPIED:
                raise
            return False
        return True

    def _holder(self) -> str | None:
        with suppress(FileNotFoundError):
            return next((file.name for file in self._held.iterdir()), None)
        return None

    def _is_held_by(self, token: str) -> bool:
        try:
            os.utime(self._held / token)  # asks the file server; to look could be answered from a cache
        except FileNotFoundError:
            return False
        return True

    def _end(self, token: str) -> None:
        # What can't be removed now is taken over later.
        with suppress(OSError):
            (self._held / token).unlink()


class Journal(JournalFileBackend):
    """A journal that a host that is killed or stopped in the middle of a line does not spoil for the others.

    Args:
        path: of the journal, made if it is not there.
        lock: of those who write to it.
    """

    def __init__(self, path: Path, lock: JournalLock) -> None:
        super().__init__(str(path))
        self._path = path
        self._lock_of_writers = lock

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write entries, in the place of half a line whose writer was killed.

        Raises:
            OSError: the lock was lost meanwhile, and nothing is written; or the file can't be.
        """
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        lock = self._lock_of_writers
        try:
            lock.acquire()
            with open(self._path, "ab+", opener=_existing) as file:
                end = file.seek(0, os.SEEK_END)
                whole = _end_of_whole_lines(file, end)
                lock.insist()
                if whole < end:
                    file.truncate(whole)
                    lock.insist()
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        finally:
            lock.release()

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        """Return the entries from one on.

        Raises:
            OSError: a line can't be read, which may pass on a network file system.
        """
        line = log_number_from + 1
        try:
            for log in super().read_logs(log_number_from):
                yield log
                line += 1
        except ValueError:
            raise OSError(
                f"line {line} of {self._path} can't be read; if that lasts, end all hosts and remove this "
                "line: the search goes on without that one write"
            ) from None


def _existing(path: str, flags: int) -> int:
    """Open a file that is there: an empty one in place of a journal would be another search."""
    return os.open(path, flags & ~os.O_CREAT)


def _end_of_whole_lines(file: IO[bytes], end: int) -> int:
    tail, start = b"", end
    while start and b"\n" not in tail:
        start = max(0, start - (_BLOCK_BYTES if tail else 1))
        file.seek(start)
        tail = file.read(end - start)
    return start + tail.rfind(b"\n") + 1
