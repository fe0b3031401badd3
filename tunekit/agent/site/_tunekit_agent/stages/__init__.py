"""What is looked at once the measurement is complete, one stage after another, in the script's own loop."""

from __future__ import annotations

from typing import Any

from .batch_sizes import BatchSizes
from .data import DataSeen
from .isolated_rates import IsolatedRates
from .kernel_window import KernelWindow
from .peaks import Peaks
from .queue_memory import QueueMemory
from .replay import ReplayStage
from .runner import Missing, Stage
from .sync_points import SyncPoints
from .trace.stage import LoopTrace
from .worst_batch import WorstBatch

_IN_ORDER = (
    QueueMemory,
    KernelWindow,
    SyncPoints,
    Peaks,
    IsolatedRates,
    WorstBatch,
    BatchSizes,
    LoopTrace,
    DataSeen,  # the last: it moves what the data set reads from
)
"""Each is named as in the parent's `Detail`."""


def stages_for(wanted: list, loop: Any) -> list:
    """Return the stages that the parent asks for, in order.

    Of a loop that computes nothing the steps are traced first; then the loader has the machine for itself.
    """
    order = (LoopTrace, IsolatedRates) if loop.is_dry else _IN_ORDER
    return [_made(stage, loop) for stage in order if stage.name in wanted]


class _Unmade(Stage):
    """Stands for a stage that could not even be made, and says why at its turn."""

    def __init__(self, loop: Any, name: str, why: Exception) -> None:
        super().__init__(loop)
        self.name, self._why = name, why

    def asked(self, source: Any) -> Any:
        raise self._why


def _made(stage: Any, loop: Any) -> Stage:
    try:
        if loop.reads_ahead and stage is not QueueMemory:
            raise Missing("a thread of the script takes the batches: they can't be matched to steps")
        if loop.partners and issubclass(stage, ReplayStage):
            raise Missing("each batch of the loop takes from several loaders: no batch of one stands for it")
        return stage(loop)
    except Exception as error:  # the script has replaced what it builds on
        return _Unmade(loop, stage.name, error)
