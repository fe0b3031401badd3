"""Runs a child process, reads one JSON object from its output, and ends it."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from tempfile import TemporaryFile
from typing import IO, Any, Self

from tunekit.units import MIB

_LOOK_S = 0.02
_END_S = 10.0
_REAPED_S = 1.0
_MAX_BYTES = MIB
"""The reply is looked for in this many bytes at the end of the output."""


class NoReplyError(Exception):
    """A child process gave no reply; the message continues a sentence: "ended with status 1 ...".

    Args:
        message: what it did instead, without naming the process.
        is_late: whether it was still running at the timeout.
    """

    def __init__(self, message: str, is_late: bool = False) -> None:
        super().__init__(message)
        self.is_late = is_late


class ChildProbe:
    """A process in its own session; on exit, it and everything it started are ended.

    It writes to files: a pipe would stay open for as long as any of its descendants lives. A process that
    can't be killed, because it waits for a dead server's disk, is abandoned.

    Args:
        command: program and arguments.
        environment: its environment variables; by default those of this process.
        stays: whether it keeps running after its reply until its standard input closes.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, stays: bool = False
    ) -> None:
        self._command, self._environment, self._stays = command, environment, stays
        self._output: IO[bytes] = TemporaryFile()  # noqa: SIM115 - closed on exit
        self._errors: IO[bytes] = TemporaryFile()  # noqa: SIM115

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def __enter__(self) -> Self:
        """Start the process.

        Raises:
            NoReplyError: it can't be started.
        """
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE if self._stays else subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._errors,
                env=self._environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._close()
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise NoReplyError(f"can't be started: {reason}") from error
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_END_S if error[0] is None else 0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_REAPED_S)
        self._close()

    def reply(self, timeout_s: float) -> dict[str, Any]:
        """Return the last JSON object that it has written, one object per line.

        Raises:
            NoReplyError: it writes none in time, or ends without one.
        """
        end_s = time.monotonic() + timeout_s
        while True:
            has_ended = self._process.poll() is not None
            if has_ended or self._stays:
                found = _last_object(_end_of(self._output))
                if found is not None:
                    return found
            if has_ended:
                lines = [line.strip() for line in _end_of(self._errors).split("\n")]
                last = next((line for line in reversed(lines) if line), "it wrote nothing")
                raise NoReplyError(f"ended with status {self._process.returncode} without an answer: {last}")
            if time.monotonic() >= end_s:
                raise NoReplyError(f"did not answer within {timeout_s:g} s", is_late=True)
            time.sleep(_LOOK_S)

    def _close(self) -> None:
        self._output.close()
        self._errors.close()


def reply_of(
    command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a process to its end and return its reply.

    Args:
        command: program and arguments.
        timeout_s: after this long, it and everything it started are killed.
        environment: its environment variables; by default those of this process.

    Raises:
        NoReplyError: it writes none in time, or ends without one.
    """
    with ChildProbe(command, environment) as probe:
        return probe.reply(timeout_s)


def _end_of(file: IO[bytes]) -> str:
    """Return the end of what the child has written, without moving its position in the file."""
    size_bytes = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), _MAX_BYTES, max(0, size_bytes - _MAX_BYTES)).decode("utf-8", "replace")


def _last_object(output: str) -> dict[str, Any] | None:
    """Return the last complete line that is a JSON object; other output may surround it."""
    for line in reversed(output.split("\n")[:-1]):
        if line.startswith("{"):
            with contextlib.suppress(ValueError, RecursionError):
                return dict(json.loads(line))
    return None
