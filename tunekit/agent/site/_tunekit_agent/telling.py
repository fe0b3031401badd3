"""Tells the parent how far the loop has come: at every turn in a few bytes, now and then in an event."""

from __future__ import annotations

import sys
from typing import Any

from . import facts, knobs
from .originals import time
from .ranks import Ranks

_PROGRESS_EVERY_S = 0.5
_EARLY_PROGRESS = 32
"""Batches and steps that are each told: a script that stops early should be known to the batch."""


class Teller:
    """Counts batches and steps, and tells of them.

    Args:
        log: where events go, and the pulse.

    Attributes:
        batches: of the loop so far.
        steps: of its optimizers so far.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._told_at = 0.0
        self.batches = self.steps = 0

    def pulse(self, doing: int) -> None:
        """Tell what the loop does now: events.FETCHING or TRAINING."""
        self._log.pulse.tell(doing, self.batches, self.steps)

    def progress(self, phase: str, ranks: Ranks) -> None:
        """Tell of the phase, unless that was done a moment ago; other ranks tell their memory."""
        now = time.perf_counter()
        if now - self._told_at < _PROGRESS_EVERY_S and self.batches + self.steps > _EARLY_PROGRESS:
            return
        self._told_at = now
        if ranks.rank == 0:
            graphs = knobs.graphs_captured()
            self._log.emit("progress", phase=phase, batches=self.batches, steps=self.steps, graphs=graphs)
            return
        memory = facts.of_device_memory() if "torch" in sys.modules else {}
        self._log.emit("rank", rank=ranks.rank, world_size=ranks.world_size, **memory)
