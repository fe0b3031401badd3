"""Where the device's time goes, by events on its stream that are read once they have come to pass.

Nothing waits for the device here: an event that has not come to pass is looked at again at a later turn.
"""

from __future__ import annotations

import functools
from collections import deque
from typing import Any, Callable

from ..originals import time

_MAX_PENDING = 32
"""Batches whose events are awaited; while so many are, further ones are left out."""
_MAX_STEPS = 16
"""Optimizer steps of one batch that are marked; a script that makes more is left alone."""
_MIN_BATCHES = 3
_LAG_SHARE, _LAG_S = 0.05, 50e-6
"""A device that is done so soon after a batch was asked for, as a share of a batch or at all, had no work
left but its last launches."""


def _ends_at_a_fault(method: Any) -> Any:
    """Switch the events off for good at any exception: what torch can't do now it can't do later."""

    @functools.wraps(method)
    def guarded(self, *args):
        if self._is_off:
            return
        try:
            method(self, *args)
        except Exception:
            self._switch_off()

    return guarded


class _Turn:
    def __init__(self, asked: Any, asked_at: float) -> None:
        self.asked = asked
        self.asked_at = asked_at
        self.fetched: Any = None
        self.steps: list = []  # (began, ended); no beginning for a step that a gradient scaler skipped
        self.ended: Any = None  # the next turn's ask
        self.ended_at = 0.0
        self.opened: tuple = ()  # of the segment


class DeviceTimes:
    """Marks the turns of each loop batch on the device's own timeline; a CPU has none.

    Args:
        device_type: "cuda" or another, of the roots.
        device: torch's device of the roots; None for the current one.
        has_loader: whether turns are fetches from a DataLoader; else steps of the first optimizer.
        batches_per_turn: loop batches from one ask to the next.
    """

    def __init__(
        self,
        torch: Any,
        device_type: str,
        device: Any = None,
        has_loader: bool = True,
        batches_per_turn: int = 1,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._cuda = torch.cuda if device_type == "cuda" else None
        self._device = device
        self._has_loader = has_loader
        self._batches_per_turn = batches_per_turn
        self._clock = clock
        self._is_off = self._cuda is None
        self._is_open = False
        self._stream: Any = None
        self._pending: deque = deque()
        self._turn: _Turn | None = None
        self._opened: tuple = ()  # an event, and when it came to pass by the host's clock
        self._began: Any = None
        self._depth = self._turns = self._drained = 0
        self._totals_s = [0.0, 0.0, 0.0, 0.0]

    @_ends_at_a_fault
    def open(self) -> None:
        """The steady window opens: batches count from here on."""
        if not (self._cuda.is_available() and self._cuda.is_initialized()):
            self._switch_off()
            return
        if self._stream is None:
            self._stream = self._cuda.current_stream(self._device)
        self._is_open = True
        self._opened = (self._mark(), self._clock())  # the device has no work left: it passes at once
        self._begin()

    @_ends_at_a_fault
    def asked(self, counts: bool) -> None:
        """The loop asks for its next batch.

        Args:
            counts: whether the batch that ends here belongs to the window.
        """
        if not self._is_open:
            return
        turn, self._turn = self._turn, None
        self._begin()
        if turn is not None:
            self._close(turn, counts)
        self._resolve(2)  # more than comes in, so that what is late is caught up with

    @_ends_at_a_fault
    def fetched(self) -> None:
        turn = self._turn
        if turn is None or not self._has_loader or turn.fetched is not None:
            return
        if self._is_capturing():
            return
        turn.fetched = self._mark()

    @_ends_at_a_fault
    def step_began(self) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        if self._is_capturing():
            return
        if self._stream is None:
            # Where the steps run, training runs: a loader may be asked on a stream for copies.
            self._stream = self._cuda.current_stream(self._device)
        if self._turn is not None:
            self._began = self._mark()

    @_ends_at_a_fault
    def step_ended(self) -> None:
        """An optimizer ended its step, or a gradient scaler skipped it."""
        self._depth = max(0, self._depth - 1)
        turn = self._turn
        if self._depth or turn is None or self._is_capturing():
            return
        if len(turn.steps) == _MAX_STEPS:
            self._switch_off()
            return
        turn.steps.append((self._began, self._mark()))
        self._began = None

    def facts(self) -> dict | None:
        """Return the plain facts of a DeviceParts record once the window is closed; None without a device."""
        self._read_the_rest()
        if self._is_off or self._turns < _MIN_BATCHES:
            return None
        stall_s, compute_s, optimizer_s, other_s = self._totals_s
        return {
            "batches": self._turns * self._batches_per_turn,
            "stall_s": stall_s,
            "compute_s": compute_s,
            "optimizer_s": optimizer_s,
            "other_s": other_s,
            "drained_batches": self._drained * self._batches_per_turn,
        }

    @_ends_at_a_fault
    def _read_the_rest(self) -> None:
        if self._is_open:
            self._resolve(len(self._pending))

    def _begin(self) -> None:
        if self._is_capturing():
            return
        self._turn = _Turn(self._mark(), self._clock())

    def _close(self, turn: _Turn, counts: bool) -> None:
        is_whole = self._turn is not None and (turn.fetched is not None or not self._has_loader)
        if counts and is_whole and len(self._pending) < _MAX_PENDING:
            turn.ended = self._turn.asked
            turn.ended_at, turn.opened = self._turn.asked_at, self._opened
            self._pending.append(turn)

    def _resolve(self, most: int) -> None:
        for _ in range(most):
            if not self._pending or not self._pending[0].ended.query():
                return
            self._add(self._pending.popleft())

    def _add(self, turn: _Turn) -> None:
        total_s = _between_s(turn.asked, turn.ended)
        stall_s = _between_s(turn.asked, turn.fetched) if turn.fetched is not None else 0.0
        optimizer_s = sum(_between_s(began, ended) for began, ended in turn.steps if began is not None)
        other_s = _between_s(turn.steps[-1][1], turn.ended) if turn.steps else 0.0
        compute_s = max(0.0, total_s - stall_s - optimizer_s - other_s)
        parts_s = (stall_s, compute_s, optimizer_s, other_s)
        self._totals_s = [total_s + part_s for total_s, part_s in zip(self._totals_s, parts_s)]  # noqa: B905
        self._turns += 1
        opened, opened_at = turn.opened
        lag_s = _between_s(opened, turn.ended) - (turn.ended_at - opened_at)
        self._drained += lag_s <= max(_LAG_S, _LAG_SHARE * total_s)

    def _mark(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def _is_capturing(self) -> bool:
        """Return whether a CUDA graph is being captured: events would be in it. That batch is left out."""
        if not self._cuda.is_current_stream_capturing():
            return False
        self._turn = self._began = None
        return True

    def _switch_off(self) -> None:
        self._is_off = True
        self._turn = self._began = self._stream = None
        self._pending.clear()


def _between_s(first: Any, second: Any) -> float:
    return max(0.0, first.elapsed_time(second) / 1000.0)
