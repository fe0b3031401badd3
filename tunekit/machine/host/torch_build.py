"""Finds out which torch a Python interpreter has, in a separate process: this one never imports torch."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tunekit.machine.child_probe import NoReplyError, reply_of
from tunekit.records.host import TorchBuild

_SCRIPT = Path(__file__).with_name("torch_probe.py")


@dataclass(frozen=True)
class TorchAbsent:
    """Why nothing is known about an interpreter's torch."""

    reason: str
    has_python_answered: bool = True
    """False if the interpreter timed out, so that it may still have torch."""


def torch_build(
    python: str = sys.executable, timeout_s: float = 60.0, environment: Mapping[str, str] | None = None
) -> TorchBuild | TorchAbsent:
    """Return the torch build that an interpreter has, or why it is unknown.

    Args:
        python: the interpreter of the training environment.
        timeout_s: after this long, it and everything it started are killed.
        environment: its environment variables; by default those of this process.
    """
    try:
        reply = reply_of([python, str(_SCRIPT)], timeout_s, environment)
    except NoReplyError as error:
        return TorchAbsent(f"{python}, asked for its torch, {error}", has_python_answered=not error.is_late)
    if "absent" in reply:
        return TorchAbsent(f"{python} has no torch that can be imported: {reply['absent']}")
    try:
        return TorchBuild.model_validate({"python": python, **reply})
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(map(str, fault["loc"]))
        return TorchAbsent(f"{python} gave no usable answer about its torch: {field}: {fault['msg']}")
