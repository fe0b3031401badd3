"""What either half of the loop would allow alone: the loader, then the training, then more workers."""

from __future__ import annotations

from typing import Any

from .loader_alone import LoaderAlone
from .replay import CAP_WINDOWS, ReplayStage
from .runner import Missing
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
        self._has_trained = False

    @property
    def phase(self) -> str:
        """Its name, another where the loader alone is timed."""
        return "loader" if self._is_dry else self.name

    def leave(self) -> None:
        """Say why the training has no time if it is still at work."""
        if self._training is not None and not self.is_over:
            batches = self._training.batches
            self._why_ended = f"the training alone was too slow: {batches} batches were timed"

    def facts(self) -> dict:
        """Return the plain facts of an IsolatedRates record."""
        loader, sweep = self._loader, self._sweep
        trained = self._training if self._has_trained else None
        reasons = [loader.why_not if loader else "", self._why_ended]
        return {
            "loader_step_s": loader.batch_s if loader else None,
            "compute_step_s": trained.step_s if trained else None,
            "loader_work": loader.work.facts() if loader else None,
            "why_not": "; ".join(reason for reason in reasons if reason)[:500] or None,
            "workers": sweep.points if sweep else [],
        }

    def _turn(self, source: Any) -> None:
        if self._training is not None:
            try:
                self.is_over = self._has_trained = self._is_timed()
            except Missing as error:
                self.is_over, self._why_ended = True, f"training alone: {error}"
            if self.is_over:
                self._try_workers(source, self._training.step_s if self._training.batches else None)
            return
        self._require_loader(source)
        window_s, is_dry = self._loop.request.window_s, self._is_dry
        max_s = max(CAP_WINDOWS * window_s, _MIN_CAP_S if is_dry else 0.0)
        self._loader = LoaderAlone(source, window_s, self._moved, self._clock, max_s)
        self._loader.run()
        if self._loader.full_batch is not None and not is_dry:
            self._train_on(self._loader.full_batch)
            self._let_refill(source)
        self.is_over = self._replayed is None

    def _try_workers(self, source: Any, compute_s: float | None) -> None:
        self.knows_more()
        self._sweep = WorkerSweep(source, self._loop, compute_s, self._moved, self._clock)
        self._sweep.run()
