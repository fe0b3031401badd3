"""Writers that never call `open`: torch's and safetensors' own files, and SQLite's."""

from __future__ import annotations

import functools
import os
import types
from typing import Any, Callable

from .. import imports
from . import overlay as overlays
from .files import guarded
from .overlay import Overlay
from .paths import status_of

_URI_AT = 6
"""Position of sqlite3.connect's `uri` among the arguments after the database."""


class Savers:
    """Plans for saving and loading; checkpoints always go to the trial's folder, new or not.

    Args:
        overlay: what the script sees.
        failed: told of the guard's own faults.
    """

    def __init__(self, overlay: Overlay, failed: Callable) -> None:
        self._overlay = overlay
        self._failed = failed

    def _replace_path(self, original: Callable, name: str, find: Callable) -> Callable:
        """Return a function that finds another path for the parameter of that name."""
        import inspect

        position = list(inspect.signature(original).parameters).index(name)

        def plan(_, *args, **kwargs):
            path = kwargs[name] if name in kwargs else args[position]
            found = find(path) if isinstance(path, (str, bytes, os.PathLike)) else None
            if found is None:
                return None
            if name in kwargs:
                kwargs[name] = found
            else:
                args = (*args[:position], found, *args[position + 1 :])
            return lambda: original(*args, **kwargs)

        return guarded(original, plan, original.__module__, self._failed)

    def _saved(self, path: Any) -> Any:
        return self._overlay.write_path(path, keep=False, always=True)[0]

    def _loaded(self, path: Any) -> Any:
        return self._overlay.read_path(path) if self._overlay.active else None

    def guard(self, module: Any, saves: dict, loads: dict) -> None:
        """Replace a module's functions.

        Args:
            module: the module.
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

    def guard_sqlite(self, module: Any) -> None:
        """Replace sqlite3.connect: SQLite writes wherever it is asked to, from C."""

        def plan(original, database, *args, **kwargs):
            uri = kwargs.pop("uri", False) if len(args) <= _URI_AT else args[_URI_AT]
            found, as_uri = self._database(os.fsdecode(database), uri)
            if found is None:
                return None
            return lambda: original(found, *args[:_URI_AT], **kwargs, uri=as_uri)

        module.connect = guarded(module.connect, plan, "sqlite3", self._failed)

    def _database(self, name: str, uri: bool) -> tuple:
        """Return what to connect to, None for the database itself, and whether that is a URI."""
        from urllib.parse import parse_qs, quote, unquote, urlsplit

        query = ""
        if uri and name.startswith("file:"):
            split = urlsplit(name)
            name, query = unquote(split.path), split.query
        options = parse_qs(query)
        if (
            not name
            or name == ":memory:"
            or options.get("mode") in (["ro"], ["memory"])
            or "immutable" in options
        ):
            copy = self._overlay.read_path(name) if name.startswith("/") else None
        else:
            copy = self._writable_database(name)
        if copy is None:
            return None, False
        if copy.startswith("file:") or not query:
            return copy, copy.startswith("file:")
        return f"file:{quote(copy)}?{query}", True

    def _writable_database(self, name: str) -> Any:
        from urllib.parse import quote

        overlay = self._overlay
        status = status_of(name, follows=True)
        too_large = status is not None and status.st_size > overlays.LARGEST_COPY_BYTES
        real = overlay.locator.entry(name)
        if too_large and real not in overlay.diverted and overlay.existed(os.path.realpath(real)):
            return f"file:{quote(real)}?mode=ro"  # a large data set is only read, as a rule
        copy, newborn = overlay.write_path(name)
        journal = f"{name}-wal"
        if copy is not None and overlay.existed(overlay.locator.entry(journal)):
            overlay.write_path(journal)
        overlay.born(newborn)
        return copy


def install(overlay: Overlay, failed: Callable) -> None:
    """Replace the savers as the script imports them.

    Args:
        overlay: what the script sees.
        failed: told of the guard's own faults.
    """
    savers = Savers(overlay, failed)
    for module, saves, loads in (
        ("torch.serialization", {"save": "f"}, {"load": "f"}),
        ("torch.jit._serialization", {"save": "f", "save_jit_module_to_flatbuffer": "f"}, {"load": "f"}),
        ("safetensors", {"serialize_file": "filename"}, {"safe_open": "filename"}),
    ):
        imports.when_imported(module, functools.partial(savers.guard, saves=saves, loads=loads))
    imports.when_imported("torch.jit._script", savers.guard_script_modules)
    imports.when_imported("sqlite3.dbapi2", savers.guard_sqlite)
