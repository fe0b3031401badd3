"""What is looked at once the measurement is complete, one stage after another, in the script's own loop."""

from __future__ import annotations

from typing import Any

from .batch_sizes import BatchSizes
from .isolated_rates import IsolatedRates
from .kernel_window import KernelWindow
from .peaks import Peaks
from .queue_memory import QueueMemory
from .sync_points import SyncPoints
from .trace.stage import LoopTrace
from .worst_batch import WorstBatch

_IN_ORDER = (QueueMemory, KernelWindow, SyncPoints, Peaks, IsolatedRates, WorstBatch, BatchSizes, LoopTrace)
"""Each is named as in the parent's `Detail`."""


def stages_for(wanted: list, loop: Any) -> list:
    """Return the stages that the parent asks for, in order.

    Of a loop that computes nothing the steps are traced first; then the loader has the machine for itself.
    """
    order = (LoopTrace, IsolatedRates) if loop.is_dry else _IN_ORDER
    return [stage(loop) for stage in order if stage.name in wanted]
