"""Where a loader's batches come from: the script's iterator or its replacement."""

from __future__ import annotations

import weakref
from typing import Any, Callable

from ..originals import time


class Replay:
    """An answer to a fetch: give the script this batch instead of fetching one."""

    def __init__(self, batch: object) -> None:
        self.batch = batch


class Source:
    """One of the script's iterators, and its replacement if the observer ended its epoch.

    Args:
        watch: the `watch.LoaderWatch` that observes it.

    Attributes:
        restarts: how often the observer started another epoch without the script noticing.
    """

    def __init__(self, watch: Any, iterator: Any, info: Any) -> None:
        self.watch = watch
        self.info = info
        self.restarts = 0
        self._own = weakref.ref(iterator)  # a reference cycle would keep its workers alive
        self._successor: Any = None

    @property
    def live(self) -> Any:
        """The torch iterator that batches currently come from."""
        return self._own() if self._successor is None else self._successor

    @property
    def asked_batches(self) -> int:
        """Batches requested from its workers that the script has not taken; 0 without workers.

        Batches that arrived out of order count; those of a worker that ran out of data don't.
        """
        return len(self._tasks())

    @property
    def has_all_made(self) -> bool | None:
        """Whether its workers have made every batch that was requested; None if unknown.

        A worker that runs out of data leaves its remaining requests unmade until torch reads that it ended.
        """
        if not self._tasks():
            return True
        made = self._made_batches()
        return None if made is None else made >= len(self._tasks())

    def discard_ready(self, until: float, moved: Callable[[], None]) -> None:
        """Discard the batches that its workers have already made.

        Args:
            until: when to stop, by time.perf_counter.
            moved: called after each batch.
        """
        self._discard(self._made_batches() or 0, until, moved)

    def end_epoch(self, until: float, moved: Callable[[], None]) -> None:
        """Make the epoch end at the next fetch: give its workers no more work, and discard their batches.

        If that takes too long, the script gets the remaining batches.
        """
        self.live._sampler_iter = iter(())
        self._discard(self.asked_batches, until, moved)

    def _discard(self, count: int, until: float, moved: Callable[[], None]) -> None:
        for _ in range(count):
            try:
                self.fetch()
            except Exception:  # a broken batch, or the end of the epoch: the next fetch raises it again
                return
            moved()
            if time.perf_counter() > until:
                return

    def _made_batches(self) -> int | None:
        """Return how many finished batches the script has not taken; None if unknown."""
        try:
            return self.live._data_queue.qsize() + sum(len(task) == 2 for task in self._tasks())
        except AttributeError:  # an iterator that keeps its batches elsewhere
            return None

    def _tasks(self) -> list:
        """Return torch's task for each pending batch: its worker and, if it has arrived, the batch.

        `_tasks_outstanding` leaves out batches that arrived early, and `_rcvd_idx` doesn't move when batches
        are taken out of order.
        """
        live = self.live
        tasks = list(getattr(live, "_task_info", {}).values())
        is_at_work = getattr(live, "_workers_status", ())
        return [
            task for task in tasks if len(task) == 2 or (task[0] < len(is_at_work) and is_at_work[task[0]])
        ]

    def fetch(self) -> Any:
        """Return the next batch.

        Raises:
            StopIteration: the epoch is over.
        """
        self.watch.fetching += 1
        try:
            return self.watch.original_next(self.live)
        finally:
            self.watch.fetching -= 1

    def restart(self) -> bool:
        """Start the loader's next epoch without the script noticing; return whether there is one."""
        loader = self.info.loader()
        if loader is None:
            return False
        self.info.attributes.is_paused = True
        try:
            live = self.watch.module.DataLoader.__iter__(loader)
        finally:
            self.info.attributes.is_paused = False
        self._successor = None if live is self._own() else live
        self.restarts += 1
        return True

    def take(self) -> Any:
        """Return a batch that the script won't get, from the next epoch if this one is over.

        Raises:
            StopIteration: the loader has no more batches.
        """
        try:
            return self.fetch()
        except StopIteration:
            if not self.restart():
                raise
        return self.fetch()
