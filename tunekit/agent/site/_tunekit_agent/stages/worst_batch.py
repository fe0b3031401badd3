"""Training on a batch of the data set's largest samples, which a long training will meet."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import random
import sys
from typing import Any, Callable, Iterator

from ..loader import batches
from ..loader.info import length_of
from ..loader.watch import MAX_WRAPPED
from ..measure import errors
from .peaks import DevicePeak
from .replay import CHANGED_IN_PLACE, WARM_TURNS, Rebuilding, ReplayedBatch, ReplayStage
from .runner import Missing

_FIRST_READ = 16
"""If this many samples are alike, sizes do not vary."""
_MAX_READ = 4096
_MIN_READING_S = 2.0
_ENOUGH_TURNS = 10
"""Times to train on it: torch's allocator may reserve more each time at first."""
_MOVED_EVERY_S = 0.1
_GOLDEN = (math.sqrt(5) - 1) / 2
_ALL_SHARE = 0.9
"""Share of the data set that a sampler yields if it drops only an incomplete batch."""


class WorstBatch(ReplayStage):
    """Reads samples of the data set, and gives the script one batch of the largest of them, a few times.

    Samples are read for about a window. Facts are reported before the script gets that batch, which may crash
    it. Reading restores the script's global random states.
    """

    name = "largest"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._samples: Samples | None = None
        self._reading: _Reading | None = None
        self._batch_bytes: int | None = None
        self._usual_bytes: int | None = None
        self._peak = DevicePeak.of(self._loop)
        self._least_turns = max(WARM_TURNS, self._loop.batches_per_step + 1)
        self._survived = False

    def leave(self) -> None:
        """Record why the script has not trained on it more often."""
        if self._replayed is not None and not self.is_over:
            self._why_ended = "the script was too slow on it"

    def facts(self) -> dict:
        """Return the plain facts of a LargestSamples record."""
        samples, reading = self._samples, self._reading
        peak = self._peak if self._survived else None
        return {
            "samples_read": reading.read if reading else 0,
            "data_set_samples": samples.count if samples else None,
            "varies": reading.varies if reading else None,
            "batch_bytes": self._batch_bytes,
            "usual_batch_bytes": self._usual_bytes,
            "is_given": self._replayed is not None,
            "survived": self._survived,
            "peak_reserved_bytes": peak.reserved_bytes() if peak else None,
            "why_ended": self._why_ended,
        }

    def _turn(self, source: Any) -> None:
        if self._replayed is None:
            self._begin(source)
            return
        self._turn_count += 1
        was_changed = self._replayed.was_changed  # then it has trained on it once, and is not given it again
        self._survived = was_changed or self._turn_count >= self._least_turns
        if was_changed:
            raise Missing(CHANGED_IN_PLACE)
        self.is_over = self._turn_count >= max(_ENOUGH_TURNS, self._least_turns)

    def _begin(self, source: Any) -> None:
        self._require_loader(source, "train together and can't be given different batches")
        self._samples = samples = Samples(source)
        limit_s = max(_MIN_READING_S, self._loop.request.window_s)
        self._reading = reading = _Reading(samples, limit_s, self._clock)
        with _random_states_kept():
            reading.run(self._moved)
            if not reading.varies:
                self.is_over = True
                return
            self._usual_bytes = batches.size_bytes(samples.batch_of(reading.take_first()))
            batch = samples.batch_of(reading.take_largest())
        self._batch_bytes = batches.size_bytes(batch)
        self._let_refill(source)
        self._replayed = ReplayedBatch(batch)
        if self._peak is not None:
            # What torch keeps of other batches stays: a long training meets this batch with as much.
            self._peak.begin()
        self.knows_more()


class _Reading:
    """Reads single samples spread over the data set and keeps the largest.

    Attributes:
        read: samples that were read.
        varies: whether the first of them differ in bytes or shapes; None while too few are read.
    """

    def __init__(self, samples: Samples, limit_s: float, clock: Callable[[], float]) -> None:
        self._samples, self._limit_s, self._clock = samples, limit_s, clock
        self.read = 0
        self.varies: bool | None = None
        self._first: list = []
        self._largest: list = []  # a heap of (bytes, order, sample)

    def run(self, moved: Callable[[], None]) -> None:
        """Read until sizes are known not to vary or enough is read, calling `moved` now and then."""
        began_at = moved_at = self._clock()
        extents: set = set()
        for number in self._samples.spread(_MAX_READ):
            sample = self._samples.sample(number)
            size_bytes, shapes = batches.extent_of(sample)
            self._keep(size_bytes, sample)
            extents.add((size_bytes, shapes))
            if self.read >= min(_FIRST_READ, self._samples.count):
                self.varies = len(extents) > 1
            now = self._clock()
            if self.varies is False or now - began_at > self._limit_s:
                break
            if now - moved_at > _MOVED_EVERY_S:
                moved_at = now
                moved()
        if self.varies is None:
            raise Missing(f"the data set is too slow: {self.read} samples were read in {self._limit_s:g} s")

    def take_first(self) -> list:
        first, self._first = self._first, []
        return first

    def take_largest(self) -> list:
        largest, self._largest = sorted(self._largest, reverse=True), []
        return [sample for _, _, sample in largest]

    def _keep(self, size_bytes: int, sample: Any) -> None:
        self.read += 1
        if len(self._first) < self._samples.batch_size:
            self._first.append(sample)
        entry = (size_bytes, -self.read, sample)  # no two are of one order, so samples are never compared
        if len(self._largest) < self._samples.batch_size:
            heapq.heappush(self._largest, entry)
        else:
            heapq.heappushpop(self._largest, entry)


