"""Which torch a Python interpreter has, asked in a process of its own: this one never imports torch."""

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
