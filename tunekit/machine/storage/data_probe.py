"""Runs a task on a data set in a child process, as a system call on a dead mount may never return."""

import json
import os
import sys
from importlib import import_module
from typing import Any

from tunekit.errors import TunekitError, UsageError
from tunekit.machine.child_probe import NoReplyError, reply_of
from tunekit.units import duration_text

_CHILD = (sys.executable, "-P", "-c", "from tunekit.machine.storage.data_probe import main; main()")
_TASKS = {
    "access": "data_access.access",
    "cut": "layout_trial.cut",
    "try": "layout_trial.try_layout",
    "rounds": "layout_trial.rounds",
}
"""Functions of this folder by the names of their tasks; each takes JSON values and returns one."""


def answer_of(task: str, limit_s: float, **question: Any) -> Any:
    """Run a task in a child process and return its answer.

    Args:
        task: one of `_TASKS`.
        limit_s: seconds after which the child is killed.
        question: the arguments of its function, as JSON values.

    Raises:
        UsageError: the task refuses the question, or does not respond in time.
        TunekitError: the child process fails.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        reply = reply_of([*_CHILD, task, json.dumps(question)], limit_s, environment)
    except NoReplyError as error:
        if error.is_late:
            raise UsageError(
                f"the data set did not respond within {duration_text(limit_s)} ({task}); check the mount "
                "with findmnt, or give a longer --budget"
            ) from None
        raise TunekitError(f"the process that measured the data set ({task}) {error}") from error
    if "refused" in reply:
        raise UsageError(reply["refused"])
    return reply["answer"]


def main() -> None:
    """Do the task that is this process's last but one argument, and print its answer as JSON."""
    module, function = _TASKS[sys.argv[-2]].split(".")
    try:
        do = getattr(import_module(f"tunekit.machine.storage.{module}"), function)
        reply = {"answer": do(**json.loads(sys.argv[-1]))}
    except UsageError as error:
        reply = {"refused": str(error)}
    sys.stdout.write(json.dumps(reply) + "\n")
