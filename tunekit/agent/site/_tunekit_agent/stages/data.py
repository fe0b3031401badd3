"""The samples of whole epochs: which are drawn, which arrive, and what is in some of them."""

from __future__ import annotations

import contextlib
import heapq
import os
from typing import Any

from ..loader import samples
from ..loader.info import epoch_of
from ..loader.read_state import changed_by_reading, sizes_of
from ..loader.watch import MAX_WRAPPED, length_of
from ..measure.errors import line_of
from .runner import NO_LOADER, Missing, Stage

_EPOCHS = 2
_MAX_DRAWS = 2_000_000
_DRAWING_S, _PINNED_S, _MAX_S, _PART_S = 3.0, 6.0, 10.0, 3.0
"""Deadlines in seconds since the stage began: for drawing indices, for making pinned samples, for reading
epochs; and how long a long epoch is sampled."""
_MAX_CONTENTS = 256
_PINNED_BATCH = 8
_MAX_READ, _READING_S = 8, 2.0
"""Limits in samples and seconds of finding what reading changes."""
_MAX_NAMES = 8


class DataSeen(Stage):
    """Pauses the script and reads extra epochs.

    Nothing trains after it: reading advances file positions and generators, and fills caches.
    """

    name = "data"
    _read_here: Any = None
    """The data set, where this process makes the batches."""
    _after_batch: Any = None
    """The sizes of its containers after the last batch, before the loop's step."""

    def fetched(self, batch: Any) -> None:
        self._after_batch = sizes_of(self._read_here)

    def asked(self, source: Any) -> Any:
        if source is not None and not getattr(source.live, "_workers", ()):
            self._read_here = source.live._dataset
            try:
                if not self._turns.asked():
                    return None
            except Missing:
                self._after_batch = None  # what the loop takes can't be told from what an epoch's end does
        self.is_over = True
        self._require_loader(source, "share the samples of an epoch")
        self._began = self._clock()
        self._first: set = set()  # the indices of an epoch, as numbers
        self._opaque: dict = {}  # those that are no numbers themselves, by theirs
        self._chosen_rows: list = []
        self._states: list = []  # that generators had as the workers of each epoch began
        self._facts = {"faults": []}
        self._keep("changing", _changing, source.info)
        work, is_stream = source.info.work, bool(source.info.facts.get("iterable"))
        if not is_stream:
            self._keep("indices", self._indices, source)
        if work is None:
            self._facts["faults"].append("workers started by forkserver can't be observed")
            return None
        try:
            if self._first and self._read_here is not None:
                self._keep("unshared", self._unshared, source.info.attributes.first or {})
            if self._first:
                self._keep("contents", self._contents, source, work)
            self._keep("samples", self._samples, source, work)
        finally:
            work.note(samples.OFF)
        if not is_stream:
            self._keep("shared_generators", self._shared_generators, source)
        return None

    def explains(self, error: Exception) -> bool:
        if isinstance(error, Missing):
            self._facts = {"faults": [str(error)]}
        return isinstance(error, Missing)

    def _keep(self, name: str, look: Any, *arguments: Any) -> None:
        try:
            self._facts[name] = look(*arguments)
        except Exception as error:  # the script's own samplers and data sets do as they like
            part = "" if isinstance(error, Missing) else f"{name}: "
            self._facts["faults"].append(f"{part}{line_of(error)}"[:300])

    def _indices(self, source: Any) -> dict:
        """Draw the indices of two epochs from the batch sampler, without reading samples."""
        sampler, is_listed = source.live._index_sampler, source.live._auto_collation
        until, is_whole = self._clock() + _DRAWING_S, True
        first, second, counts, digest = self._first, set(), [0, 0], 0
        with samples.pinned(sampler):
            for epoch in range(_EPOCHS):
                with _in_later_epoch(sampler, epoch):
                    for draw in sampler:
                        for index in draw if is_listed else (draw,):
                            identity = samples.id_of(index)
                            if identity >= samples.OPAQUE:
                                self._opaque[identity] = index
                            (second if epoch else first).add(identity)
                            digest += 0 if epoch else hash((identity,))
                            counts[epoch] += 1
                        if counts[epoch] > _MAX_DRAWS or self._clock() > until:
                            is_whole = False
                            break
                self.moved(self.name)
                if not is_whole:
                    break
        return {
            "is_whole": is_whole,
            "draws": counts[0],
            "distinct": len(first),
            "distinct_in_two": len(first) + len(second - first) if is_whole else None,
            "digest": _text_of(digest),
            "data_set_samples": length_of(source.live._dataset),
        }

    def _unshared(self, first: dict) -> list:
        """Return attributes that reading changes and that affect samples or that the loop drains."""
        sizes, until, found = sizes_of(self._read_here), self._clock() + _READING_S, set()
        taken = {name for name, size in (self._after_batch or {}).items() if sizes.get(name, size) < size}
        with contextlib.suppress(Exception):  # a data set that is read in batches alone
            for identity in heapq.nsmallest(_MAX_READ, self._first, key=samples.rank_of):
                index = self._opaque.get(identity, identity)
                names, is_decisive = changed_by_reading(self._read_here, index, first)
                found |= names if is_decisive else names & taken
                if self._clock() > until:
                    break
        return sorted(found)[:_MAX_NAMES]

    def _contents(self, source: Any, work: Any) -> dict:
        """Have the workers make samples of chosen indices with pinned generators, twice each."""
        chosen = heapq.nsmallest(_MAX_CONTENTS, self._first, key=samples.rank_of)
        indices = [self._opaque.get(identity, identity) for identity in chosen]
        work.note(samples.PINNED, samples.rank_of(chosen[-1]))
        self._restart(source)
        size = _PINNED_BATCH if source.live._auto_collation else None
        source.live._sampler_iter = iter(
            indices if size is None else [indices[i : i + size] for i in range(0, len(indices), size)]
        )
        self._read_epoch(source, _PINNED_S)
        self._chosen_rows = samples.rows_of(self._folder, _pids(source))
        rows = samples.pinned_rows_of(self._folder, _pids(source))
        seen = [identity for identity in chosen if identity in rows]
        leaves = [
            {
                "prints": "".join(f"{rows[identity][1][leaf]:08x}" for identity in seen),
                "unlike": sum(not rows[identity][0] >> leaf & 1 for identity in seen),
            }
            for leaf in range(samples.LEAVES)
        ]
        return {"indices": seen, "leaves": [one for one in leaves if one["prints"].strip("0")]}

    def _samples(self, source: Any, work: Any) -> dict:
        """Read two epochs, or part of a long one, within the time limit."""
        work.note(samples.NOTED)
        epochs: list = []
        whole, took_s = 0, 0.0
        is_short = (epoch_of(source.info)[1] or 0) * self._loop.step_s < _MAX_S - self._spent_s()
        until_s = _MAX_S if is_short else self._spent_s() + _PART_S
        while len(epochs) < _EPOCHS and whole == len(epochs) and self._spent_s() + took_s < _MAX_S:
            before_s = self._spent_s()
            self._restart(source)
            whole += self._read_epoch(source, until_s)
            took_s = self._spent_s() - before_s
            epochs.append(samples.rows_of(self._folder, _pids(source)))
            self._states.append(work.generators())
        if not epochs:
            raise Missing(f"{_MAX_S:g} s were not enough to read a sample")
        keys = [{identity if identity >= 0 else -print_ for identity, print_ in rows} for rows in epochs]
        contents: dict = {}
        for identity, print_ in (row for rows in (self._chosen_rows, *epochs) for row in rows if row[0] >= 0):
            contents.setdefault(identity, []).append(print_)
        again = [prints for prints in contents.values() if len(prints) > 1]
        return {
            "whole_epochs": whole,
            "count": len(epochs[0]),
            "distinct": len(keys[0]),
            "distinct_in_two": len(keys[0] | keys[1]) if whole > 1 else None,
            "digests": [_text_of(sum(map(hash, rows))) for rows in epochs[:whole]],
            "made_again": len(again),
            "made_otherwise": sum(len(set(prints)) > 1 for prints in again),
        }

    def _restart(self, source: Any) -> None:
        if not source.restart():
            raise Missing(NO_LOADER)

    def _spent_s(self) -> float:
        return self._clock() - self._began

    def _read_epoch(self, source: Any, end_s: float) -> bool:
        """Take batches to the epoch's end, until a deadline in seconds since the stage began."""
        while self._spent_s() < end_s:
            try:
                source.fetch()
            except StopIteration:
                return True
            self.moved(self.name)
        return False

    def _shared_generators(self, source: Any) -> list:
        """Return the generators from which workers draw the same numbers: several, or each epoch's.

        The script may reseed them between epochs unless observed not to.
        """
        live, dataset = source.live, source.live._dataset
        begins_anew = getattr(live, "_workers", ()) and not live._persistent_workers
        is_left = self._facts.get("changing") == []
        epochs = self._states if begins_anew and is_left else self._states[-1:]
        index = next(iter(self._first))
        index, shared = self._opaque.get(index, index), []
        for at, (name, _) in enumerate(samples.generators_of(dataset)[: samples.MAX_GENERATORS]):
            states = [worker[at] for epoch in epochs for worker in epoch if worker[at]]
            if len(set(states)) < len(states) and not samples.is_seeded_by_index(dataset, name, index):
                shared.append(name[:100])
        return shared[:_MAX_NAMES]

    @property
    def _folder(self) -> str:
        return self._loop.request.scratch_folder


