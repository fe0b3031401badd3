"""What the host does: start-up, the parts of each batch, torch.compile settling down. Pure: time comes in."""

from __future__ import annotations

import math
from typing import Callable

_SETTLED_BATCHES = 3
_MAX_CAPTURES = 24
"""Batches with captures: as many recompiles as torch.compile makes of three functions, by default."""


class HostTimes:
    """What the host did since it last asked for a batch.

    What lies between the parts (from a batch at hand to its last step, steps left out) is the remainder that
    `steady` charges to compute.

    Args:
        run_queue_ns: returns how long the loop's thread was ready to run and had no CPU, so far.
    """

    def __init__(self, run_queue_ns: Callable[[], int | None]) -> None:
        self._run_queue_ns = run_queue_ns
        self._queued_ns = run_queue_ns()
        self._began: float | None = None
        self._depth = 0
        self._ended: float | None = None
        self.wait_s = self.fetch_cpu_s = self.optimizer_s = 0.0

    def fetched(self, wait_s: float, cpu_s: float) -> None:
        """A batch came after wait_s, in which this thread computed for cpu_s."""
        self.wait_s += wait_s
        self.fetch_cpu_s += cpu_s
        if self._ended is not None:  # a loader beside the training one: its wait is not the script's own time
            self._ended += wait_s

    def step_began(self, now: float) -> None:
        """An optimizer begins a step; a step within a step belongs to it."""
        self._depth += 1
        if self._depth == 1:
            self._began = now

    def step_ended(self, now: float) -> None:
        """An optimizer ended its step, or a gradient scaler skipped it."""
        self._depth = max(0, self._depth - 1)
        if self._depth == 0 and self._began is not None:
            self.optimizer_s += now - self._began
            self._began = None
        self._ended = now

    def asked(self, now: float) -> tuple:
        """The next batch is asked for.

        Returns:
            Of the batch that ends: wait, CPU time in it, optimizer, other, run-queue wait in all of them; in
            seconds, NaN where the kernel does not tell.
        """
        queued_ns, before_ns = self._run_queue_ns(), self._queued_ns
        self._queued_ns = queued_ns
        is_known = queued_ns is not None and before_ns is not None
        queued_s = max(0, queued_ns - before_ns) / 1e9 if is_known else math.nan
        other_s = now - self._ended if self._ended is not None else 0.0
        ended = (self.wait_s, self.fetch_cpu_s, self.optimizer_s, max(0.0, other_s), queued_s)
        self.wait_s = self.fetch_cpu_s = self.optimizer_s = 0.0
        self._ended = None
        return ended


class Startup:
    """Times the firsts of a process.

    Args:
        started: when the process started.
    """

    def __init__(self, started: float) -> None:
        self._started = started
        self.asked_at: float | None = None
        self._fetched_at = started
        self._first_batch_s = self._first_step_s = 0.0

    def fetched(self, wait_s: float, now: float) -> None:
        self._first_batch_s, self._fetched_at = wait_s, now

    def stepped(self, now: float) -> None:
        self._first_step_s = now - self._fetched_at

    def facts(self) -> dict:
        """Return plain facts for the parent's record of the loop."""
        asked_at = self._started if self.asked_at is None else self.asked_at
        return {
            "startup_s": max(0.0, asked_at - self._started),
            "first_batch_s": self._first_batch_s,
            "first_step_s": self._first_step_s,
        }


class CompileSettling:
    """Whether torch.compile still captures graphs, and what it took after the first step.

    A loop that captures graphs again and again is taken as it is.
    """

    def __init__(self) -> None:
        self._graphs = self._since = self._captures = 0
        self._asked_at: float | None = None
        self._capturing_s, self._captured_batches = 0.0, 0

    def asked(
        self, now: float, graphs: int, count: int, has_stepped: bool, is_whole: bool = True, batches: int = 1
    ) -> None:
        """The loop asks for its next batch.

        Args:
            graphs: that were captured so far.
            has_stepped: whether an optimizer has; what comes before is the first step.
            is_whole: whether nothing ran since the last ask but the batch; a validation's time is its own.
            batches: since the last ask; more than one where only steps can be seen.
        """
        if graphs != self._graphs:
            self._graphs, self._since = graphs, count
            self._captures += 1
            if self._asked_at is not None and is_whole:
                self._capturing_s += now - self._asked_at
                self._captured_batches += batches
        self._asked_at = now if has_stepped else None

    def is_settled(self, count: int) -> bool:
        """Return whether no graph was captured for a few batches."""
        is_quiet = not self._graphs or count - self._since >= _SETTLED_BATCHES
        return is_quiet or self._captures > _MAX_CAPTURES

    def recompile_s(self, step_s: float) -> float:
        """Return what batches with captures after the first step took beyond steady ones, in seconds."""
        return max(0.0, self._capturing_s - self._captured_batches * step_s)
