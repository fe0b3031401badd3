"""The cost of making batches, counted by the processes that make them in memory shared with the loop.

Each loader has a map of numbers with one slot per worker, which the worker writes into: a forked worker
inherits it, and a spawned one finds its file by an environment variable that is set while the loader starts
its workers. Workers of a fork server get neither. Without workers, the only slot is for the loop's process.

    map:   what to record of samples, up to which rank | slot of worker 0 | slot of worker 1 | ...
    slot:  batches, their time, CPU time, waits for a CPU and for block devices, whether those are unknown,
           states of the generators that it drew from
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import sys
import weakref
from typing import Any, Callable

from ..measure.host import waits_ns
from ..originals import time
from ..process import Owner
from .samples import MAX_GENERATORS, SampleNotes, generators_of, state_print

VARIABLE = "TUNEKIT_LOADER_WORK"
_MAX_SLOTS = 256
_HEADER = 16
_NOTED, _MAX_RANK = range(2)
_BATCHES, _TIME, _CPU, _RUN_QUEUE, _BLOCK_IO, _WAITS_UNKNOWN, _GENERATORS = range(7)
_SLOT = 16
"""Words in a slot: two cache lines, so that workers don't share one."""
_WORD_BYTES = 8
_UNKNOWN = object()


class Tally:
    """Writes one process's slot.

    Args:
        words: the words of the whole map.
        slot: the worker's id.
        cpu_clock: returns CPU time in nanoseconds: of a worker's whole process, since its data set may
            decode in threads; without workers, of the loop's thread, since OpenMP's threads spin to wait.
    """

    def __init__(self, words: Any, slot: int, cpu_clock: Callable[[], int]) -> None:
        self.cpu_clock = cpu_clock
        self._words = words
        self._at = _HEADER + slot * _SLOT
        self._is_first = True

    def noted(self) -> tuple:
        """Return what to record of samples (a mode of `samples`), and up to which rank to pin them."""
        return self._words[_NOTED], self._words[_MAX_RANK]

    def generators_before(self, dataset: Any) -> list | None:
        """Return the states of a process's generators before its first batch; None for later batches."""
        if not self._is_first:
            return None
        try:
            return [(one, state_print(one)) for _, one in generators_of(dataset)][:MAX_GENERATORS]
        except Exception:  # user classes may raise anything when inspected
            return None

    def generators_after(self, before: list) -> None:
        """Store the initial states of the generators that the first batch drew from."""
        for at, (generator, state) in enumerate(before, self._at + _GENERATORS):
            self._words[at] = state if state_print(generator) != state else 0

    def made(self, time_ns: int, cpu_ns: int, waits: tuple | None = None) -> None:
        """Count a batch that was made, except a process's first.

        Args:
            time_ns: the time that it took.
            cpu_ns: the CPU time that it took.
            waits: nanoseconds spent waiting for a CPU and for block devices; None if unknown. They were read
                outside the timed interval: what exceeds it was no wait of the batch.
        """
        words, at = self._words, self._at
        if self._is_first:
            self._is_first = False
            return
        words[at + _BATCHES] += 1
        words[at + _TIME] += time_ns
        words[at + _CPU] += cpu_ns
        if waits is None:
            words[at + _WAITS_UNKNOWN] = 1
        else:
            words[at + _RUN_QUEUE] += min(max(0, waits[0]), time_ns)
            words[at + _BLOCK_IO] += max(0, waits[1])


def _since(before: tuple | None, after: tuple | None) -> tuple | None:
    """Return how much two counters grew; None if they are unknown."""
    return None if before is None or after is None else (after[0] - before[0], after[1] - before[1])


