"""Time of training alone at other batch sizes: one batch, resized, is trained on repeatedly."""

from __future__ import annotations

from typing import Any

from .peaks import DevicePeak
from .replay import WARM_TURNS, ReplayStage, resized
from .runner import Missing


class BatchSizes(ReplayStage):
    """Takes one batch from the script and then feeds it back in one size after another.

    The sizes are tried in the order of the request, up to the first that fails. Facts are reported before
    each size, which may crash the script: device memory may run out, or a state of the script may be as long
    as its batch.
    """

    name = "sizes"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._waiting = list(self._loop.request.sizes)
        self._batch: Any = None
        self._own_size = self._size = 0
        self._peak = DevicePeak.of(self._loop)
        self._seen: list = []

    def leave(self) -> None:
        """Record why the current size is missing."""
        if self._training is not None and not self.is_over:
            batches = self._training.batches
            self._why_ended = f"batch size {self._size} was too slow: {batches} batches were timed"

    def facts(self) -> dict:
        """Return the plain facts of a ComputeSweep record."""
        return {"sizes": list(self._seen), "why_ended": self._why_ended}

    def _turn(self, source: Any) -> None:
        if self._batch is None:
            self._take(source)
        elif not self._is_measured():
            return
        self._begin_next()

    def _take(self, source: Any) -> None:
        self._require_loader(source)
        if self._loop.graphs_captured():
            raise Missing("torch.compile would compile anew for every size")
        self._batch, self._own_size = self._full_batch(source)
        self._let_refill(source)

    def _begin_next(self) -> None:
        self._replayed = self._training = None  # its batch goes before there is another
        if not self._waiting:
            self.is_over = True
            return
        size = self._size = self._waiting.pop(0)
        self.knows_more()
        try:
            batch = resized(self._batch, self._own_size, size)
        except Missing:
            raise
        except Exception as error:  # as no memory for it
            raise Missing(f"no batch of {size} could be made: {type(error).__name__}: {error}") from error
        self._train_on(batch)

    def _is_measured(self) -> bool:
        """Return whether the current size is timed, and keep its time."""
        is_enough, training, peak = self._is_timed(), self._training, self._peak
        assert training is not None
        if peak is not None and self._turn_count == WARM_TURNS - 1:
            peak.begin(gives_back=True)
        if is_enough:
            self._seen.append(  # a ComputeSweepPoint record
                {
                    "batch_size": self._size,
                    "step_s": training.step_s,
                    "batches": training.batches,
                    "peak_reserved_bytes": peak.reserved_bytes() if peak is not None else None,
                }
            )
        return is_enough
