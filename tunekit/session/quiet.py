"""Waits before a trial until other programs leave the machine alone."""

import time
from collections.abc import Callable

from tunekit.machine.host.load import busy_share
from tunekit.units import duration_text, percent_text

BUSY_SHARE = 0.10
"""Share of the CPUs' time from which on other programs disturb a trial."""


class QuietWait:
    """What a session may wait for quiet, over all of its trials.

    Args:
        most_s: seconds that it may wait in all.
        busy: returns the share of the CPUs' time that other programs use, after looking for a moment.
        clock: returns seconds.
    """

    def __init__(
        self,
        most_s: float,
        busy: Callable[[], float] = busy_share,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left_s = most_s
        self._busy = busy
        self._clock = clock

    def wait(self, say: Callable[[str], None]) -> float:
        """Wait until the machine is quiet, or what may be waited is used up; return the seconds it took.

        Args:
            say: hears that it waits, and what came of it.
        """
        if self._left_s <= 0:
            return 0.0
        began_at, share = self._clock(), self._busy()
        if share >= BUSY_SHARE:
            share = self._busy()  # the last trial's processes may just have ended
        if share >= BUSY_SHARE:
            most = duration_text(self._left_s)
            say(
                f"machine is busy: other programs use {percent_text(share)} of its CPUs; waiting up to {most}"
            )
            while share >= BUSY_SHARE and self._clock() - began_at < self._left_s:
                share = self._busy()
            waited = duration_text(self._clock() - began_at)
            say(
                f"machine is quiet after {waited}"
                if share < BUSY_SHARE
                else f"machine is still busy ({percent_text(share)}) after {waited}: going on"
            )
            self._left_s -= self._clock() - began_at  # to look and find it quiet costs none of it
        return self._clock() - began_at
