"""Host memory of a rank's processes before its loader buffers anything, from what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from tunekit.memory.ram import buffer_bytes
from tunekit.records.measurement import Measurement


@dataclass(frozen=True)
class BaseRam:
    """RAM of one rank's processes without the loader's buffer."""

    main_bytes: int = 0
    """Of the training process; of all of them where they were not told apart."""
    worker_bytes: int = 0
    """Of each worker; 0 where they were not told apart."""

    def with_workers(self, num_workers: int) -> int:
        """Return the bytes of the training process and that many workers."""
        return self.main_bytes + num_workers * self.worker_bytes


def base_ram(measurement: Measurement) -> BaseRam:
    """Return what a trial's processes took, each of its own where its details told them apart.

    Else it is the rank's share of the tree's peak less the predicted buffer (workers x prefetch x batch, as
    they really ran), not below 0, whatever the workers.
    """
    loop, details = measurement.loop, measurement.details
    queue = details.queue if details else None
    if queue is not None and queue.main_base_bytes is not None and queue.worker_base_bytes is not None:
        return BaseRam(queue.main_base_bytes, queue.worker_base_bytes)
    own_bytes = measurement.memory.peak_pss_bytes // loop.world_size
    return BaseRam(max(0, own_bytes - buffer_bytes(loop, loop.batch_bytes)))


def predicted_base_ram(measured: Sequence[Measurement]) -> BaseRam:
    """Return what a config that never ran will take, by those that did: the one with details, else the least.

    Raises:
        ValueError: nothing was measured.
    """
    if not measured:
        raise ValueError("a base is predicted from measured trials, got none; measure one first")
    known = [base_ram(one) for one in measured]
    return next((base for base in known if base.worker_bytes), min(known, key=lambda base: base.main_bytes))