class Samples:
    """The samples that a loader may yield, read in any order, and batches made of them.

    Attributes:
        count: samples that the loader may yield.
        batch_size: of its full batches, of the one batch where there are fewer samples.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self._loader = loader = source.info.loader()
        if loader is None:
            raise Missing("the loader is gone")
        if source.info.facts.get("iterable"):
            raise Missing("an IterableDataset has no samples to choose from")
        in_data_set = length_of(loader.dataset)
        if not in_data_set:
            raise Missing("the data set has no length")
        batch_size = _batch_size(loader, source.info)
        self._numbers = _numbers(loader, in_data_set)
        self.count = len(self._numbers)
        self.batch_size = min(batch_size, self.count)

    def spread(self, most: int) -> Iterator[Any]:
        """Yield up to this many indices, each once, evenly spread however many are taken.

        Multiples of the golden ratio, modulo one, leave no gap much wider than others at any time.
        """
        seen: set = set()
        for turn in itertools.count():
            if len(seen) == min(most, self.count):
                return
            place = min(int(turn * _GOLDEN % 1.0 * self.count), self.count - 1)
            if place not in seen:
                seen.add(place)
                yield self._numbers[place]

    def sample(self, number: Any) -> Any:
        """Return one sample."""
        try:
            together = getattr(self._loader.dataset, "__getitems__", None)  # as torch prefers it
            return together([number])[0] if together else self._loader.dataset[number]
        except Exception as error:
            raise Missing(
                f"sample {number} could not be read in the training process: {errors.line_of(error)}"
            ) from error

    def batch_of(self, samples: list) -> Any:
        """Return a full batch of samples, pinned if the loader's are; too few samples are repeated."""
        # Each in containers of its own: a collate_fn may take a sample apart, and no sample comes only once.
        filled = [Rebuilding().of(samples[turn % len(samples)]) for turn in range(self.batch_size)]
        try:
            batch = self._loader.collate_fn(filled)
            if getattr(self._source.live, "_pin_memory", False):
                batch = sys.modules["torch.utils.data._utils.pin_memory"].pin_memory(batch)
        except Exception as error:
            raise Missing(f"no batch of chosen samples could be made: {errors.line_of(error)}") from error
        return batch


def _batch_size(loader: Any, info: Any) -> int:
    """Return the samples in a full batch.

    A batch sampler of the script's own is believed where it has a batch size and a batch was seen to have it.
    """
    declared, sampler = info.facts.get("batch_size"), loader.batch_sampler
    if declared:
        return int(declared)
    if sampler is None:
        raise Missing("the data set makes its batches itself")
    claimed, walked = getattr(sampler, "batch_size", None), (info.batch or {}).get("samples")
    if isinstance(claimed, int) and claimed == walked:
        return claimed
    raise Missing(
        f"its batches are made by the script's own {type(sampler).__name__}: its largest one is not known"
    )


def _numbers(loader: Any, count: int) -> Any:
    own = loader.batch_sampler
    for _ in range(MAX_WRAPPED):
        own = getattr(own, "batch_sampler", own)
    sampler = getattr(own, "sampler", None) or loader.sampler
    chosen = getattr(sampler, "indices", None)
    if length_of(chosen):
        return chosen
    kinds = sys.modules["torch.utils.data.sampler"]
    given = length_of(sampler)
    if isinstance(sampler, (kinds.RandomSampler, kinds.WeightedRandomSampler)) or (
        given is not None and given >= _ALL_SHARE * count
    ):
        return range(count)
    raise Missing(
        f"its {type(sampler).__name__} gives {'n/a' if given is None else given} of {count} samples: which "
        "ones is not known"
    )


@contextlib.contextmanager
def _random_states_kept() -> Iterator[None]:
    """Restore the states of Python's, NumPy's and torch's global generators after a block.

    It covers modules that the script has imported, and CUDA devices once one is in use, but not the script's
    own generators.
    """
    numpy, torch = sys.modules.get("numpy.random"), sys.modules["torch"]
    with contextlib.ExitStack() as at_the_end:
        at_the_end.callback(random.setstate, random.getstate())
        if numpy is not None:
            at_the_end.callback(numpy.set_state, numpy.get_state())
        at_the_end.callback(torch.set_rng_state, torch.get_rng_state())
        if torch.cuda.is_initialized():
            at_the_end.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
        yield
