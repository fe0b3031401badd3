"""Writers that never call `open`: those of torch and safetensors."""

from __future__ import annotations

import functools
import os
import types
from typing import Any, Callable

from .. import imports
from .overlay import Overlay
from .stand_ins import guarded

_COMPILED = (
    ("_C.PyTorchFileWriter", "__init__", 1, "_saved"),
    ("_C.PyTorchFileReader", "__init__", 1, "_loaded"),
    ("_C.ScriptModule", "save", 1, "_saved"),
    ("_C.ScriptModule", "_save_for_mobile", 1, "_saved"),
    ("_C.ScriptFunction", "save", 1, "_saved"),
    ("_C", "_save_jit_module", 1, "_saved"),
    ("_C", "_save_mobile_module", 1, "_saved"),
    ("_C", "_save_parameters", 1, "_saved"),
    ("_C._autograd._ProfilerResult", "save", 1, "_written"),
)
"""What torch's compiled part does with paths: place, name, position of the path, what finds another one."""


class Savers:
    """Plans for saving and loading; checkpoints always go to the trial's folder, new or not."""

    def __init__(self, overlay: Overlay, failed: Callable) -> None:
        self._overlay = overlay
        self._failed = failed

    def _replace_path(self, original: Callable, name: str, find: Callable) -> Callable:
        import inspect

        position = list(inspect.signature(original).parameters).index(name)
        return self._replace_at(original, position, find, name)

    def _replace_at(self, original: Callable, position: int, find: Callable, name: str = "") -> Callable:

        def plan(_, *args, **kwargs):
            path = kwargs[name] if name in kwargs else args[position] if len(args) > position else None
            found = find(path) if isinstance(path, (str, bytes, os.PathLike)) else None
            if found is None:
                return None
            if name in kwargs:
                kwargs[name] = found
            else:
                args = (*args[:position], found, *args[position + 1 :])
            return lambda: original(*args, **kwargs)

        module = getattr(original, "__module__", None) or "torch._C"
        return guarded(self._overlay, original, plan, module, self._failed)

    def _saved(self, path: Any) -> Any:
        return self._overlay.write_path(path, keep=False, always=True)[0]

    def _written(self, path: Any, keep: bool = False) -> Any:
        copy, newborn = self._overlay.write_path(path, keep=keep)
        self._overlay.born(newborn)
        return copy

    def _loaded(self, path: Any) -> Any:
        return None if self._overlay.is_plain else self._overlay.read_path(path)

    def guard(self, module: Any, saves: dict, loads: dict) -> None:
        """Replace a module's functions.

        Args:
            saves: names of functions that save, and of their parameter with the path.
            loads: the same for functions that load.
        """
        for names, find in ((saves, self._saved), (loads, self._loaded)):
            for function, parameter in names.items():
                original = getattr(module, function, None)
                if original is not None:
                    setattr(module, function, self._replace_path(original, parameter, find))

    def guard_script_modules(self, module: Any) -> None:
        """Replace the save method of TorchScript modules, which can be called without torch.jit.save."""
        for name in ("RecursiveScriptModule", "ScriptFunction"):
            owner = getattr(module, name, None)
            if isinstance(getattr(owner, "save", None), types.FunctionType):
                owner.save = self._replace_path(owner.save, "f", self._saved)

    def guard_compiled(self, torch: Any) -> None:
        """Replace what torch's compiled part does with paths, and what maps files to tensors."""
        for place, name, at, finds in _COMPILED:
            owner = torch
            for step in place.split("."):
                owner = getattr(owner, step, None)
            original = getattr(owner, name, None)
            if original is not None:
                setattr(owner, name, self._replace_at(original, at, getattr(self, finds)))
        torch.from_file = self._guard_mapped(torch.from_file)
        torch.UntypedStorage.from_file = staticmethod(self._guard_mapped(torch.UntypedStorage.from_file))

    def _guard_mapped(self, original: Callable) -> Callable:
        """Return a function for files that tensors are mapped to: a shared one changes with its tensor."""

        def plan(_, filename, shared=None, *args, **kwargs):
            found = self._written(filename, keep=True) if shared else self._loaded(filename)
            return None if found is None else lambda: original(found, shared, *args, **kwargs)

        return guarded(self._overlay, original, plan, "torch", self._failed)


def install(overlay: Overlay, failed: Callable) -> None:
    """Replace the savers as the script imports them."""
    savers = Savers(overlay, failed)
    imports.when_imported("torch", savers.guard_compiled)
    for module, saves, loads in (
        ("torch.serialization", {"save": "f"}, {"load": "f"}),
        ("torch.jit._serialization", {"save": "f", "save_jit_module_to_flatbuffer": "f"}, {"load": "f"}),
        ("safetensors", {"serialize_file": "filename"}, {"safe_open": "filename"}),
    ):
        imports.when_imported(module, functools.partial(savers.guard, saves=saves, loads=loads))
    imports.when_imported("torch.jit._script", savers.guard_script_modules)
