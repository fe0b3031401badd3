"""Which torch a Python interpreter has, asked in a process of its own: this one never imports torch."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from pydantic import ValidationError

from tunekit.records.host import TorchBuild
from tunekit.units import MIB

_SCRIPT = Path(__file__).with_name("torch_probe.py")

_MOST_BYTES = MIB
"""Of the end of what the process wrote, read for its answer."""


@dataclass(frozen=True)
class TorchAbsent:
    """No torch could be asked."""

    reason: str
    has_python_answered: bool = True
    """Whether the Python that training runs was asked and answered, and so is sure to have none."""


def torch_build(
    python: str = sys.executable, timeout_s: float = 60.0, environment: Mapping[str, str] | None = None
) -> TorchBuild | TorchAbsent:
    """Return what torch an interpreter has, or why there is no answer.

    Args:
        python: the interpreter of the training environment.
        timeout_s: how long it may take; then it is killed with all that it started.
        environment: its environment variables; this process's by default.
    """
    with TemporaryFile() as output, TemporaryFile() as errors:
        try:
            status = _run([python, str(_SCRIPT)], timeout_s, environment, output, errors)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return TorchAbsent(f"{python} can't be started: {reason}")
        if status is None:
            return TorchAbsent(
                f"{python} did not tell of its torch within {timeout_s:g} s", has_python_answered=False
            )
        reply = _reply_in(_end_of(output))
        if reply is None:
            lines = _end_of(errors).split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")
            return TorchAbsent(f"{python} ended with status {status} and told nothing of torch: {last}")
    if "absent" in reply:
        return TorchAbsent(f"{python} has no torch that can be imported: {reply['absent']}")
    try:
        return TorchBuild.model_validate({"python": python, **reply})
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(map(str, fault["loc"]))
        return TorchAbsent(f"{python} told nonsense of its torch: {field}: {fault['msg']}")


def _run(
    command: list[str],
    timeout_s: float,
    environment: Mapping[str, str] | None,
    output: IO[bytes],
    errors: IO[bytes],
) -> int | None:
    """Run a command in a session of its own and return its exit status, None if it had to be killed.

    It writes to files: a pipe would stay open as long as anything that it left behind.

    Raises:
        OSError: it can't be started.
        ValueError: its name is no name.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        env=environment,
        start_new_session=True,
    )
    try:
        return process.wait(timeout_s)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            return None
        raise


def _end_of(file: IO[bytes]) -> str:
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(max(0, size_bytes - _MOST_BYTES))
    return file.read().decode("utf-8", "replace")


def _reply_in(output: str) -> dict[str, Any] | None:
    """Return the last line that is a JSON object: other things may be said at exit."""
    for line in reversed(output.split("\n")):
        if line.startswith("{"):
            with contextlib.suppress(ValueError, RecursionError):
                return dict(json.loads(line))
    return None
