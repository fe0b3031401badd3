"""A dispatch mode that hands every op of torch to one handler, and the tensors that an op takes or gives."""

from __future__ import annotations

import importlib
from typing import Any, Callable

from ...loader.storages import is_tensor


def mode_for(torch: Any, run: Callable | None = None) -> Any:
    """Return a dispatch mode whose `run(func, args, kwargs)` stands for each op; None lets ops through.

    Its class is made here: torch can't be imported before the script does.
    """
    dispatch = importlib.import_module(f"{torch.__name__}.utils._python_dispatch")

    class SeesOps(dispatch.TorchDispatchMode):
        supports_higher_order_operators = True

        def __init__(self) -> None:
            super().__init__()
            self.run = run

        def leave(self) -> bool:
            """Let ops through; return whether it is left too: one of the script's may cover it."""
            self.run = None
            is_innermost = dispatch._get_current_dispatch_mode() is self
            if is_innermost:
                self.__exit__(None, None, None)
            return is_innermost

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if self.run is None:
                return func(*args, **(kwargs or {}))
            return self.run(func, args, kwargs or {})

    return SeesOps()


def tensors_in(item: Any) -> list:
    """Return the tensors in arguments or results, in order, also in lists and dicts of them."""
    if is_tensor(item):
        return [item]
    if isinstance(item, (list, tuple)):
        return [tensor for part in item for tensor in tensors_in(part)]
    if isinstance(item, dict):
        return [tensor for part in item.values() for tensor in tensors_in(part)]
    return []
