"""What comes before the steady loop: start-up, first batch, first step, torch.compile settling down."""

from __future__ import annotations

from . import knobs

_SETTLED_BATCHES = 3
_MAX_SETTLE_BATCHES = 200


class Beginnings:
    """Times the firsts of a process.

    Args:
        started: when the process started.
    """

    def __init__(self, started: float) -> None:
        self._started = started
        self._asked_at: float | None = None
        self._fetched_at = started
        self._first_batch_s = self._first_step_s = 0.0

    @property
    def has_asked(self) -> bool:
        """Whether any loader was asked for a batch."""
        return self._asked_at is not None

    def asked(self, now: float) -> None:
        """A loader is asked for the first batch of all."""
        self._asked_at = now

    def fetched(self, wait_s: float, now: float) -> None:
        """The first batch is at hand."""
        self._first_batch_s, self._fetched_at = wait_s, now

    def stepped(self, now: float) -> None:
        """The first step is over, on the device too."""
        self._first_step_s = now - self._fetched_at

    def facts(self) -> dict:
        """Return plain facts for the parent's record of the loop."""
        asked_at = self._started if self._asked_at is None else self._asked_at
        return {
            "startup_s": max(0.0, asked_at - self._started),
            "first_batch_s": self._first_batch_s,
            "first_step_s": self._first_step_s,
        }


class Settling:
    """Whether torch.compile still captures graphs."""

    def __init__(self) -> None:
        self._graphs = 0
        self._since = 0

    def is_settled(self, count: int) -> bool:
        """Return whether it has captured no new graph for a few batches.

        Args:
            count: batches of the loop so far.
        """
        graphs = knobs.graphs_captured()
        if graphs != self._graphs:
            self._graphs, self._since = graphs, count
        return not graphs or count - self._since >= _SETTLED_BATCHES or count > _MAX_SETTLE_BATCHES
