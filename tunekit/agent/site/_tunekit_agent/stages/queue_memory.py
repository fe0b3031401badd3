"""The loader's full queue: its use of /dev/shm, and each process's other memory."""

from __future__ import annotations

import math
import mmap
import os
from typing import Any

from ..loader.info import epoch_of
from ..loader.work import start_method
from ..measure.host import memory_of, shm_used_bytes
from .runner import Missing, Stage

_QUIET_S = 0.5
_QUIET_BATCHES = 2
_MIN_HOLD_S = 3.0
_MAX_HOLD_S = 60.0
_LOOK_EVERY_S = 0.02
_GROWTH_SHARE, _MIN_GROWTH_BYTES = 0.05, 64 << 10
"""Slack as a share of a batch and in bytes: other programs' small use of /dev/shm is not growth of the
queue."""
_GROWTHS = 2
"""Readings of a worker's memory, one after the other."""
_MIN_COPIED_BYTES = 1 << 20
"""Slack of each growth: batches come and go in a worker too."""
_MAX_RISE = 1.5
"""Limit of the second growth over the first."""
_SEMAPHORE_DEPTH = 2
"""An event holds a condition, which holds its locks."""


class QueueMemory(Stage):
    """Pauses the script at its next batch until the loader's workers have filled the queue.

    /dev/shm then holds workers x prefetch batches and the one that the script still has at hand. Forked
    workers also keep what the script had at hand when they were started, the last batch of the epoch before:
    they have it mapped until they end. The growth is of the whole /dev/shm but the queues' semaphores: other
    programs' use within the trial counts too. Where a thread copies batches into pinned memory, they leave
    /dev/shm as they come: the growth is then what is left there, and the queue is never called full. It isn't
    either where the epoch has too few batches left to fill it.
    """

    name = "queue"

    _looks: Any = ()  # at what a worker has, evenly spaced in its epoch
    _each = _next_at = _rounds = 0  # batches from one look to the next; such rounds in the rest of the epoch

    def asked(self, source: Any) -> Any:
        """Pause the script until the queue is full, then measure it."""
        if self._facts is not None:
            self._look_again(source)
            return None
        self.is_over = True
        self._require_loader(source, "share /dev/shm: one loader's share is unknown")
        self._facts = {**self._queue_of(source), **_memory_of(source.live)}
        self._plan_looks(source.info)
        return None

    def interrupted(self) -> None:
        """At the epoch's end its workers may end too: stop looking at them."""
        self.is_over |= bool(self._looks)

    def _plan_looks(self, info: Any) -> None:
        """Look twice more in this epoch at forked workers: writing reference counts, they copy pages."""
        if not self._facts["worker_base_bytes"] or not _forks(info):
            return
        left = (epoch_of(info)[1] or 0) - info.epoch_fetches
        in_time = round(self._loop.request.window_s / max(self._loop.step_s, 1e-6))
        self._each = min(left, in_time) // _GROWTHS
        if self._each > 0:
            self._next_at, self._rounds = info.epoch_fetches + self._each, left // self._each
            self._looks, self.is_over = [self._facts["worker_base_bytes"]], False

    def _look_again(self, source: Any) -> None:
        if source.info.epoch_fetches < self._next_at:
            return
        self._next_at += self._each
        self._facts.update(_memory_of(source.live))
        self._looks.append(self._facts["worker_base_bytes"] or 0)
        has_grown = self._looks[-1] - self._looks[-2] >= _MIN_COPIED_BYTES
        self.is_over = not has_grown or len(self._looks) > _GROWTHS
        if has_grown and self.is_over:
            later_bytes = copied_later(*self._looks, self._rounds)
            self._facts["worker_growth_bytes"] = min(later_bytes, self._facts["main_base_bytes"] or 0)

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
        # A worker makes a batch at least this often where the loop waits.
        turn_s = workers * self._loop.step_s
        now = grew_at = self._clock()
        until = now + min(_MIN_HOLD_S + (queued / workers + _QUIET_BATCHES) * turn_s, _MAX_HOLD_S)
        max_bytes = shm_used_bytes() or 0
        slack_bytes = max(_GROWTH_SHARE * each_bytes, _MIN_GROWTH_BYTES)
        while now < until:
            self.moved(self.name)
            self._sleep(_LOOK_EVERY_S)
            now, used_bytes, has_all_made = self._clock(), shm_used_bytes() or 0, source.has_all_made
            if used_bytes > max_bytes + slack_bytes or has_all_made is False:
                max_bytes, grew_at = max(max_bytes, used_bytes), now
            quiet_s = _QUIET_S if has_all_made else max(_QUIET_S, _QUIET_BATCHES * turn_s)
            if now - grew_at >= quiet_s:
                return True
        return False


def _forks(info: Any) -> bool:
    """Return whether a loader's workers are forked, and so have mapped what the script has."""
    return start_method(info.loader()) == "fork"


def _memory_of(live: Any) -> dict:
    """Return the memory of this process and of a torch iterator's living workers.

    Pages shared since a fork don't grow with the number of workers. So a worker counts with its private
    pages, and the rest counts for the training process.
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


def copied_later(before: int, between: int, now: int, rounds: int) -> int:
    """Return what a worker copies after two of the rounds that are left of its epoch.

    A page is copied at the first of its samples: with k of them in each, in random order, what a round copies
    falls as the (k - 1)th power of what is left of the epoch. What rises is no such copying: a garbage
    collector that went over all objects at once leaves nothing to copy.

    Args:
        before, between, now: bytes that it had at first, after one of the rounds and after the other.
        rounds: of the rest of the epoch, those two included.
    """
    first, second = between - before, now - between
    if second > _MAX_RISE * first:
        return 0
    power = max(0.0, math.log(first / second) / math.log((rounds - 0.5) / (rounds - 1.5)))
    later = ((rounds - place - 0.5) / (rounds - 1.5) for place in range(_GROWTHS, rounds))
    return round(second * sum(share**power for share in later))


def _semaphore_bytes(live: Any) -> int:
    """Return the bytes of /dev/shm that the semaphores of a torch iterator's queues take: a page each."""
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
