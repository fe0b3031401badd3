"""What either half of the loop would allow alone: the loader, then the training on one batch."""

from __future__ import annotations

from typing import Any, Callable

from . import batches
from .details import NO_WHOLE_BATCH, Missing, Stage, Turns
from .loader_work import WorkWindow
from .loaders import Replay
from .loop_at_hand import LoopAtHand
from .originals import time
from .replayed import ReplayedBatch

_CAP_WINDOWS = 2.0
_LEAST_LOADED = 4
WARM_TURNS = 3
"""Before the training is timed: a loop may ask a batch or two ahead."""
_LEAST_TRAINED, _LEAST_TRAINED_SLOWLY = 10, 4
_LEAST_CAP_S = 15.0
"""For a loader alone, where nothing else is timed: a large batch takes seconds."""
_SHORT_EPOCHS = 3
_REFILL_WINDOWS = 1.0
_LOOK_EVERY_S = 0.01
NO_LOADER = "the loop has no DataLoader"
CHANGED_IN_PLACE = "the script changes its batch in place: no batch can be trained on twice"


class Floors(Stage):
    """Takes batches that the script does not get, then gives the script one batch again and again.

    Args:
        window_s: each half is timed for about half of it.
        world_size: ranks that train together; one of several can't be timed alone.
        batches_per_step: loop batches per optimizer step.
        synchronize: returns when the device has no work left.
        clock: returns seconds.
        sleep: waits for seconds.
        is_dry: whether the training computes nothing: the loader alone is timed.
    """

    name = "floors"

    def __init__(
        self,
        window_s: float,
        world_size: int,
        batches_per_step: int,
        synchronize: Callable[[], None],
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
        is_dry: bool = False,
    ) -> None:
        super().__init__()
        self._window_s, self._world_size, self._is_dry = window_s, world_size, is_dry
        self._clock, self._sleep = clock, sleep
        self._loader: LoaderAlone | None = None
        self._training = TrainingAlone(window_s, batches_per_step, synchronize, clock)
        self._batch: ReplayedBatch | None = None
        self._why_not = ""

    @property
    def phase(self) -> str:
        """Its name, another where the loader alone is timed."""
        return "loader" if self._is_dry else self.name

    def asked(self, source: Any) -> Any:
        """Time the loader at the first call; time the training from then on."""
        if self._batch is None:
            self._begin(source)
        else:
            self.is_over = self._training.asked() or self._training.is_hopeless
        return None if self.is_over or self._batch is None else Replay(self._batch.copy())

    def interrupted(self) -> None:
        """A validation runs, or an epoch begins: that is no part of a batch."""
        self._training.interrupted()

    def facts(self) -> dict:
        """Return the plain facts of a LoopFloors record."""
        trained_s, trained, why_untrained = self._trained()
        loader = self._loader
        reasons = [self._why_not, loader.why_not if loader else "", why_untrained]
        return {
            "loader_step_s": loader.batch_s if loader else None,
            "loader_batches": loader.batches if loader else 0,
            "compute_step_s": trained_s,
            "compute_batches": trained,
            "loader_work": loader.work.facts() if loader else None,
            "why_not": "; ".join(reason for reason in reasons if reason)[:500] or None,
        }

    def _begin(self, source: Any) -> None:
        if source is None:
            self._why_not = NO_LOADER
        elif self._world_size > 1:
            self._why_not = ranks_text(self._world_size)
        else:
            most_s = max(_CAP_WINDOWS * self._window_s, _LEAST_CAP_S if self._is_dry else 0.0)
            self._loader = LoaderAlone(source, self._window_s, self._moved, self._clock, most_s)
            self._loader.run()
            if self._loader.full_batch is not None and not self._is_dry:
                self._batch = ReplayedBatch(self._loader.full_batch)
                let_refill(source, self._window_s, self._moved, self._clock, self._sleep)
        self.is_over = self._batch is None

    def _moved(self) -> None:
        self.moved(self.phase)

    def _trained(self) -> tuple:
        """Return seconds per batch, batches, and why they are missing."""
        if self._batch is None:
            return None, 0, ""
        if self._batch.was_changed:
            return None, 0, CHANGED_IN_PLACE
        if self._training.is_hopeless:
            return None, 0, f"training alone: {NO_WHOLE_BATCH}"
        if not self._training.is_enough:
            return None, 0, f"the training alone was too slow: {self._training.batches} batches were timed"
        return self._training.time_s / self._training.batches, self._training.batches, ""


def ranks_text(world_size: int) -> str:
    """Return why nothing is timed where several ranks train together."""
    return f"{world_size} ranks train together: none can be timed alone"


