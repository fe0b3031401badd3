"""Calls a function on a data set in a child process, as a system call on a dead mount may never return."""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tunekit.errors import TunekitError, UsageError
from tunekit.machine.child_probe import NoReplyError, reply_of
from tunekit.records.base import Record
from tunekit.units import duration_text

_CHILD = (sys.executable, "-P", "-c", "from tunekit.machine.storage.data_probe import main; main()")


def answer_of(function: Callable[..., Any], path: Path, limit_s: float, **arguments: Any) -> Any:
    """Call a function in a child process and return its result as JSON values.

    Args:
        function: a module's function, whose first argument is a path; it may return records.
        path: the data set.
        limit_s: seconds after which the child is killed.
        arguments: its other arguments, as JSON values.

    Raises:
        UsageError: the function refuses the path, or does not return in time.
        TunekitError: the child process fails.
    """
    name = f"{function.__module__}:{function.__name__}"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        reply = reply_of([*_CHILD, name, os.fspath(path), json.dumps(arguments)], limit_s, environment)
    except NoReplyError as error:
        if not error.is_late:
            raise TunekitError(f"the process that inspected the data set {str(path)!r} {error}") from error
        raise UsageError(
            f"the data set {str(path)!r} did not respond within {duration_text(limit_s)}: is its file server "
            "down? Check the mount with findmnt, and leave this data set out until it responds"
        ) from None
    if "refused" in reply:
        raise UsageError(reply["refused"])
    return reply["answer"]


def main() -> None:
    """Call the function that this process's arguments name, and print its result as JSON."""
    name, path, arguments = sys.argv[-3:]
    module, _, function = name.partition(":")
    try:
        reply = {"answer": getattr(import_module(module), function)(Path(path), **json.loads(arguments))}
    except UsageError as error:
        reply = {"refused": str(error)}
    sys.stdout.write(json.dumps(reply, default=_plain) + "\n")


def _plain(record: Record) -> dict[str, Any]:
    return record.model_dump(mode="json")
