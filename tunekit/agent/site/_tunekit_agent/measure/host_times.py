"""Splits each loop batch's time by what the host was doing. Pure: time comes in from outside."""

from __future__ import annotations


class HostTimes:
    """What the host did since it last asked for a batch.

    What lies between the parts (from a batch at hand to its last step, steps left out) is the remainder that
    `steady` charges to compute.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._depth = 0
        self._ended: float | None = None
        self.wait_s = self.fetch_cpu_s = self.optimizer_s = 0.0

    def fetched(self, wait_s: float, cpu_s: float) -> None:
        """A batch came after wait_s, in which this thread computed for cpu_s."""
        self.wait_s += wait_s
        self.fetch_cpu_s += cpu_s

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
            Of the batch that ends: wait, CPU time in it, optimizer, other, in seconds.
        """
        other_s = now - self._ended if self._ended is not None else 0.0
        ended = (self.wait_s, self.fetch_cpu_s, self.optimizer_s, max(0.0, other_s))
        self.wait_s = self.fetch_cpu_s = self.optimizer_s = 0.0
        self._ended = None
        return ended
