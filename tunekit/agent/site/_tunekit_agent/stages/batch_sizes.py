"""What the training alone takes at other batch sizes: one batch, resized, is trained on over and over."""

from __future__ import annotations

from typing import Any

from .peaks import DevicePeak
from .replay import (
    CHANGED_IN_PLACE,
    NO_LOADER,
    WARM_TURNS,
    ReplayedBatch,
    ReplayStage,
    TrainingTimer,
    resized,
)
from .runner import NO_WHOLE_BATCH, Missing


class BatchSizes(ReplayStage):
    """Takes one batch that the script does not get, then gives it to the script in one size after another.

    The sizes are tried in the order of the request; the first that fails is the last. What is known is
    reported before each size, which the script may not live through: device memory may not do, or a state of
    the script's may be as long as its batch.
    """

    name = "sizes"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._waiting = list(self._loop.request.sizes)
        self._batch: Any = None
        self._own_size = 0
        self._at_work: _OneSize | None = None
        self._seen: list = []

    def leave(self) -> None:
        """Say why a size is missing that was still at work."""
        if self._at_work is not None and not self.is_over:
            at_work = self._at_work
            batches = at_work.training.batches
            self._why_ended = f"batch size {at_work.size} was too slow: {batches} batches were timed"

    def facts(self) -> dict:
        """Return the plain facts of a SizesSeen record."""
        return {"sizes": list(self._seen), "why_ended": self._why_ended and self._why_ended[:500]}

    def _turn(self, source: Any) -> None:
        if self._batch is None:
            self._take(source)
            self._begin_next()
        elif self._at_work is not None and self._at_work.asked():
            self._seen.append(self._at_work.facts())
            self._begin_next()

    def _take(self, source: Any) -> None:
        if source is None:
            raise Missing(NO_LOADER)
        self._insist_on_one_rank()
        if self._loop.graphs_captured():
            raise Missing("torch.compile would compile anew for every size")
        self._batch, self._own_size = self._full_batch(source)
        self._let_refill(source)

    def _begin_next(self) -> None:
        self._at_work = None  # its batch goes before there is another
        if not self._waiting:
            self.is_over = True
            return
        size = self._waiting.pop(0)
        self.knows_more()
        try:
            batch = resized(self._batch, self._own_size, size)
        except Missing:
            raise
        except Exception as error:  # as no memory for it
            raise Missing(f"no batch of {size} could be made: {type(error).__name__}: {error}") from error
        self._at_work = _OneSize(size, batch, self._timer(), DevicePeak.of(self._loop))


class _OneSize:
    def __init__(self, size: int, batch: Any, training: TrainingTimer, peak: DevicePeak | None) -> None:
        self.size, self.training = size, training
        self._batch, self._peak = ReplayedBatch(batch), peak
        self._turns = 0

    def batch(self) -> Any:
        return self._batch.copy()

    def asked(self) -> bool:
        """The loop is through with a batch; returns whether this size is timed."""
        is_enough = self.training.asked()
        if self.training.is_hopeless:
            raise Missing(NO_WHOLE_BATCH)
        self._turns += 1
        if (self._turns <= WARM_TURNS or is_enough) and self._batch.was_changed:
            raise Missing(CHANGED_IN_PLACE)
        if self._peak is not None and self._turns == WARM_TURNS - 1:
            self._peak.begin(gives_back=True)
        return is_enough

    def interrupted(self) -> None:
        self.training.interrupted()

    def facts(self) -> dict:
        return {
            "batch_size": self.size,
            "step_s": self.training.step_s,
            "batches": self.training.batches,
            "peak_reserved_bytes": self._peak.reserved_bytes() if self._peak is not None else None,
        }
