"""What follows a complete measurement: tell it, look closer where that is asked for."""

from __future__ import annotations

from typing import Any, Callable

from . import stages
from .details import Details
from .loop_at_hand import LoopAtHand


class CloserLook:
    """Tells what was measured, has stages look at the loop, and tells what they saw after each.

    Args:
        measured: plain facts of the measurement.
        wanted: names of what to look at; where there are none, all is told at once.
        log: where events go.
        loop: what is known of the loop.
        moved: called with a stage's name while it works, so that the parent sees the trial move.
    """

    def __init__(
        self, measured: dict, wanted: list, log: Any, loop: LoopAtHand, moved: Callable[[str], None]
    ) -> None:
        self._measured = measured
        self._log = log
        looks = stages.stages(wanted, loop) if wanted else []
        self._details = Details(looks, loop.window_s, moved, step_s=loop.step_s, passed=self._tell_so_far)
        if looks:
            self._tell_so_far()
        else:
            tell_done(log, measured, is_final=True)

    @property
    def phase(self) -> str | None:
        """The name of the stage at work."""
        return self._details.phase

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to look at."""
        return self._details.is_over

    def asked(self, source: Any) -> Any:
        """The loop asks for a batch; returns a `loaders.Replay`, to hand it that one, or None."""
        if self.is_over:
            return None
        answer = self._details.asked(source)
        if self.is_over:
            tell_done(self._log, self._measured, is_final=True, details=self._details.facts())
        return answer

    def fetched(self, batch: Any) -> None:
        """The loop has a batch in its hands that its loader made."""
        self._details.fetched(batch)

    def interrupted(self) -> None:
        """Something that is no part of a loop batch runs."""
        self._details.interrupted()

    def step_began(self) -> None:
        """An optimizer begins a step."""
        self._details.step_began()

    def step_ended(self) -> None:
        """An optimizer ended its step."""
        self._details.step_ended()

    def _tell_so_far(self) -> None:
        """Tell what was seen so far: a later stage may not live to tell."""
        seen, limit_s = self._details.facts(), self._details.deadline_s
        tell_done(self._log, self._measured, is_final=False, details=seen, next_within_s=limit_s)


def tell_done(
    log: Any, measured: dict, is_final: bool, details: dict | None = None, next_within_s: float = 0.0
) -> None:
    """Tell the parent of a complete measurement.

    Args:
        log: where events go.
        measured: plain facts of the measurement.
        is_final: whether nothing more is looked at.
        details: plain facts of what was looked at so far.
        next_within_s: seconds until the stage at work is left.
    """
    log.emit("done", loop=measured, is_final=is_final, details=details, next_within_s=next_within_s)
