"""A few steps of the script's loop, traced at one batch size and precision."""

from __future__ import annotations

import contextlib
from typing import Any, Callable

from ...loader import batches
from ...loader.storages import is_tensor
from ...model import knobs
from ...model.loop import Loop
from ..replay import Rebuilding
from ..runner import Missing
from .allocator import KeptBlocks
from .tracer import Tracer

_STEPS = 4
"""Optimizer steps that are traced: what the first frees of the time before is not known, and torch's
allocator reserves more until the fourth."""
_FORWARD_NOT_SEEN = (
    "backward was seen of a forward that was not: it runs in a thread of its own, which is not traced"
)


class TracedSteps:
    """A few steps at one batch size and precision.

    Args:
        made: returns a batch of that size, of new tensors each time, which the script may free as it does;
            None where the script makes its own.
        precision: "bf16" to run the roots under autocast; None for the script's own.
        unseen_turns: at least so many before steps are traced.

    Attributes:
        is_broken: whether something that is no part of a step ran within the traced ones.
        has_seen: whether any op was seen.
        is_behind: whether the loop trained on batches that it had asked for before these.
    """

    def __init__(
        self,
        loop: Loop,
        made: Callable[[], Any] | None,
        size: int,
        precision: str | None,
        unseen_turns: int,
    ) -> None:
        self.size, self.precision = size, precision
        self.is_broken = self.is_behind = self.has_seen = False
        self._made = made
        self._turns = self._steps = 0
        self._per_step = max(1, loop.batches_per_step // loop.batches_per_turn)
        self._unseen = -(-unseen_turns // self._per_step) * self._per_step
        self._loop = loop
        self._has_tensors = False
        self._is_entered = False
        self._tracer = Tracer(loop.torch, "cuda" if loop.on_cuda else "cpu")
        self._kept = KeptBlocks(loop.torch) if loop.on_cuda else None
        self._open = contextlib.ExitStack()
        if precision is not None:
            self._open.enter_context(_autocast(loop, precision))

    def batch(self) -> Any:
        """Return the batch for the script, which it is traced with from here on."""
        assert self._made is not None
        batch = Rebuilding().of(self._made())
        leaves = [leaf for _, leaf in batches.walk(batch) if is_tensor(leaf)]
        self._has_tensors = bool(leaves)
        self._tracer.awaits(leaves)
        self.begin()
        return batch

    def begin(self) -> None:
        """The loop goes on from here: with a batch, or with its next step where it makes its own."""
        traced = self._turns - self._unseen
        self._turns += 1
        if traced >= 0:
            if traced == 0:
                self._hold()
            if traced % self._per_step == 0:
                self._tracer.mark()
            self._tracer.enter()
            self._is_entered = True

    def asked(self) -> bool:
        """The loop is through with a batch; returns whether that was the last."""
        self._pause()
        if self._tracer.fault is not None:
            raise Missing(self._tracer.fault)
        if self.is_broken:
            return True
        if self._turns < self._unseen + _STEPS * self._per_step:
            return False
        self.has_seen = self._tracer.has_seen
        if self._kept is not None:
            self._kept.end(self._tracer.places)
        if self._tracer.has_seen_backward_alone:
            raise Missing(_FORWARD_NOT_SEEN)
        self.is_broken = self.has_seen and self._steps < _STEPS
        wanted = _STEPS * self._per_step if self._has_tensors else 0
        self.is_behind = not self.has_seen or self._tracer.batches_used < wanted
        return True

    def interrupted(self) -> None:
        """A validation runs, or an epoch begins: that is no part of a step."""
        if self._is_entered:
            self._pause()
            self.is_broken = True

    def leave(self) -> None:
        """Put back what was changed."""
        with self._open:
            self._pause()

    def step_began(self) -> None:
        if self._is_entered:
            self._tracer.step_begins()
            self._tracer.is_for("gradients", _gradients(self._loop))

    def step_ended(self) -> None:
        """An optimizer ended its step; gradients that it made by itself, in a closure, are there too."""
        if self._is_entered:
            self._steps += 1
            self._tracer.stepped()
            self._tracer.is_for("gradients", _gradients(self._loop))
            self._tracer.is_for("optimizer state", _states(self._loop))

    @property
    def kept(self) -> list | None:
        """Bytes of the blocks that stayed and are of no tensor of these steps; None where not known."""
        return None if self._kept is None else self._kept.sizes

    def facts(self) -> dict:
        """Return the plain facts of a StepTrace record."""
        return {"batch_size": self.size, **self._tracer.facts()}

    def _hold(self) -> None:
        if self._kept is not None:
            self._kept.begin()
        self._tracer.holds("parameters", self._loop.parameters())
        self._tracer.holds("buffers", self._loop.buffers())
        self._tracer.holds("gradients", _gradients(self._loop))
        self._tracer.holds("optimizer state", _states(self._loop))

    def _pause(self) -> None:
        if self._is_entered:
            self._is_entered = False
            self._tracer.leave()


def _gradients(loop: Loop) -> list:
    return [one.grad for one in loop.parameters() if one.grad is not None]


def _states(loop: Loop) -> list:
    states = [list(getattr(optimizer, "state", {}).values()) for optimizer in loop.optimizers()]
    return [leaf for _, leaf in batches.walk(states) if is_tensor(leaf)]


@contextlib.contextmanager
def _autocast(loop: Loop, precision: str) -> Any:
    names, before = ("forward", "_tunekit_forward"), []
    try:
        for module in loop.modules():
            before.append(
                (module, {name: module.__dict__[name] for name in names if name in module.__dict__})
            )
            knobs.apply(loop.torch, module, {"precision": precision}, loop.device_type)
        yield
    finally:
        for module, own in before:
            for name in names:
                module.__dict__.pop(name, None)
            module.__dict__.update(own)
