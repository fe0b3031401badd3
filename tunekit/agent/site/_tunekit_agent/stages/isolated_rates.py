"""What either half of the loop would allow alone: the loader, then the training on one batch."""

from __future__ import annotations

from typing import Any, Callable

from ..loader import batches
from ..loader.work import WorkWindow
from .replay import CAP_WINDOWS, CHANGED_IN_PLACE, NO_LOADER, ReplayedBatch, ReplayStage, TrainingTimer
from .runner import NO_WHOLE_BATCH, Missing

_LEAST_LOADED = 4
_LEAST_CAP_S = 15.0
"""For a loader alone, where nothing else is timed: a large batch takes seconds."""
_SHORT_EPOCHS = 3


class IsolatedRates(ReplayStage):
    """Takes batches that the script does not get, then gives the script one batch again and again.

    Each half is timed for about half a window. Where the training computes nothing, the loader alone is.
    """

    name = "floors"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._loader: LoaderAlone | None = None
        self._is_dry = self._loop.is_dry
        self._training: TrainingTimer = self._timer()

    @property
    def phase(self) -> str:
        """Its name, another where the loader alone is timed."""
        return "loader" if self._is_dry else self.name

    def facts(self) -> dict:
        """Return the plain facts of an IsolatedRates record."""
        why_untrained, loader, training = self._why_untrained(), self._loader, self._training
        is_trained = self._replayed is not None and not why_untrained
        reasons = [self._why_ended, loader.why_not if loader else "", why_untrained]
        return {
            "loader_step_s": loader.batch_s if loader else None,
            "loader_batches": loader.batches if loader else 0,
            "compute_step_s": training.step_s if is_trained else None,
            "compute_batches": training.batches if is_trained else 0,
            "loader_work": loader.work.facts() if loader else None,
            "why_not": "; ".join(reason for reason in reasons if reason)[:500] or None,
        }

    def _turn(self, source: Any) -> None:
        if self._replayed is not None:
            self.is_over = self._training.asked() or self._training.is_hopeless
            return
        if source is None:
            raise Missing(NO_LOADER)
        self._insist_on_one_rank()
        window_s, is_dry = self._loop.request.window_s, self._is_dry
        most_s = max(CAP_WINDOWS * window_s, _LEAST_CAP_S if is_dry else 0.0)
        self._loader = LoaderAlone(source, window_s, self._moved, self._clock, most_s)
        self._loader.run()
        if self._loader.full_batch is not None and not is_dry:
            self._replayed = ReplayedBatch(self._loader.full_batch)
            self._let_refill(source)
        self.is_over = self._replayed is None

    def _why_untrained(self) -> str:
        if self._replayed is None:
            return ""
        if self._replayed.was_changed:
            return CHANGED_IN_PLACE
        if self._training.is_hopeless:
            return f"training alone: {NO_WHOLE_BATCH}"
        if not self._training.is_enough:
            return f"the training alone was too slow: {self._training.batches} batches were timed"
        return ""


class LoaderAlone:
    """Times a loader whose batches are thrown away.

    What was primed comes for free and is left out, here and after each end of an epoch; so is the epoch's
    end itself. Counted are whole rounds of the workers, whose batches come in turn.

    Args:
        window_s: half of it is timed.
        most_s: until it is given up as too slow; None for twice the window.

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
        most_s: float | None = None,
    ) -> None:
        self._source, self._window_s = source, window_s
        self._most_s = most_s or CAP_WINDOWS * window_s
        self._moved, self._clock = moved, clock
        facts = source.info.facts
        workers = facts.get("num_workers") or 0
        self._round = max(workers, 1)
        self._left_out = max(workers * (facts.get("prefetch_factor") or 0), 1)
        self._least = -(-max(workers, _LEAST_LOADED) // self._round) * self._round
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
