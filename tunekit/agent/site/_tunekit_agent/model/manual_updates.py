"""Notices a loop that updates its parameters without an optimizer of torch: nothing of it can be measured."""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any

from ..measure import device

_MOST_NODES = 50_000
"""Of a graph that are walked: a loop that accumulates has it walked once, any other never."""
_LEAVES, _ELEMENTS = 32, 16
"""Parameters that are looked at, evenly spread, and elements of each."""
_CERTAIN_CHANGES = 3
"""Backward passes after which the parameters had changed: one may be a script that sets its model up."""
_INNER_CHANGES, _INNER_S = 64, 10.0
"""The same where there is an optimizer: a script may take a few steps of its own for each of its."""
_PASSES, _PASSES_S = 64, 20.0
"""Gradients without any optimizer in the process, where no parameter can be seen to change."""


class ManualUpdates:
    """Watches the gradients before the first optimizer step; after that step it is not asked any more.

    The proof is a parameter that another value stands in at the next backward pass: `p._version` would not
    show what is written through `p.data`. A loop that accumulates gradients changes none.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._is_over = False
        self._passes = self._changes = 0
        self._first_at = 0.0
        self._leaves: list | None = None  # weak references
        self._values: Any = None

    @property
    def passes(self) -> int:
        """Gradients that were asked for."""
        return self._passes

    def saw_gradients(self, losses: tuple) -> None:
        """Gradients are asked for.

        Args:
            losses: of a backward pass; empty for torch.autograd.grad, which leaves them to its caller.
        """
        if self._is_over:
            return
        now = time.perf_counter()
        self._first_at = self._first_at or now
        self._passes += 1
        if losses and self._passes > 1:
            try:
                self._compare(losses)
            except Exception:  # a tensor of another kind: what is not seen is not reported
                self._leaves, self._values = [], None
        self._judge(now - self._first_at)

    def _compare(self, losses: tuple) -> None:
        torch = sys.modules["torch"]
        if _is_sharded(torch) or device.is_capturing():
            return
        if self._leaves is None:
            self._leaves = [weakref.ref(leaf) for leaf in _parameters_of(torch, losses)]
        values = [_first_elements(reference()) for reference in self._leaves]
        self._changes += self._values is not None and values != self._values
        self._values = values

    def _judge(self, seconds: float) -> None:
        if _has_optimizer(sys.modules["torch"]):
            is_certain = self._changes >= _INNER_CHANGES and seconds > _INNER_S
        else:
            is_certain = self._changes >= _CERTAIN_CHANGES or (
                self._passes >= _PASSES and seconds > _PASSES_S
            )
        if is_certain:
            self._is_over = True
            self._log.emit("by_hand", passes=self._passes, changes=self._changes, seconds=seconds)


def _is_sharded(torch: Any) -> bool:
    """Return whether parameters may come and go by themselves, as where they are spread over ranks."""
    distributed = getattr(torch, "distributed", None)
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def _parameters_of(torch: Any, losses: tuple) -> list:
    """Return parameters that the losses hang on; where there is no nn.Parameter, leaves of any kind.

    What an attack changes is a leaf beside them: the images, or what is added to these.
    """
    seen: set = set()
    leaves: list = []
    waiting = [loss.grad_fn for loss in losses if loss.grad_fn is not None]
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaves.append(leaf)
        waiting += [following for following, _ in node.next_functions if following is not None]
    parameters = [leaf for leaf in leaves if isinstance(leaf, torch.nn.Parameter)] or leaves
    return parameters[:: max(1, len(parameters) // _LEAVES)][:_LEAVES]


def _first_elements(leaf: Any) -> Any:
    if leaf is None or not leaf.numel() or not leaf.untyped_storage().nbytes():
        return None
    return leaf.detach().reshape(-1)[:_ELEMENTS].tolist()


def _has_optimizer(torch: Any) -> bool:
    """Return whether an optimizer of torch was made: its class is hooked then."""
    waiting = [torch.optim.Optimizer]
    while waiting:
        kind = waiting.pop()
        if getattr(getattr(kind, "step", None), "hooked", False):
            return True
        waiting += kind.__subclasses__()
    return False