class Slots:
    """A loader's map.

    Args:
        count: number of slots.
        path: file to create for spawned workers; None for memory that forked workers inherit.

    Raises:
        OSError: the file can't be created.
    """

    def __init__(self, count: int, path: str | None = None) -> None:
        self.count = count
        self.path = path
        size = (_HEADER + count * _SLOT) * _WORD_BYTES
        if path is None:
            self.words = memoryview(mmap.mmap(-1, size)).cast("Q")
        else:
            self.words = _mapped(path, os.O_CREAT | os.O_EXCL, size)
            weakref.finalize(self, _remove, path, os.getpid())
        self.own = Tally(self.words, 0, time.thread_time_ns)

    def note(self, mode: int, max_rank: int = 0) -> None:
        """Have samples recorded from the next batch on; `samples` defines the modes."""
        self.words[_MAX_RANK], self.words[_NOTED] = max_rank, mode

    def generators(self) -> list:
        """Return, for each worker, the generator states that its first batch drew from; 0 if unused."""
        return [words[_GENERATORS : _GENERATORS + MAX_GENERATORS] for words in self.read()]

    def read(self) -> list:
        ends = range(_HEADER, _HEADER + self.count * _SLOT, _SLOT)
        return [self.words[at : at + _SLOT].tolist() for at in ends]


def _mapped(path: str, flags: int, size: int = 0) -> Any:
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        if size:
            os.ftruncate(handle, size)
        return memoryview(mmap.mmap(handle, size)).cast("Q")
    finally:
        os.close(handle)


def _remove(path: str, pid: int) -> None:
    if os.getpid() == pid:
        with contextlib.suppress(OSError):
            os.unlink(path)


class WorkWatch:
    """Gives every loader its map, and times batches in the processes that make them.

    Args:
        folder: the folder for spawned workers' files.
    """

    def __init__(self, owner: Owner, folder: str) -> None:
        self._owner = owner
        self._folder = folder
        self._files = 0
        self._starting: Slots | None = None  # the map of the loader whose workers are being forked
        self._spawned_by = os.environ.pop(VARIABLE, None)
        self._tally: Any = _UNKNOWN  # this process's, if it is a worker
        self._notes = SampleNotes(folder)

    def install_fetch(self, module: Any) -> None:
        """Wrap the fetchers in `torch.utils.data._utils.fetch`, which make batches."""
        for fetcher in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
            fetcher.fetch = self._timed(fetcher.fetch)

    def _timed(self, original: Any) -> Any:
        watch = self

        @functools.wraps(original)
        def fetch(self, possibly_batched_index):
            tally = self.__dict__.get("_tunekit_tally", _UNKNOWN)
            if tally is _UNKNOWN:
                tally = self._tunekit_tally = watch._tally_of(self)
            if tally is None:
                return original(self, possibly_batched_index)
            generators = tally.generators_before(self.dataset)
            mode, max_rank = tally.noted()
            cpu_clock = tally.cpu_clock
            waits_before, cpu_before = waits_ns(), cpu_clock()
            began = time.perf_counter_ns()
            if mode:
                batch = watch._notes.fetch(original, self, possibly_batched_index, mode, max_rank)
            else:
                batch = original(self, possibly_batched_index)
            time_ns = time.perf_counter_ns() - began
            tally.made(time_ns, cpu_clock() - cpu_before, _since(waits_before, waits_ns()))
            if generators is not None:
                tally.generators_after(generators)
            return batch

        return fetch

    def _tally_of(self, fetcher: Any) -> Tally | None:
        """Return the tally of a worker's fetcher; None for a loader inside the worker's data set."""
        worker = getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None)
        if worker is None or getattr(worker, "dataset", None) is not fetcher.dataset:
            return None
        if self._tally is _UNKNOWN:
            self._tally = self._tally_for(worker.id)
        return self._tally

    def _tally_for(self, worker_id: int) -> Tally | None:
        words = None
        if not self._owner.is_here:
            words = self._starting.words if self._starting is not None else None
        elif self._spawned_by is not None:
            with contextlib.suppress(OSError, ValueError):
                words = _mapped(self._spawned_by, 0)
        known = words is not None and _HEADER + (worker_id + 1) * _SLOT <= len(words)
        return Tally(words, worker_id, time.process_time_ns) if known else None

    def wrap_start(self, loader_class: Any) -> None:
        """Wrap the method that starts a loader's iterator and workers; torchdata's class overrides it."""
        original = loader_class._get_iterator
        watch = self

        @functools.wraps(original)
        def _get_iterator(self):
            info = getattr(self, "_tunekit_info", None)
            if info is None or not watch._owner.is_here:
                return original(self)
            slots = info.work = watch._slots_for(self, info)
            with watch._handing_over(slots):
                iterator = original(self)
            fetcher = getattr(iterator, "__dict__", {}).get("_dataset_fetcher")
            if fetcher is not None:
                fetcher._tunekit_tally = slots.own if slots is not None else None
            return iterator

        loader_class._get_iterator = _get_iterator

    @contextlib.contextmanager
    def _handing_over(self, slots: Slots | None) -> Any:
        before, self._starting = self._starting, slots
        path = slots.path if slots is not None else None
        if path is not None:
            os.environ[VARIABLE] = path
        try:
            yield
        finally:
            self._starting = before
            if path is not None:
                os.environ.pop(VARIABLE, None)

    def _slots_for(self, loader: Any, info: Any) -> Slots | None:
        """Return the loader's map, keeping its current one while it fits; None if it can't have one."""
        try:
            method = start_method(loader) if loader.num_workers else "fork"
            count = min(max(loader.num_workers, 1), _MAX_SLOTS)
            known = info.work
            if known is not None and known.count == count and (known.path is None) == (method == "fork"):
                return known
            if method == "fork":
                return Slots(count)
            if method != "spawn":
                return None
            self._files += 1
            return Slots(count, os.path.join(self._folder, f"loader-work-{os.getpid()}-{self._files}"))
        except Exception:
            return None


