"""The loader's rate alone with other numbers of workers, in the training's own process."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import os
import weakref
from typing import Any, Callable

from ..loader.info import LoaderInfo
from ..loader.source import Source
from ..loader.work import start_method
from ..measure.host import SHM, memory_of
from .loader_alone import LoaderAlone

_COUNTS = (1, 2, 4, 8, 16, 32, 64)
_MIN_GAIN = 1.1
"""The gain from twice the workers below which no more are tried."""
_ENOUGH = 8.0
"""Above this multiple of the training's rate alone, more workers have nothing left to speed up."""
_WINDOW_S, _WINDOWS = 0.8, 2.4
"""Seconds of one count, half of which is timed; and windows that all counts together may take."""
_MAX_SHARE = 0.5
"""Share of the free memory that the workers of the next count may take."""
_USUAL_PREFETCH = 2


class WorkerSweep:
    """Takes batches from clones of the training loader with 1, 2, 4, ... workers, as long as it pays.

    Args:
        source: of the training loader.
        loop: the agent's `Loop`.
        compute_s: seconds per batch of the training alone; None if unknown.

    Attributes:
        points: plain facts of WorkerSweepPoint records.
    """

    def __init__(
        self,
        source: Any,
        loop: Any,
        compute_s: float | None,
        moved: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._source, self._loop, self._compute_s = source, loop, compute_s
        self._moved, self._clock = moved, clock
        self._worker_bytes, self._most_s = 0, _WINDOWS * loop.request.window_s
        self.points: list = []

    def run(self) -> None:
        """Try one count after another."""
        with contextlib.suppress(Exception):  # workers that can't start, a data set that can't be copied
            if self._is_possible():
                self._try_all()

    def _try_all(self) -> None:
        began, last_s = self._clock(), 0.0
        for count in _COUNTS:
            started = self._clock()
            is_late = started - began + 2 * last_s > self._most_s
            before_s = self.points[-1]["step_s"] if self.points else math.inf
            if is_late or self._lacks_memory_for(count) or not self._try(count):
                return
            step_s, last_s = self.points[-1]["step_s"], self._clock() - started
            if before_s < _MIN_GAIN * step_s or _ENOUGH * step_s < (self._compute_s or 0.0):
                return

    def _try(self, count: int) -> bool:
        """Time the loader with this many workers; return whether that was possible."""
        clone = _Clone(self._source, count)
        alone = LoaderAlone(clone.source, _WINDOW_S, self._moved, self._clock, self._most_s / 3)
        alone.run()
        if alone.batch_s is not None:
            self._worker_bytes = clone.worker_bytes()
            self.points.append(
                {"num_workers": count, "step_s": alone.batch_s, "loader_work": alone.work.facts()}
            )
        return alone.batch_s is not None

    def _is_possible(self) -> bool:
        facts, loader = self._source.info.facts, self._source.info.loader()
        if loader is None or (facts.get("iterable") and not facts.get("shards_itself")):
            return False  # each worker would read the whole stream
        # Else workers would run the script's main module again.
        return start_method(loader) == "fork" or bool(facts.get("num_workers"))

    def _lacks_memory_for(self, count: int) -> bool:
        """Return whether the next workers and their queue might exhaust /dev/shm or the RAM."""
        prefetch = self._source.info.facts.get("prefetch_factor") or _USUAL_PREFETCH
        queue_bytes = (count * prefetch + 1) * self._loop.batch_shm_bytes
        shm, own = os.statvfs(SHM), memory_of(os.getpid())
        if queue_bytes > _MAX_SHARE * shm.f_bavail * shm.f_frsize:
            return True
        left_bytes = (self._loop.request.ram_bytes or math.inf) - (own.pss_bytes if own else 0)
        return count * self._worker_bytes + queue_bytes > _MAX_SHARE * left_bytes


class _Clone:
    """A copy of the script's loader with its own workers; deleting it ends them.

    Attributes:
        source: of its batches.
    """

    def __init__(self, source: Any, count: int) -> None:
        original = source.info.loader()
        loader = self._loader = copy.copy(original)
        prefetch = source.info.facts.get("prefetch_factor") or _USUAL_PREFETCH
        changed = {"num_workers": count, "prefetch_factor": prefetch, "persistent_workers": False}
        if not source.info.facts.get("iterable"):
            draws = "batch_sampler" if original.batch_sampler is not None else "sampler"
            epochs = itertools.repeat(getattr(original, draws))
            changed[draws] = itertools.chain.from_iterable(epochs)
        info = LoaderInfo((), 0)  # built nowhere in the script, so that no loop follows it
        info.facts = {**source.info.facts, **changed}
        info.loader = weakref.ref(loader)
        unwarned = {"check_worker_number_rationality": lambda: None}
        vars(loader).update(changed, _iterator=None, _tunekit_info=info, **unwarned)
        self._iterator = source.watch.module.DataLoader.__iter__(loader)
        self.source = Source(source.watch, self._iterator, info)

    def worker_bytes(self) -> int:
        """Return the average private memory of a worker."""
        seen = [memory_of(worker.pid) for worker in self.source.live._workers]
        known = [one.private_bytes for one in seen if one is not None]
        return sum(known) // len(known) if known else 0
