"""Python's own functions as they were before the script ran.

Scripts replace them: a test double freezes the clock, a patched `json` serves a framework. What the
agent tells must not change with that. They are kept as attributes of objects that are no modules, since what
freezes clocks looks for them in every module.
"""

from __future__ import annotations

import importlib.util
import os as _os
import time as _time
import types
from typing import Any

time = types.SimpleNamespace(**vars(_time))
os = types.SimpleNamespace(**vars(_os))


def _own_encoder() -> Any:
    """Return an encoder whose classes are not those that a script can reach and patch."""
    spec = importlib.util.find_spec("json.encoder")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Not as ASCII: an escaped half of a surrogate pair, as odd file names have, is no valid JSON.
    return module.JSONEncoder(default=str, ensure_ascii=False)


_encoder = _own_encoder()


def append_to(path: str, content: bytes) -> None:
    """Write at the end of a file, which is made where it is missing."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(handle, content)
    finally:
        os.close(handle)


def as_json(value: object) -> str:
    """Return a value as JSON; what JSON has no form for, as text."""
    return _encoder.encode(value)
