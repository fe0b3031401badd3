"""The loader's queue at its fullest: what it takes of /dev/shm, and what each process takes beside it."""

from __future__ import annotations

import mmap
import multiprocessing
import os
from typing import Any

from ..measure.host import memory_of, shm_used_bytes
from .replay import NO_LOADER
from .runner import Missing, Stage

_QUIET_S = 0.5
_QUIET_BATCHES = 2
_LEAST_HOLD_S = 3.0
_MOST_HOLD_S = 60.0
_LOOK_EVERY_S = 0.02
_GROWTH_SHARE, _LEAST_GROWTH_BYTES = 0.05, 64 << 10
"""Of one batch, and at least: other programs' small use of /dev/shm is no growth of the queue."""
_SEMAPHORE_DEPTH = 2
"""An event holds a condition, which holds its locks."""


class QueueMemory(Stage):
    """Holds the script at its next batch until the loader's workers have made all that they may.

    /dev/shm then holds workers x prefetch batches and the one that the script still has at hand. Forked
    workers also keep what the script had at hand when they were started, the last batch of the epoch before:
    they have it mapped until they end. The growth is of the whole /dev/shm but the queues' semaphores: other
    programs' use within the trial counts too. Where a thread copies batches into pinned memory, they leave
    /dev/shm as they come: the growth is then what is left there, and the queue is never called full. It isn't
    either where the epoch has too few batches left to fill it.
    """

    name = "queue"

    def asked(self, source: Any) -> Any:
        """Hold the script until the queue is full, then look at it."""
        self.is_over = True
        if source is None:
            raise Missing(NO_LOADER)
        ranks = self._loop.world_size
        if ranks > 1:
            raise Missing(f"the {ranks} ranks share /dev/shm: one loader's part can't be told")
        self._facts = {**self._queue_of(source), **_memory_of(source.live)}
        return None

    def _queue_of(self, source: Any) -> dict:
        facts = source.info.facts
        workers = facts.get("num_workers") or 0
        if not workers:
            return {"batches": 0, "predicted_bytes": 0, "shm_bytes": 0, "is_full": True}
        queued = workers * (facts.get("prefetch_factor") or 0)
        each_bytes = self._loop.batch_shm_bytes
        is_quiet = self._hold(source, workers, queued, each_bytes)
        used_bytes, before_bytes = shm_used_bytes(), source.info.shm_before_bytes
        if used_bytes is None or before_bytes is None:
            raise Missing("this machine has no /dev/shm")
        at_start_bytes = source.info.shm_at_start_bytes if _forks(source.info) else before_bytes
        pinned = bool(getattr(source.live, "_pin_memory", False))
        return {
            "batches": queued + 1,
            "predicted_bytes": (queued + 1) * each_bytes,
            "shm_bytes": max(0, used_bytes - before_bytes - _semaphore_bytes(source.live)),
            "kept_bytes": max(0, (at_start_bytes or 0) - before_bytes),
            "is_full": is_quiet and not pinned and source.asked_batches >= queued,
        }

    def _hold(self, source: Any, workers: int, queued: int, each_bytes: int) -> bool:
        turn_s = (
            workers * self._loop.step_s
        )  # a worker makes a batch at least this often where the loop waits
        now = grew_at = self._clock()
        until = now + min(_LEAST_HOLD_S + (queued / workers + _QUIET_BATCHES) * turn_s, _MOST_HOLD_S)
        most_bytes = shm_used_bytes() or 0
        slack_bytes = max(_GROWTH_SHARE * each_bytes, _LEAST_GROWTH_BYTES)
        while now < until:
            self.moved(self.name)
            self._sleep(_LOOK_EVERY_S)
            now, used_bytes, has_all_made = self._clock(), shm_used_bytes() or 0, source.has_all_made
            if used_bytes > most_bytes + slack_bytes or has_all_made is False:
                most_bytes, grew_at = max(most_bytes, used_bytes), now
            quiet_s = _QUIET_S if has_all_made else max(_QUIET_S, _QUIET_BATCHES * turn_s)
            if now - grew_at >= quiet_s:
                return True
        return False


def _forks(info: Any) -> bool:
    """Return whether a loader's workers are forked, and so have mapped what the script has."""
    context = getattr(info.loader(), "multiprocessing_context", None) or multiprocessing
    return context.get_start_method() == "fork"


def _memory_of(live: Any) -> dict:
    """Return the memory of this process and of a torch iterator's workers that are still there.

    Pages that a fork left shared belong to no worker: they stay however many there are. So a worker counts
    with its private pages, and the rest of what all of them take is the training process's.
    """
    pids = [worker.pid for worker in getattr(live, "_workers", ()) if worker.is_alive()]
    main, workers = memory_of(os.getpid()), [memory_of(pid) for pid in pids]
    known = [worker for worker in workers if worker is not None]
    each_bytes = sum(worker.private_bytes for worker in known) // len(known) if known else None
    if main is None or len(known) < len(workers):
        return {"main_base_bytes": None, "worker_base_bytes": each_bytes, "pss_bytes": None}
    base_bytes = sum(process.base_bytes for process in (main, *known))
    return {
        "main_base_bytes": max(0, base_bytes - len(known) * (each_bytes or 0)),
        "worker_base_bytes": each_bytes,
        "pss_bytes": sum(process.pss_bytes for process in (main, *known)),
    }


def _semaphore_bytes(live: Any) -> int:
    """Return what the semaphores of a torch iterator's queues take of /dev/shm: a page each."""
    found: set = set()
    queues = [getattr(live, "_worker_result_queue", None), getattr(live, "_workers_done_event", None)]
    _find_semaphores([*queues, *getattr(live, "_index_queues", ())], found, _SEMAPHORE_DEPTH)
    return len(found) * mmap.PAGESIZE


def _find_semaphores(things: list, found: set, depth: int) -> None:
    for thing in things:
        if hasattr(thing, "_semlock"):
            found.add(id(thing))
        elif depth and type(thing).__module__.startswith("multiprocessing."):
            _find_semaphores(list(vars(thing).values()), found, depth - 1)