def start_method(loader: Any) -> str:
    """Return how a loader starts its workers, such as "fork"."""
    import multiprocessing  # torch has imported it; scripts without a loader may not need it

    context = getattr(loader, "multiprocessing_context", None)
    method = context.get_start_method() if context is not None else None
    return (
        method
        or multiprocessing.get_start_method(allow_none=True)
        or multiprocessing.get_all_start_methods()[0]
    )


class WorkWindow:
    """Adds up what the training loader's workers did in the steady window.

    Workers are identified by their id: the workers of the next epoch continue the counts of those with the
    same id, in the same map or in that of a rebuilt loader.
    """

    def __init__(self) -> None:
        self._is_open = False
        self._is_known = True
        self._slots: Slots | None = None
        self._before: list = []
        self._sums: list = []  # for each slot, the sums of its words

    def open(self, slots: Slots | None) -> None:
        """Open the window.

        Args:
            slots: the training loader's map; None if it has none.
        """
        self._is_open = True
        self._begin(slots)

    def follow(self, slots: Slots | None) -> None:
        """Continue with the training loader's current map: it starts an epoch, and may have been rebuilt."""
        if self._is_open and slots is not self._slots:
            self._end()
            self._begin(slots)

    def close(self) -> None:
        self._end()
        self._is_open = False

    def facts(self) -> dict | None:
        """Return the plain facts of a LoaderWork record; None if a map is missing or no batch was made."""
        self.close()
        if not self._is_known or not any(sums[_BATCHES] for sums in self._sums):
            return None
        return {
            "workers": [{"batches": one[_BATCHES], "time_s": one[_TIME] / 1e9} for one in self._sums],
            "cpu_s": sum(sums[_CPU] for sums in self._sums) / 1e9,
            "run_queue_s": self._waited_s(_RUN_QUEUE),
            "block_io_s": self._waited_s(_BLOCK_IO),
        }

    def _waited_s(self, word: int) -> float | None:
        """Return the total wait of all workers; None if one of them doesn't know its own."""
        is_unknown = any(sums[_WAITS_UNKNOWN] for sums in self._sums)
        return None if is_unknown else sum(sums[word] for sums in self._sums) / 1e9

    def _begin(self, slots: Slots | None) -> None:
        self._slots = slots
        if slots is None:
            self._is_known = False
            return
        self._before = slots.read()

    def _end(self) -> None:
        if self._slots is None:
            return
        after = self._slots.read()
        while len(self._sums) < len(after):
            self._sums.append([0] * _SLOT)
        for slot, new in enumerate(after):
            sums, old = self._sums[slot], self._before[slot]
            for place in range(_WAITS_UNKNOWN):
                sums[place] += new[place] - old[place]
            sums[_WAITS_UNKNOWN] |= new[_WAITS_UNKNOWN]
        self._slots = None