def let_refill(
    source: Any,
    window_s: float,
    moved: Callable[[], None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Wait, for a window at most, until the workers rest: what they compute would slow the training down."""
    until = clock() + _REFILL_WINDOWS * window_s
    while source.has_all_made is False and clock() < until:
        moved()
        sleep(_LOOK_EVERY_S)


class LoaderAlone:
    """Times a loader whose batches are thrown away.

    What was primed comes for free and is left out, here and after each end of an epoch; so is the epoch's
    end itself. Counted are whole rounds of the workers, whose batches come in turn.

    Args:
        source: to take batches from.
        window_s: half of it is timed.
        moved: called after each batch.
        clock: returns seconds.
        most_s: until it is given up as too slow; None for twice the window.

    Attributes:
        batches: that were timed.
        full_batch: the last that had the loader's batch size, the first of all if none had.
        work: what making them cost, from the first that was timed on.
        why_not: why there is no time; empty if there is one.
    """

    def __init__(
        self,
        source: Any,
        window_s: float,
        moved: Callable[[], None],
        clock: Callable[[], float],
        most_s: float | None = None,
    ) -> None:
        self._source, self._window_s = source, window_s
        self._most_s = most_s or _CAP_WINDOWS * window_s
        self._moved, self._clock = moved, clock
        facts = source.info.facts
        workers = facts.get("num_workers") or 0
        self._round = max(workers, 1)
        self._left_out = max(workers * (facts.get("prefetch_factor") or 0), 1)
        self._least = -(-max(workers, _LEAST_LOADED) // self._round) * self._round
        self._batch_size = facts.get("batch_size")
        self._time_s = 0.0
        self.batches = 0
        self.work = WorkWindow()
        self.full_batch: Any = None
        self.why_not = ""

    @property
    def batch_s(self) -> float | None:
        """Seconds per batch; None if too few could be timed."""
        return None if self.why_not or not self.batches else self._time_s / self.batches

    def run(self) -> None:
        """Take batches until enough are timed."""
        try:
            self._take_all()
        except StopIteration:
            self.why_not = "the loader has no further epoch"
        finally:
            self.work.close()
        if self.why_not:
            self.batches = 0

    def _take_all(self) -> None:
        taken = in_round = 0  # since the last restart; since the last whole round
        restarts, round_at = self._source.restarts, None
        until = self._clock() + self._most_s
        while True:
            self._keep_full(self._source.take())
            self._moved()
            now = self._clock()
            self.work.follow(self._source.info.work)
            if self._source.restarts != restarts:
                restarts, taken, round_at = self._source.restarts, 0, None
            taken += 1
            if round_at is not None:
                in_round += 1
                if in_round == self._round:
                    self.batches += self._round
                    self._time_s += now - round_at
                    round_at, in_round = now, 0
            elif taken >= self._left_out:
                if not self.batches:
                    self.work.open(self._source.info.work)
                    until = now + self._most_s
                round_at, in_round = now, 0
            if self.batches >= self._least and self._time_s >= self._window_s / 2:
                return
            if now > until or (not self.batches and restarts >= _SHORT_EPOCHS):
                break
        if self.batches < self._least:
            self.why_not = self._why(restarts)

    def _why(self, restarts: int) -> str:
        if restarts and not self.batches:
            return f"an epoch has too few batches beside the {self._left_out} that its queue holds"
        return (
            f"the loader alone was too slow: {self.batches} of {self._least} batches in {self._most_s:g} s; "
            "give it longer with --window"
        )

    def _keep_full(self, batch: Any) -> None:
        is_full = self._batch_size is None or batches.leading_size(batch) == self._batch_size
        if is_full or self.full_batch is None:
            self.full_batch = batch


class TrainingAlone:
    """Times a loop from asking for a batch to asking for the next, with the device drained at both ends.

    Args:
        window_s: half of it is timed; where ten batches take longer, four must do after a whole one.
        group: a multiple of this many batches is timed.
        synchronize: returns when the device has no work left.
        clock: returns seconds.

    Attributes:
        batches: that were timed.
        time_s: that they took.
        is_hopeless: whether no turn is a batch by itself, so that none will be timed.
    """

    def __init__(
        self, window_s: float, group: int, synchronize: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self._window_s, self._group = window_s, max(1, group)
        self._synchronize, self._clock = synchronize, clock
        self._warm_turns = 0
        self._turns = Turns()
        self._asked_at: float | None = None
        self.batches = 0
        self.time_s = 0.0
        self.is_hopeless = False

    @property
    def is_enough(self) -> bool:
        """Whether the batches that were timed may stand for all."""
        least = _LEAST_TRAINED if self.time_s < self._window_s else _LEAST_TRAINED_SLOWLY
        return self.batches >= max(least, self._group)

    def interrupted(self) -> None:
        """The batch at work is not to be timed."""
        self._turns.interrupted()

    def asked(self) -> bool:
        """The loop is through with a batch; returns whether enough are timed."""
        try:
            is_whole = self._turns.asked()
        except Missing:
            self.is_hopeless = True
            return False
        if self._asked_at is None or not is_whole:
            self._warm_turns += 1
            if self._warm_turns >= WARM_TURNS:
                self._synchronize()
                self._asked_at = self._clock()
            return False
        now = self._clock()
        self.time_s += now - self._asked_at
        self._asked_at = now
        self.batches += 1
        whole = self.batches % self._group == 0 or self.time_s >= _CAP_WINDOWS * self._window_s
        if not (self.is_enough and whole and self.time_s >= self._window_s / 2):
            return False
        self._synchronize()
        self.time_s += self._clock() - now
        return True


def make(loop: LoopAtHand) -> Floors:
    """Return the stage for a loop."""
    world_size, per_step = loop.ranks.world_size, loop.batches_per_step
    return Floors(loop.window_s, world_size, per_step, loop.synchronize, is_dry=loop.is_dry)
