"""What the training alone takes at other batch sizes: one batch, resized, is trained on over and over."""

from __future__ import annotations

from typing import Any, Callable

from . import knobs
from .details import NO_WHOLE_BATCH, Missing
from .floors import CHANGED_IN_PLACE, NO_LOADER, WARM_TURNS, TrainingAlone, let_refill, ranks_text
from .given_batch import DevicePeak, GivesBatch
from .loop_at_hand import LoopAtHand
from .originals import time
from .replayed import ReplayedBatch
from .resized import resized

_COMPILED = "torch.compile would compile anew for every size"


class Sizes(GivesBatch):
    """Takes one batch that the script does not get, then gives it to the script in one size after another.

    What is known is told before each size, which the script may not live through: device memory may not do,
    or a state of the script's may be as long as its batch.

    Args:
        wanted: batch sizes, in the order in which they are tried; the first that fails is the last.
        window_s: each size is timed for about half of it.
        world_size: ranks that train together; one of several can't be timed alone.
        batches_per_step: loop batches per optimizer step.
        synchronize: returns when the device has no work left.
        peak: the device's memory; None on a CPU.
        is_compiled: whether torch.compile captured graphs.
        clock: returns seconds.
        sleep: waits for seconds.
    """

    name = "sizes"

    def __init__(
        self,
        wanted: list,
        window_s: float,
        world_size: int,
        batches_per_step: int,
        synchronize: Callable[[], None],
        peak: DevicePeak | None = None,
        is_compiled: bool = False,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self._waiting = list(wanted)
        self._window_s, self._world_size, self._is_compiled = window_s, world_size, is_compiled
        self._batches_per_step, self._synchronize, self._peak = batches_per_step, synchronize, peak
        self._clock, self._sleep = clock, sleep
        self._batch: Any = None
        self._own_size = 0
        self._at_work: OneSize | None = None
        self._seen: list = []

    def _turn(self, source: Any) -> None:
        """Take a batch at the first call; give it out in one size after another from then on."""
        if self._batch is None:
            self._take(source)
            self._begin_next()
        elif self._at_work is not None and self._at_work.asked():
            self._seen.append(self._at_work.facts())
            self._begin_next()

    def leave(self) -> None:
        """Say why a size is missing that was still at work."""
        if self._at_work is not None and not self.is_over:
            at_work = self._at_work
            self._why_ended = f"batch size {at_work.size} was too slow: {at_work.batches} batches were timed"

    def facts(self) -> dict:
        """Return the plain facts of a SizesSeen record."""
        return {"sizes": list(self._seen), "why_ended": self._why_ended and self._why_ended[:500]}

    def _take(self, source: Any) -> None:
        """Take a full batch, and wait until the workers rest.

        Raises:
            Missing: there is none, or its training can't be timed.
        """
        if source is None:
            raise Missing(NO_LOADER)
        if self._world_size > 1:
            raise Missing(ranks_text(self._world_size))
        if self._is_compiled:
            raise Missing(_COMPILED)
        self._batch, self._own_size = self._taken(source)
        let_refill(source, self._window_s, lambda: self.moved(self.name), self._clock, self._sleep)

    def _begin_next(self) -> None:
        """Begin with the next size, if there is one.

        Raises:
            Missing: the batch can't be resized.
        """
        self._at_work = None  # its batch goes before there is another
        if not self._waiting:
            self.is_over = True
            return
        size = self._waiting.pop(0)
        self.knows_more()
        try:
            batch = resized(self._batch, self._own_size, size)
        except Missing:
            raise
        except Exception as error:  # as no memory for it
            raise Missing(f"no batch of {size} could be made: {type(error).__name__}: {error}") from error
        training = TrainingAlone(self._window_s, self._batches_per_step, self._synchronize, self._clock)
        self._at_work = OneSize(size, batch, training, self._peak)


class OneSize:
    """The training alone at one batch size.

    Args:
        size: samples in the batch.
        batch: of that size.
        training: to time it with.
        peak: the device's memory; None on a CPU.
    """

    def __init__(self, size: int, batch: Any, training: TrainingAlone, peak: DevicePeak | None) -> None:
        self.size = size
        self._batch = ReplayedBatch(batch)
        self._training, self._peak = training, peak
        self._turns = 0

    @property
    def batches(self) -> int:
        """Batches that were timed so far."""
        return self._training.batches

    def batch(self) -> Any:
        """Return the batch for the script."""
        return self._batch.copy()

    def asked(self) -> bool:
        """The loop is through with a batch; returns whether this size is timed.

        Raises:
            Missing: no size can be timed in this loop.
        """
        is_enough = self._training.asked()
        if self._training.is_hopeless:
            raise Missing(NO_WHOLE_BATCH)
        self._turns += 1
        if (self._turns <= WARM_TURNS or is_enough) and self._batch.was_changed:
            raise Missing(CHANGED_IN_PLACE)
        if self._peak is not None and self._turns == WARM_TURNS - 1:
            self._peak.begin(gives_back=True)
        return is_enough

    def interrupted(self) -> None:
        """The batch at work is not to be timed."""
        self._training.interrupted()

    def facts(self) -> dict:
        """Return the plain facts of a SizeSeen record."""
        return {
            "batch_size": self.size,
            "step_s": self._training.time_s / self._training.batches,
            "batches": self._training.batches,
            "peak_reserved_bytes": self._peak.reserved_bytes() if self._peak is not None else None,
        }


def make(torch: Any, device: Any, loop: LoopAtHand) -> Sizes:
    """Return the stage for a loop.

    Args:
        torch: the torch module of the script.
        device: torch's device of the roots; None where the loop does not train on CUDA.
        loop: that is looked at.
    """
    peak = DevicePeak(torch.cuda, device) if device is not None else None
    return Sizes(
        loop.sizes,
        loop.window_s,
        loop.ranks.world_size,
        loop.batches_per_step,
        loop.synchronize,
        peak,
        is_compiled=knobs.graphs_captured() > 0,
    )
