"""Runs stages one after another, each with a deadline, driven by the loop's own turns."""

from __future__ import annotations

from typing import Any, Callable

from ..measure.errors import Missing, line_of
from ..originals import time

_DEADLINE_WINDOWS = 4.0
_MIN_DEADLINE_S = 20.0
_DEADLINE_BATCHES = 30
_MAX_BROKEN = 10
_MAX_FAULTS = 16
_AT_THE_END = ("leave", "facts")
NO_LOADER = "the script keeps no reference to its DataLoader, so it can't be iterated again"
NO_WHOLE_BATCH = "no uninterrupted batch: each one reads another loader or starts an epoch"


class Turns:
    """Separates uninterrupted batches from turns where other work ran.

    Attributes:
        whole: uninterrupted batches so far, each from one ask to the next.
    """

    def __init__(self) -> None:
        self.whole = self._broken = 0
        self._is_whole: bool | None = None  # None before the first ask

    def interrupted(self) -> None:
        if self._is_whole:
            self._is_whole = False

    def asked(self) -> bool:
        """Return whether the turn that ends with this ask was an uninterrupted batch.

        Raises:
            Missing: no turn was uninterrupted for a while.
        """
        was_whole, self._is_whole = self._is_whole, True
        if was_whole is None:
            return False
        self.whole += was_whole
        self._broken = 0 if was_whole else self._broken + 1
        if self._broken >= _MAX_BROKEN:
            raise Missing(NO_WHOLE_BATCH)
        return was_whole


class Stage:
    """One thing to measure after the window. A method that raises Missing ends the stage.

    Attributes:
        name: the field of the parent's Details record.
        is_over: whether it is finished.
        moved: called with its name while the script is paused, so that the parent sees progress.
        knows_more: called when new facts are worth reporting; restarts its deadline.
    """

    name = ""

    def __init__(
        self, loop: Any, clock: Callable[[], float] = time.perf_counter, sleep: Callable = time.sleep
    ) -> None:
        self._loop, self._clock, self._sleep = loop, clock, sleep
        self._turns = Turns()
        self._facts: Any = None
        self.is_over = False
        self.moved: Callable[[str], None] = lambda name: None
        self.knows_more: Callable[[], None] = lambda: None

    @property
    def phase(self) -> str:
        """What the screen shows while it works."""
        return self.name

    def asked(self, source: Any) -> Any:
        """The loop asks for a batch, or its first optimizer has stepped where there is no loader.

        Args:
            source: the `loader.source.Source` that the batch would come from; None without a loader.

        Returns:
            A `loader.source.Replay` to hand the script that batch instead; None to let it fetch.
        """
        return None

    def _require_loader(self, source: Any, *why_one_rank: str) -> None:
        """Raise Missing where the loop has no loader, or several ranks."""
        if source is None:
            raise Missing("the loop has no DataLoader")
        self._require_one_rank(*why_one_rank)

    def _require_one_rank(self, why: str = "train together and can't be timed separately") -> None:
        if self._loop.world_size > 1:
            raise Missing(f"{self._loop.world_size} ranks {why}")

    def fetched(self, batch: Any) -> None:
        """The loop has a batch that its loader made."""

    def interrupted(self) -> None:
        """Work that belongs to no loop batch runs: a validation, the start of an epoch."""
        self._turns.interrupted()

    def step_began(self) -> None:
        """An optimizer begins a step."""

    def step_ended(self) -> None:
        """An optimizer ended its step."""

    def leave(self) -> None:
        """Restore whatever was changed; called once, however the stage ends."""

    def explains(self, error: Exception) -> bool:
        """Return whether facts() explains this error; otherwise it is reported as a fault."""
        return False

    def facts(self) -> Any:
        """Return the plain facts for the parent's record, None if there are none."""
        return self._facts


class StageRunner:
    """Runs stages in turn; a fault is reported and ends only its stage.

    Args:
        window_s: of the trial, which each stage's deadline follows.
        moved: called with a stage's name while it works.
        step_s: seconds per batch of the loop, which the deadlines follow too.
        passed: called when a stage finishes and the next begins, and when the running stage knows more.

    Attributes:
        deadline_s: seconds since it began or last knew more after which a stage is left, at the next turn.
    """

    def __init__(
        self,
        stages: list,
        window_s: float,
        moved: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
        step_s: float = 0.0,
        passed: Callable[[], None] = lambda: None,
    ) -> None:
        self._waiting = list(stages)
        self.deadline_s = max(_DEADLINE_WINDOWS * window_s, _MIN_DEADLINE_S, _DEADLINE_BATCHES * step_s)
        self._passed, self._moved, self._clock = passed, moved, clock
        self._seen: dict = {}
        self._faults: list = []
        self._stage: Any = None
        self._until = 0.0
        self._advance()

    @property
    def phase(self) -> str | None:
        """The phase of the running stage."""
        return None if self._stage is None else self._stage.phase

    @property
    def is_over(self) -> bool:
        """Whether every stage is finished."""
        return self._stage is None

    def asked(self, source: Any) -> Any:
        """The loop asks for a batch; returns the running stage's answer."""
        while self._stage is not None:
            if self._clock() > self._until:
                self._end(is_late=True)
                continue
            answer = self.call("asked", source)
            if self._stage.is_over:
                self._end()
                continue
            return answer
        return None

    def call(self, event: str, *arguments: Any) -> Any:
        """Pass an event of the loop to the running stage: a `Stage` method's name, and its arguments."""
        stage = self._stage
        if stage is None or (stage.is_over and event not in _AT_THE_END):
            return None
        try:
            return getattr(stage, event)(*arguments)
        except Exception as error:
            if not stage.explains(error):
                self._fault(stage.name, line_of(error))
        stage.is_over = True
        return None

    def facts(self) -> dict:
        """Return the plain facts of the parent's Details record."""
        return {**self._seen, "faults": list(self._faults)}

    def _fault(self, name: str, why: str) -> None:
        self._is_faulty = True
        if len(self._faults) < _MAX_FAULTS:
            self._faults.append(f"{name}: {why}")

    def _end(self, is_late: bool = False) -> None:
        """End the running stage, keep its facts unless it failed, and start the next.

        A late stage may have seen a part, and its facts say what is missing.
        """
        stage = self._stage
        self.call("leave")
        self._seen.pop(stage.name, None)  # what it knew on its way
        facts = self.call("facts") if not self._is_faulty else None
        if is_late:
            self._fault(stage.name, f"it took too long: more than {self.deadline_s:.0f} s")
        if facts is not None:
            self._seen[stage.name] = facts
        self._advance()
        if self._stage is not None:
            self._passed()

    def _knows_more(self) -> None:
        self._seen[self._stage.name] = self._stage.facts()
        self._until = self._clock() + self.deadline_s
        self._passed()

    def _advance(self) -> None:
        self._stage = self._waiting.pop(0) if self._waiting else None
        self._is_faulty = False
        self._until = self._clock() + self.deadline_s
        if self._stage is not None:
            self._stage.moved, self._stage.knows_more = self._moved, self._knows_more
            self._moved(self._stage.phase)
