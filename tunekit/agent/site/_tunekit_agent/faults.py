"""The agent's own faults: reported with a traceback in the trial's folder, never raised into the script."""

from __future__ import annotations

import contextlib
import functools
import traceback
from typing import Any

from .measure import errors
from .model.knobs import NotApplied
from .originals import append_to, os

_AGENT = os.path.dirname(os.path.abspath(__file__)) + os.sep
_MAX_BYTES = 1 << 20


def kept_from_script(method: Any) -> Any:
    """Decorate a method that the script's calls run: exceptions go to `self.failed` instead of the script.

    Once the object's `has_failed` is true, the method does nothing.
    """

    @functools.wraps(method)
    def guarded(self, *args, **kwargs):
        if getattr(self, "has_failed", False):
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self.failed(error)
            return None

    return guarded


def report(log: Any, folder: str, error: Exception, is_over: bool = True) -> str | None:
    """Report one of the agent's own exceptions, even if the stack or the disk is full.

    Args:
        folder: the trial's folder.
        is_over: whether the agent stops observing.

    Returns:
        The path of the traceback, or None if it could not be written.
    """
    cause = error.__cause__ if isinstance(error, NotApplied) else error
    knobs = error.knobs if isinstance(error, NotApplied) else ()
    facts: dict = {"message": type(cause).__name__, "knobs": knobs, "is_over": is_over}
    kept = None
    with contextlib.suppress(Exception):
        facts["message"], facts["place"] = line_of(error), _place_in_agent(cause)
        facts["traceback_file"] = kept = _keep_traceback(folder, error)
        facts["error"] = errors.error_facts(cause)
    with contextlib.suppress(Exception):
        log.emit("agent_error", **facts)
    return kept and os.path.join(folder, kept)


def line_of(error: Exception) -> str:
    """Return what went wrong in one line, with the cause of each knob that could not be set."""
    if not isinstance(error, NotApplied):
        return errors.line_of(error)
    lines = {knob: errors.line_of(cause) for knob, cause in error.causes.items()}
    if len(set(lines.values())) == 1:
        return next(iter(lines.values()))
    return "; ".join(f"{knob}: {line}" for knob, line in lines.items())


def _place_in_agent(error: Any) -> str:
    """Return the file, line and function of the innermost frame in the agent's code; empty without one."""
    places = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(code, line) for code, line in places if code.co_filename.startswith(_AGENT)]
    return "".join(f"{code.co_filename[len(_AGENT) :]}:{line} ({code.co_name})" for code, line in own[-1:])


def _keep_traceback(folder: str, error: Exception) -> str | None:
    """Write a fault's traceback into the trial's folder; return the file's name, or None on failure.

    For several knobs, the traceback shows the first one's cause, and those of the others follow.
    """
    causes = error.causes.values() if isinstance(error, NotApplied) else ()
    shown = [error, *(cause for cause in causes if cause is not error.__cause__)]
    text = "\n".join("".join(traceback.format_exception(type(one), one, one.__traceback__)) for one in shown)
    name = f"agent-error-{os.getpid()}.txt"
    try:
        append_to(os.path.join(folder, name), text.encode("utf-8", "replace")[:_MAX_BYTES])
    except OSError:
        return None
    return name
