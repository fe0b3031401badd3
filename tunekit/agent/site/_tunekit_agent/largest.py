"""The training on a batch of the data set's largest samples, which a long training meets some day."""

from __future__ import annotations

import heapq
from typing import Any, Callable

from . import batches, knobs, random_states
from .batching import Batching
from .details import NO_WHOLE_BATCH, Missing
from .floors import CHANGED_IN_PLACE, NO_LOADER, WARM_TURNS, TrainingAlone, let_refill
from .given_batch import DevicePeak, GivesBatch
from .loop_at_hand import LoopAtHand
from .originals import time
from .replayed import ReplayedBatch

_FIRST_READ = 16
"""Samples that are all alike show that sizes do not vary."""
_MOST_READ = 4096
_LEAST_READING_S = 2.0
_MOST_TIMED_S = 1.0
"""A few batches do: the look is for their memory."""
_MOVED_EVERY_S = 0.1


class Largest(GivesBatch):
    """Reads samples of the data set, and gives the script one batch of the largest of them, a few times.

    What is known is told before the script is given that batch, which it may not live through. Reading
    leaves the script's global random states as they were.

    Args:
        window_s: samples are read for about as long, two seconds at least.
        world_size: ranks that train together; of several, none is looked at.
        batches_per_step: loop batches per optimizer step.
        synchronize: returns when the device has no work left.
        peak: the device's memory; None on a CPU.
        graphs: returns how many graphs torch.compile captured so far.
        clock: returns seconds.
        sleep: waits for seconds.
    """

    name = "largest"

    def __init__(
        self,
        window_s: float,
        world_size: int,
        batches_per_step: int,
        synchronize: Callable[[], None],
        peak: DevicePeak | None = None,
        graphs: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self._window_s, self._world_size, self._batches_per_step = window_s, world_size, batches_per_step
        self._synchronize, self._peak, self._graphs = synchronize, peak, graphs
        self._clock, self._sleep = clock, sleep
        self._batching: Batching | None = None
        self._reading: Reading | None = None
        self._batch_bytes: int | None = None
        self._usual_bytes: int | None = None
        self._at_work: OnLargest | None = None

    def _turn(self, source: Any) -> None:
        """Make the batch at the first call; give it out from then on."""
        if self._at_work is None:
            self._begin(source)
        else:
            self.is_over = self._at_work.asked()

    def leave(self) -> None:
        """Say why there is no time if the script is still at work."""
        if self._at_work is not None and not self.is_over:
            self._why_ended = "the script was too slow on it to be timed"

    def facts(self) -> dict:
        """Return the plain facts of a LargestSeen record."""
        batching, reading, at_work = self._batching, self._reading, self._at_work
        why_ended = self._why_ended or (at_work.why_ended if at_work else None)
        return {
            "samples_read": reading.read if reading else 0,
            "data_set_samples": batching.samples if batching else None,
            "varies": reading.varies if reading else None,
            "batch_size": batching.batch_size if batching else None,
            "batch_bytes": self._batch_bytes,
            "usual_batch_bytes": self._usual_bytes,
            "is_given": at_work is not None,
            **(at_work.facts() if at_work else {}),
            "why_ended": why_ended and why_ended[:500],
        }

    def _begin(self, source: Any) -> None:
        """Read samples, and make the batch if they vary.

        Raises:
            Missing: they can't be read, or no batch can be made of them.
        """
        if source is None:
            raise Missing(NO_LOADER)
        if self._world_size > 1:
            raise Missing(f"{self._world_size} ranks train together: none is given another batch alone")
        self._batching = batching = Batching(source)
        self._reading = reading = Reading(batching, max(_LEAST_READING_S, self._window_s), self._clock)
        with random_states.kept():
            reading.run(lambda: self.moved(self.name))
            if not reading.varies:
                self.is_over = True
                return
            self._usual_bytes = batches.size_bytes(batching.batch_of(reading.take_first()))
            batch = batching.batch_of(reading.take_largest())
        self._batch_bytes = batches.size_bytes(batch)
        let_refill(source, self._window_s, lambda: self.moved(self.name), self._clock, self._sleep)
        window_s = min(self._window_s, _MOST_TIMED_S)
        training = TrainingAlone(window_s, self._batches_per_step, self._synchronize, self._clock)
        least_turns = max(WARM_TURNS, self._batches_per_step + 1)
        self._at_work = OnLargest(batch, training, least_turns, self._peak, self._graphs)
        self.knows_more()


class Reading:
    """Reads single samples, spread over the data set, and keeps the largest.

    Args:
        batching: where they come from.
        limit_s: no more are read after that.
        clock: returns seconds.

    Attributes:
        read: samples that were read.
        varies: whether the first of them differ in bytes or shapes; None while too few are read.
    """

    def __init__(self, batching: Batching, limit_s: float, clock: Callable[[], float]) -> None:
        self._batching, self._limit_s, self._clock = batching, limit_s, clock
        self.read = 0
        self.varies: bool | None = None
        self._first: list = []
        self._largest: list = []  # a heap of (bytes, order, sample)

    def run(self, moved: Callable[[], None]) -> None:
        """Read until sizes are known not to vary, or enough is read.

        Args:
            moved: called now and then.

        Raises:
            Missing: a sample could not be read, or reading is too slow.
        """
        began_at = moved_at = self._clock()
        extents: set = set()
        for number in self._batching.spread(_MOST_READ):
            sample = self._batching.sample(number)
            size_bytes, shapes = batches.extent_of(sample)
            self._keep(size_bytes, sample)
            if self.varies is None:
                extents.add((size_bytes, shapes))
                if self.read == _FIRST_READ:
                    self.varies = len(extents) > 1
            now = self._clock()
            if self.varies is False or now - began_at > self._limit_s:
                break
            if now - moved_at > _MOVED_EVERY_S:
                moved_at = now
                moved()
        if self.varies is None and self.read < self._batching.samples:
            raise Missing(f"the data set is too slow: {self.read} samples were read in {self._limit_s:g} s")
        if self.varies is None:
            self.varies = len(extents) > 1

    def take_first(self) -> list:
        """Return as many of the first samples as a batch has, and keep them no longer."""
        first, self._first = self._first, []
        return first

    def take_largest(self) -> list:
        """Return as many of the largest as a batch has, the largest first, and keep them no longer."""
        largest, self._largest = sorted(self._largest, reverse=True), []
        return [sample for _, _, sample in largest]

    def _keep(self, size_bytes: int, sample: Any) -> None:
        self.read += 1
        if len(self._first) < self._batching.batch_size:
            self._first.append(sample)
        entry = (size_bytes, -self.read, sample)  # no two are of one order, so samples are never compared
        if len(self._largest) < self._batching.batch_size:
            heapq.heappush(self._largest, entry)
        else:
            heapq.heappushpop(self._largest, entry)


class OnLargest:
    """The training on one batch, over and over: a few turns, of which the last are timed.

    Args:
        batch: of the largest samples.
        training: to time it with.
        least_turns: after which the script has lived through it, an optimizer's step included.
        peak: the device's memory; None on a CPU.
        graphs: returns how many graphs torch.compile captured so far.

    Attributes:
        why_ended: why it has no time; None if it has.
    """

    def __init__(
        self,
        batch: Any,
        training: TrainingAlone,
        least_turns: int,
        peak: DevicePeak | None,
        graphs: Callable[[], int],
    ) -> None:
        self._batch = ReplayedBatch(batch)
        self._training, self._least_turns, self._peak, self._graphs = training, least_turns, peak, graphs
        self._turns = self._graphs_before = 0
        self._has_lived = self._is_timed = False
        self.why_ended: str | None = None
        if peak is not None:
            # What torch keeps of other batches stays: a long training meets this batch with as much.
            peak.begin()

    def batch(self) -> Any:
        """Return the batch for the script."""
        return self._batch.copy()

    def asked(self) -> bool:
        """The loop is through with a batch; returns whether that is enough of them.

        A batch that the script has changed is not given again: by then it has trained on it once.
        """
        is_enough = self._training.asked()
        self._turns += 1
        self._has_lived = self._has_lived or self._turns >= self._least_turns
        if self._turns == WARM_TURNS:
            self._graphs_before = self._graphs()
        if (self._turns <= WARM_TURNS or is_enough) and self._batch.was_changed:
            self.why_ended, self._has_lived = CHANGED_IN_PLACE, True
            return True
        if self._training.is_hopeless:
            self.why_ended = NO_WHOLE_BATCH
            return True
        if is_enough:
            self._is_timed = self._graphs() == self._graphs_before
            self.why_ended = None if self._is_timed else "torch.compile compiled anew while it was timed"
        return is_enough

    def interrupted(self) -> None:
        """The batch at work is not to be timed."""
        self._training.interrupted()

    def facts(self) -> dict:
        """Return what is known of the training, for a LargestSeen record."""
        peak = self._peak if self._has_lived else None
        return {
            "is_lived_through": self._has_lived,
            "batches": self._training.batches if self._is_timed else 0,
            "step_s": self._training.time_s / self._training.batches if self._is_timed else None,
            "peak_allocated_bytes": peak.allocated_bytes() if peak is not None else None,
            "peak_reserved_bytes": peak.reserved_bytes() if peak is not None else None,
        }


def make(torch: Any, device: Any, loop: LoopAtHand) -> Largest:
    """Return the stage for a loop.

    Args:
        torch: the torch module of the script.
        device: torch's device of the roots; None where the loop does not train on CUDA.
        loop: that is looked at.
    """
    return Largest(
        loop.window_s,
        loop.ranks.world_size,
        loop.batches_per_step,
        loop.synchronize,
        DevicePeak(torch.cuda, device) if device is not None else None,
        graphs=knobs.graphs_captured,
    )
