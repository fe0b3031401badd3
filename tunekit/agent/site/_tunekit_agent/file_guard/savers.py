"""Writers and readers that never call `open`: torch's compiled code and safetensors."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable

from .. import imports
from .mirror import Mirror
from .stand_ins import guarded, replace

_SAVED, _LOADED, _MAPPED = "saved", "loaded", "mapped"
_WITH_PATHS = (
    ("torch", "_C.PyTorchFileWriter.__init__", 1, "", _SAVED),
    ("torch", "_C.PyTorchFileReader.__init__", 1, "", _LOADED),
    ("torch", "_C.ScriptModule.save", 1, "", _SAVED),
    ("torch", "_C.ScriptModule._save_for_mobile", 1, "", _SAVED),
    ("torch", "_C.ScriptFunction.save", 1, "", _SAVED),
    ("torch", "_C._save_jit_module", 1, "", _SAVED),
    ("torch", "_C._autograd._ProfilerResult.save", 1, "", _SAVED),
    ("torch", "from_file", 0, "filename", _MAPPED),
    ("torch", "UntypedStorage.from_file", 0, "filename", _MAPPED),
    ("torch.serialization", "save", 1, "f", _SAVED),
    ("torch.jit._serialization", "load", 0, "f", _LOADED),
    ("safetensors", "serialize_file", 1, "filename", _SAVED),
    ("safetensors", "safe_open", 0, "filename", _LOADED),
)
"""Functions that open paths in C: module, name in it, position and name of the path argument, its use."""


def _find(mirror: Mirror, use: str, path: Any, args: tuple, kwargs: dict) -> Any:
    if not isinstance(path, (str, bytes, os.PathLike)):
        return None
    if use == _MAPPED:
        use = _SAVED if kwargs.get("shared", args[1] if len(args) > 1 else False) else _LOADED
        return mirror.writing(path) if use == _SAVED else mirror.reading(path)
    return mirror.writing(path, keep=False) if use == _SAVED else mirror.reading(path)


def _guarded(mirror: Mirror, failed: Callable, row: tuple, original: Callable) -> Callable:
    module_name, _, position, name, use = row

    def plan(_: Callable, *args: Any, **kwargs: Any) -> Any:
        is_named = name in kwargs
        path = kwargs[name] if is_named else args[position] if len(args) > position else None
        found = _find(mirror, use, path, args, kwargs)
        if found is None:
            return None
        if is_named:
            kwargs[name] = found
        else:
            args = (*args[:position], found, *args[position + 1 :])
        return lambda: original(*args, **kwargs)

    return guarded(mirror, original, plan, module_name, failed)


def install(mirror: Mirror, failed: Callable) -> None:
    """Replace these functions as the script imports their modules."""
    for row in _WITH_PATHS:
        made = functools.partial(_guarded, mirror, failed, row)
        imports.when_imported(row[0], functools.partial(replace, made, row[1]))
