"""Stand-ins for functions of the standard library, put in place wherever modules refer to the originals."""

from __future__ import annotations

import functools
import os
import sys
import types
from inspect import getattr_static
from typing import Any, Callable

from .mirror import Mirror

_KEEP_THEIRS = ("posix", "_io", "_tunekit_agent")


def guarded(mirror: Mirror, original: Callable, plan: Callable, module: str, failed: Callable) -> Callable:
    """Return a stand-in that follows the plan for each call, or calls the original if there is none.

    The plan takes the original and the call's arguments. It returns what to call instead, or None to leave
    the call unchanged.

    Args:
        plan: decides about one call; if it raises an OSError, the script gets it.
        module: the module that the function is pickled under.
        failed: called when the plan itself has a bug; the audit hook then judges the original call.
    """

    @functools.wraps(original)
    def stand_in(*args, **kwargs):
        step = None
        try:
            try:
                step = plan(original, *args, **kwargs)
            except OSError:
                raise
            except Exception as fault:
                failed(f"file guard: {type(fault).__name__}: {fault}"[:500])
            return original(*args, **kwargs) if step is None else step()
        except OSError as error:
            for name in ("filename", "filename2"):
                shown = getattr(error, name)
                if isinstance(shown, str):
                    setattr(error, name, mirror.outside(shown))
            raise

    stand_in.__module__ = module
    return stand_in


def replace(made: Callable, name: str, module: Any) -> None:
    """Replace a module's attribute, given by a dotted name, with `made(attribute)`, if it exists."""
    *steps, last = name.split(".")
    owner = functools.reduce(lambda found, step: getattr(found, step, None), steps, module)
    found = getattr_static(owner, last, ...)
    if found is not ...:
        other = made(getattr(found, "__func__", found))
        setattr(owner, last, staticmethod(other) if isinstance(found, staticmethod) else other)


class Replacements:
    """Originals and their stand-ins, put in place wherever an imported module refers to an original.

    Modules that are imported later find the stand-ins in `os`, `io` and `builtins`.
    """

    def __init__(self) -> None:
        self._pairs: dict = {}
        if sys.version_info < (3, 11):  # noqa: UP036 - the agent runs in the script's own Python, from 3.9 on
            import pathlib  # noqa: F401 - imported later, it would bind the stand-ins in os as methods

    def add(self, original: Callable, stand_in: Callable) -> None:
        self._pairs[id(original)] = (original, stand_in)

    def put_in_place(self) -> None:
        for name, module in list(sys.modules.items()):
            if isinstance(module, types.ModuleType) and name.partition(".")[0] not in _KEEP_THEIRS:
                self._replace_in(module)
        for supported in (
            os.supports_dir_fd,
            os.supports_fd,
            os.supports_follow_symlinks,
            os.supports_effective_ids,
        ):
            supported.update(self._for(function) for function in list(supported))

    def _for(self, value: Any) -> Any:
        pair = self._pairs.get(id(value))
        return value if pair is None or pair[0] is not value else pair[1]

    def _replace_in(self, module: types.ModuleType) -> None:
        for name, value in list(vars(module).items()):
            if self._for(value) is not value:
                setattr(module, name, self._for(value))
            elif issubclass(type(value), types.FunctionType):  # isinstance reads __class__, which may warn
                self._replace_defaults(value)
            elif issubclass(type(value), type) and value.__module__ == module.__name__:
                self._replace_in_class(value)

    def _replace_in_class(self, owner: type) -> None:
        for name, value in list(vars(owner).items()):
            function = getattr(value, "__func__", value)
            if self._for(function) is not function:
                setattr(owner, name, staticmethod(self._for(function)))
            elif isinstance(function, types.FunctionType):
                self._replace_defaults(function)

    def _replace_defaults(self, function: types.FunctionType) -> None:
        """Replace originals among a function's defaults, such as tempfile's `unlink=os.unlink`."""
        defaults = function.__defaults__
        if defaults and any(self._for(value) is not value for value in defaults):
            function.__defaults__ = tuple(map(self._for, defaults))
