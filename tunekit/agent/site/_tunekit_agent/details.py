"""What is looked at after the measurement, one stage after another, driven by the loop's own turns."""

from __future__ import annotations

import time
from typing import Any, Callable

_DEADLINE_WINDOWS = 4.0
_LEAST_DEADLINE_S = 20.0
_MAX_FAULTS = 16


class Missing(Exception):  # noqa: N818
    """Why a stage can see nothing here: told in these words."""


class Stage:
    """One thing to look at; a base whose methods do nothing.

    Attributes:
        name: of the field in the parent's Details record, and of the phase that the screen shows.
        is_over: whether it has seen enough.
        moved: called with its name while it holds the script, so that the parent sees the trial move.
    """

    name = ""

    def __init__(self) -> None:
        self.is_over = False
        self.moved: Callable[[str], None] = _unseen

    def asked(self, source: Any) -> Any:
        """The loop asks for a batch, or its first optimizer has stepped where there is no loader.

        Args:
            source: the `loaders.Source` that the batch would come from; None without a loader.

        Returns:
            A `loaders.Replay`, to hand the script that batch instead; None to let it fetch.
        """
        return None

    def fetched(self, batch: Any) -> None:
        """The loop has a batch in its hands that its loader made."""

    def interrupted(self) -> None:
        """Something that is no part of a loop batch runs: a validation, the beginning of an epoch."""

    def step_began(self) -> None:
        """An optimizer begins a step."""

    def step_ended(self) -> None:
        """An optimizer ended its step."""

    def leave(self) -> None:
        """Put back whatever was changed; called once, however the stage ends."""

    def facts(self) -> Any:
        """Return the plain facts for the parent's record, None if there are none."""
        return None


class Details:
    """Runs stages in turn, each with a deadline; a fault of one is told and ends that one.

    Args:
        stages: what to look at, in order.
        window_s: of the trial, which each stage's deadline follows.
        moved: called with a stage's name while it works, so that the parent sees the trial move.
        clock: returns seconds.
    """

    def __init__(
        self,
        stages: list,
        window_s: float,
        moved: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._waiting = list(stages)
        self._deadline_s = max(_DEADLINE_WINDOWS * window_s, _LEAST_DEADLINE_S)
        self._moved = moved
        self._clock = clock
        self._seen: dict = {}
        self._faults: list = []
        self._stage: Any = None
        self._until = 0.0
        self._advance()

    @property
    def phase(self) -> str | None:
        """The name of the stage at work."""
        return None if self._stage is None else self._stage.name

    @property
    def is_over(self) -> bool:
        """Whether every stage has seen enough."""
        return self._stage is None

    def asked(self, source: Any) -> Any:
        """The loop asks for a batch; returns what the stage at work answers."""
        while self._stage is not None:
            if self._clock() > self._until:
                self._fault(self._stage.name, "it took too long")
                self._end()
                continue
            answer = self._guarded("asked", source)
            if self._stage is not None and self._stage.is_over:
                self._end()
                continue
            return answer
        return None

    def fetched(self, batch: Any) -> None:
        """The loop has a batch in its hands that its loader made."""
        self._guarded("fetched", batch)

    def interrupted(self) -> None:
        """A validation runs, or an epoch begins."""
        self._guarded("interrupted")

    def step_began(self) -> None:
        """An optimizer begins a step."""
        self._guarded("step_began")

    def step_ended(self) -> None:
        """An optimizer ended its step."""
        self._guarded("step_ended")

    def facts(self) -> dict:
        """Return the plain facts of the parent's Details record."""
        return {**self._seen, "faults": self._faults}

    def _guarded(self, method: str, *arguments: Any) -> Any:
        if self._stage is None:
            return None
        try:
            return getattr(self._stage, method)(*arguments)
        except Missing as reason:
            self._fault(self._stage.name, str(reason))
            self._stage.is_over = True
            return None
        except Exception as error:
            self._fault(self._stage.name, f"{type(error).__name__}: {str(error)[:300]}")
            self._stage.is_over = True
            return None

    def _fault(self, name: str, why: str) -> None:
        self._is_faulty = True
        if len(self._faults) < _MAX_FAULTS:
            self._faults.append(f"{name}: {why}")

    def _end(self) -> None:
        """Leave the stage at work, keep what it saw, if all went well, and go on to the next."""
        stage = self._stage
        self._guarded("leave")
        facts = self._guarded("facts") if not self._is_faulty else None
        if facts is not None:
            self._seen[stage.name] = facts
        self._advance()

    def _advance(self) -> None:
        self._stage = self._waiting.pop(0) if self._waiting else None
        self._is_faulty = False
        self._until = self._clock() + self._deadline_s
        if self._stage is not None:
            self._stage.moved = self._moved
            self._moved(self._stage.name)


def _unseen(name: str) -> None:
    """Tell nobody: a stage whose turn has not come holds nothing."""
