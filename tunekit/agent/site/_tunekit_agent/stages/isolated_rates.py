"""What either half of the loop would allow alone: the loader, then the training, then more workers."""

from __future__ import annotations

from typing import Any

from .loader_alone import LoaderAlone
from .replay import CAP_WINDOWS, CHANGED_IN_PLACE, ReplayedBatch, ReplayStage, TrainingTimer
from .runner import NO_WHOLE_BATCH
from .worker_sweep import WorkerSweep

_MIN_CAP_S = 15.0
"""For a loader alone, where nothing else is timed: a large batch takes seconds."""


class IsolatedRates(ReplayStage):
    """Takes batches that the script does not get, then gives the script one batch again and again.

    Each half is timed for about half a window, and the loader once more with other numbers of workers. Where
    the training computes nothing, the loader alone is timed, as it is.
    """

    name = "floors"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._loader: LoaderAlone | None = None
        self._sweep: WorkerSweep | None = None
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
        sweep = self._sweep
        reasons = [self._why_ended, loader.why_not if loader else "", why_untrained]
        return {
            "loader_step_s": loader.batch_s if loader else None,
            "compute_step_s": training.step_s if is_trained else None,
            "loader_work": loader.work.facts() if loader else None,
            "why_not": "; ".join(reason for reason in reasons if reason)[:500] or None,
            "workers": sweep.points if sweep else [],
        }

    def _turn(self, source: Any) -> None:
        if self._replayed is not None:
            self.is_over = self._training.asked() or self._training.is_hopeless
            if self.is_over:
                self._try_workers(source)
            return
        self._require_loader(source)
        window_s, is_dry = self._loop.request.window_s, self._is_dry
        most_s = max(CAP_WINDOWS * window_s, _MIN_CAP_S if is_dry else 0.0)
        self._loader = LoaderAlone(source, window_s, self._moved, self._clock, most_s)
        self._loader.run()
        if self._loader.full_batch is not None and not is_dry:
            self._replayed = ReplayedBatch(self._loader.full_batch)
            self._let_refill(source)
        self.is_over = self._replayed is None

    def _try_workers(self, source: Any) -> None:
        self.knows_more()
        compute_s = self._training.step_s if self._training.batches else None
        self._sweep = WorkerSweep(source, self._loop, compute_s, self._moved, self._clock)
        self._sweep.run()

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
