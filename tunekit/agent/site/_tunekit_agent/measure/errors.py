"""The exception that ended the script, as plain facts."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from .device import cuda_devices

_MAX_MESSAGE = 4000
_MAX_LINE = 300
_WORKER_END_S = 0.2
"""A worker's connections close a moment before it is seen to have ended."""


class Missing(Exception):  # noqa: N818
    """Why a stage can see nothing here; its message goes to the user."""


def error_facts(error: Any) -> dict | None:
    """Return an exception's types along its resolution order, its message and where it came from."""
    if error is None:
        return None
    try:
        return _facts_of(error)
    except RuntimeError:  # torch's handler of a worker's end raises, once, wherever the main thread is
        return _facts_of(error)


def _facts_of(error: Any) -> dict:
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__)).splitlines()
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return {
        "types": [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__][:16],
        "message": _ends_of(text_of(error)),
        "traceback": [line[:500] for line in lines[-40:]],
        "raised_in": _place(frames[-1]) if frames else "",
        "worker_exit_codes": _worker_exit_codes(frames),
        "device_free_share": _device_free_share(),
    }


def _device_free_share() -> float | None:
    try:
        memory = [sys.modules["torch"].cuda.mem_get_info(device) for device in cuda_devices()]
        return min((free / total for free, total in memory if total), default=None)
    except Exception:
        return None


def line_of(error: Any) -> str:
    """Return an exception's type and what it says, cut short where that is long; of `Missing` the words."""
    kind = "" if isinstance(error, Missing) else f"{type(error).__name__}: "
    return kind + text_of(error)[:_MAX_LINE]


def text_of(error: Any) -> str:
    """Return what an exception says; in Python's own words where it can't be made to."""
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__name__} whose str() failed>"


def _ends_of(text: str) -> str:
    """Return a text whose middle may be left out: a loader puts its own words before a worker's traceback."""
    if len(text) <= _MAX_MESSAGE:
        return text
    head = _MAX_MESSAGE // 4
    return text[:head] + "\n...\n" + text[head - _MAX_MESSAGE :]


def _place(frame: Any) -> str:
    return f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}"


def _worker_exit_codes(frames: list) -> list:
    """Return how the workers ended of the loader that was asked for a batch, as far as they failed.

    A batch is handed over by the worker that made it: when that one dies, the loop may see nothing but a
    connection that was reset.
    """
    codes: set = set()
    for frame in frames:
        if frame.f_globals.get("__name__") != "torch.utils.data.dataloader":
            continue
        for worker in getattr(frame.f_locals.get("self"), "_workers", None) or ():
            worker.join(_WORKER_END_S if not codes else 0)
            codes.add(worker.exitcode)
    return sorted(code for code in codes if code)
