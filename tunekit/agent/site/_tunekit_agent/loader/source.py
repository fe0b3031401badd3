"""Where a loader's batches come from: the script's iterator, and what took its place."""

from __future__ import annotations

import weakref
from typing import Any, Callable

from ..originals import time


class Replay:
    """An answer to a fetch: hand this batch to the script, and fetch none."""

    def __init__(self, batch: object) -> None:
        self.batch = batch


class Source:
    """One iterator of the script's, and the one that took its place where the observer ended its epoch.

    Args:
        watch: the `loaders.LoaderWatch` that sees it.

    Attributes:
        restarts: how often another epoch was begun under the script's hands.
    """

    def __init__(self, watch: Any, iterator: Any, info: Any) -> None:
        self.watch = watch
        self.info = info
        self.restarts = 0
        self._own = weakref.ref(iterator)  # a cycle would keep its workers alive
        self._successor: Any = None

    @property
    def live(self) -> Any:
        """Torch's iterator that batches come from now."""
        return self._own() if self._successor is None else self._successor

    @property
    def asked_batches(self) -> int:
        """Batches that its workers were asked for and the script has not taken; 0 without workers.

        Those that came before their turn are among them, those of a worker that ran out of data are not.
        """
        return len(self._tasks())

    @property
    def has_all_made(self) -> bool | None:
        """Whether its workers have made all that they were asked for; None where that is unknown.

        A worker that runs out of data leaves what it is asked for beyond its end unmade, until torch reads
        of its end.
        """
        if not self._tasks():
            return True
        made = self._made_batches()
        return None if made is None else made >= len(self._tasks())

    def throw_away(self, until: float, moved: Callable[[], None]) -> None:
        """Take the batches that its workers have made by now, which the script does not get.

        Args:
            until: when to stop, by time.perf_counter.
            moved: called after each.
        """
        self._throw_away(self._made_batches() or 0, until, moved)

    def end_epoch(self, until: float, moved: Callable[[], None]) -> None:
        """Have the epoch end at the next fetch: its workers get nothing more to do, what they do is taken.

        Where that takes too long the script gets what is left.
        """
        self.live._sampler_iter = iter(())
        self._throw_away(self.asked_batches, until, moved)

    def _throw_away(self, count: int, until: float, moved: Callable[[], None]) -> None:
        for _ in range(count):
            try:
                self.fetch()
            except Exception:  # the epoch is over, as the script's next fetch says too, or a batch is broken
                return
            moved()
            if time.perf_counter() > until:
                return

    def _made_batches(self) -> int | None:
        """Return how many batches its workers have made and the script has not taken; None if unknown."""
        try:
            return self.live._data_queue.qsize() + sum(len(task) == 2 for task in self._tasks())
        except AttributeError:  # an iterator that keeps its batches elsewhere
            return None

    def _tasks(self) -> list:
        """Return torch's task of each batch that is still to come: its worker, and the batch if it is there.

        `_tasks_outstanding` leaves out what came before its turn; `_rcvd_idx` stands still where batches
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
        """Begin the loader's next epoch under the script's hands; returns whether there is one."""
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
        """Return a batch that the script does not get, from the next epoch where this one is over.

        Raises:
            StopIteration: the loader has no batch at all.
        """
        try:
            return self.fetch()
        except StopIteration:
            if not self.restart():
                raise
        return self.fetch()
