"""Functions that stand in for those of the standard library, and everywhere that these are remembered."""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import Any, Callable

from .overlay import Answer, Overlay

_KEEP_THEIRS = ("posix", "_io", "_tunekit_agent")


def guarded(overlay: Overlay, original: Callable, plan: Callable, module: str, failed: Callable) -> Callable:
    """Return a function that asks the plan first, and else does what the original does.

    The plan takes the original and the call's arguments, and returns None to let the call be, or
    what to call instead. Only an Answer of it, and the errors of that call, reach the script.

    Args:
        plan: decides about one call.
        module: where the function is found, so that it can be pickled by name.
        failed: called with the plan's own faults; the audit hook is the net then.
    """

    @functools.wraps(original)
    def stand_in(*args, **kwargs):
        error = step = None
        try:
            step = plan(original, *args, **kwargs)
        except Answer as answered:
            error = answered.error
        except Exception as fault:
            failed(fault)
        if error is not None:
            raise error
        if step is None:
            return original(*args, **kwargs)
        try:
            return step()
        except OSError as failure:
            for name in ("filename", "filename2"):
                shown = getattr(failure, name)
                if isinstance(shown, str):
                    setattr(failure, name, overlay.locator.outside(shown))
            raise

    stand_in.__module__ = module
    return stand_in


def for_readers(overlay: Overlay, original: Callable, planned: Callable) -> Callable:
    """Return a function that costs a reader next to nothing while the files are as they are."""

    @functools.wraps(planned)
    def reader(*args, **kwargs):
        if overlay.is_plain:
            return original(*args, **kwargs)
        return planned(*args, **kwargs)

    reader.__module__ = planned.__module__
    return reader


class Replacements:
    """Stand-ins by what they replace; puts them wherever a module that is imported by now remembers it.

    Modules that are imported later find them in `os`, `io` and `builtins`.
    """

    def __init__(self) -> None:
        self._pairs: dict = {}
        if sys.version_info < (3, 11):  # noqa: UP036 - the agent runs in the script's own Python, from 3.9 on
            import pathlib  # noqa: F401 - a function that it found in os later would become a method

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
            elif issubclass(type(value), types.FunctionType):  # isinstance asks objects, which may warn
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
        """Replace what a function has as a default, as tempfile's `unlink=os.unlink`."""
        defaults = function.__defaults__
        if defaults and any(self._for(value) is not value for value in defaults):
            function.__defaults__ = tuple(map(self._for, defaults))
