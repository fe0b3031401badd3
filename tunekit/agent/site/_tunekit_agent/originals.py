"""Python's own functions as they were before the script ran.

Scripts replace them: a test double freezes the clock, a framework patches `json`. The agent's reports must
not be affected. The originals are attributes of plain objects, because clock-freezing libraries patch every
module they find.
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
    """Return a JSON encoder whose classes a script can't reach and patch."""
    spec = importlib.util.find_spec("json.encoder")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Not as ASCII: a lone surrogate from an undecodable file name would be escaped into invalid JSON.
    return module.JSONEncoder(default=str, ensure_ascii=False)


_encoder = _own_encoder()


def append_to(path: str, content: bytes) -> None:
    """Append to a file, creating it if it is missing."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(handle, content)
    finally:
        os.close(handle)


def as_json(value: object) -> str:
    """Return a value as JSON; objects that JSON can't express become text."""
    return _encoder.encode(value)