def _changing(info: Any) -> list | None:
    """Return what the script changes in its data set between epochs; None after a single epoch."""
    watch, dataset = info.attributes, getattr(info.loader(), "dataset", None)
    if watch.has_seen:
        return sorted(watch.names)[:_MAX_NAMES]
    held = getattr(dataset, "__dict__", {}).values()
    # As of Hugging Face's streams.
    sees_all = any(one.is_shared() for one in held if hasattr(one, "is_shared"))
    return ["set_epoch"] if hasattr(dataset, "set_epoch") and not sees_all else None


@contextlib.contextmanager
def _in_later_epoch(sampler: Any, later: int) -> Any:
    """Have samplers with set_epoch draw as in a later epoch."""
    changed: list = []
    for _ in range(MAX_WRAPPED):
        if later and hasattr(sampler, "set_epoch") and isinstance(getattr(sampler, "epoch", None), int):
            changed.append((sampler, sampler.epoch))
            sampler.set_epoch(sampler.epoch + later)
        sampler = getattr(sampler, "batch_sampler", None) or getattr(sampler, "sampler", None)
    yield
    for one, epoch in changed:
        one.set_epoch(epoch)


def _pids(source: Any) -> list:
    """Return the processes that make a loader's batches."""
    return [worker.pid for worker in getattr(source.live, "_workers", ())] or [os.getpid()]


def _text_of(digest: int) -> str:
    """Return a sum of hashes, equal for equal rows of numbers in any order."""
    return f"{digest % (1 << 64):016x}"
