"""The loader's rate alone: its batches are taken and discarded."""

from __future__ import annotations

from typing import Any, Callable

from ..loader import batches
from ..loader.work import WorkWindow
from .replay import CAP_WINDOWS

_MIN_LOADED = 4
_SHORT_EPOCHS = 3


class LoaderAlone:
    """Times a loader whose batches are discarded.

    Prefetched batches come for free and are left out, at the start and after each epoch's end; so is the
    epoch's end itself. Counted are whole rounds of the workers, whose batches come in turn.

    Args:
        window_s: half of it is timed.
        max_s: until it is given up as too slow; None for twice the window.

    Attributes:
        full_batch: the last that had the loader's batch size, the first of all if none had.
        work: what making them cost, from the first that was timed on.
        why_not: why there is no time; empty if there is one.
    """

    def __init__(
        self,
        source: Any,
        window_s: float,
        moved: Callable[[], None],
        clock: Callable[[], float],
        max_s: float | None = None,
    ) -> None:
        self._source, self._window_s = source, window_s
        self._most_s = max_s or CAP_WINDOWS * window_s
        self._moved, self._clock = moved, clock
        facts = source.info.facts
        workers = facts.get("num_workers") or 0
        self._round = max(workers, 1)
        self._left_out = max(workers * (facts.get("prefetch_factor") or 0), 1)
        self._least = -(-max(workers, _MIN_LOADED) // self._round) * self._round
        self._batch_size = facts.get("batch_size")
        self._time_s = 0.0
        self.batches = 0
        self.work = WorkWindow()
        self.full_batch: Any = None
        self.why_not = ""

    @property
    def batch_s(self) -> float | None:
        """Seconds per batch; None if too few could be timed."""
        return None if self.why_not or not self.batches else self._time_s / self.batches

    def run(self) -> None:
        """Take batches until enough are timed."""
        try:
            self._take_all()
        except StopIteration:
            self.why_not = "the loader has no further epoch"
        finally:
            self.work.close()
        if self.why_not:
            self.batches = 0

    def _take_all(self) -> None:
        taken = in_round = 0  # since the last restart; since the last whole round
        restarts, round_at = self._source.restarts, None
        until = self._clock() + self._most_s
        while True:
            self._keep_full(self._source.take())
            self._moved()
            now = self._clock()
            self.work.follow(self._source.info.work)
            if self._source.restarts != restarts:
                restarts, taken, round_at = self._source.restarts, 0, None
            taken += 1
            if round_at is not None:
                in_round += 1
                if in_round == self._round:
                    self.batches += self._round
                    self._time_s += now - round_at
                    round_at, in_round = now, 0
            elif taken >= self._left_out:
                if not self.batches:
                    self.work.open(self._source.info.work)
                    until = now + self._most_s
                round_at, in_round = now, 0
            if self.batches >= self._least and self._time_s >= self._window_s / 2:
                return
            if now > until or (not self.batches and restarts >= _SHORT_EPOCHS):
                break
        if self.batches < self._least:
            self.why_not = self._why(restarts)

    def _why(self, restarts: int) -> str:
        if restarts and not self.batches:
            return f"an epoch has too few batches beside the {self._left_out} that its queue holds"
        return (
            f"the loader alone was too slow: {self.batches} of {self._least} batches in {self._most_s:g} s; "
            "give it longer with --window"
        )

    def _keep_full(self, batch: Any) -> None:
        is_full = self._batch_size is None or batches.leading_size(batch) == self._batch_size
        if is_full or self.full_batch is None:
            self.full_batch = batch
