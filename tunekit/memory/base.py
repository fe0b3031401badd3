"""Host memory of a rank's processes before its loader buffers anything, from what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from tunekit.records.measurement import Measurement


@dataclass(frozen=True)
class BaseRam:
    """RAM of one rank's processes without the loader's buffer."""

    main_bytes: int = 0
    """Of all processes but the workers, with what the workers share with them; of the workers too where they
    were not told apart."""
    worker_bytes: int = 0
    """Of each worker alone; 0 where they were not told apart."""

    def with_workers(self, num_workers: int) -> int:
        """Return the bytes of the processes with that many workers."""
        return self.main_bytes + num_workers * self.worker_bytes


def base_ram(measurement: Measurement) -> BaseRam:
    """Return what a trial's processes took, each worker of its own where its details told them apart.

    A worker counts with its private memory: a data set that a fork left shared is there once, however many
    workers share it. Where workers write to it, if only the reference counts of Python objects, its pages
    become their own over an epoch; that comes on top and is not predicted.

    The rest is what the training process takes beside the full queue, or the rank's share of the tree's
    peak without these workers where that is more: then there were other processes, such as a validation's
    persistent workers or a compiler's. Of the buffer the peak holds only what waits in the workers' own
    memory, such as arrays and text, which go through a pipe. Tensors that wait in /dev/shm are mapped by no
    process, so no PSS counts them. The batch at hand is in the peak, and no part of workers x prefetch; so
    are the samples of which the workers were making batches.

    Where the workers were not told apart, the base is the peak without that part, whatever the workers.
    """
    loop, details = measurement.loop, measurement.details
    queue = details.queue if details else None
    peak_bytes = measurement.memory.peak_pss_bytes // loop.world_size
    # What one worker keeps for itself of the batches that it has ready.
    ready_bytes = (loop.prefetch_factor or 0) * (loop.batch.piped_bytes if loop.batch else 0)
    if queue is not None and queue.main_base_bytes is not None and queue.worker_base_bytes is not None:
        rest_bytes = peak_bytes - loop.num_workers * queue.worker_base_bytes
        in_worker_bytes = ready_bytes if queue.is_full else 0
        return BaseRam(
            max(queue.main_base_bytes, rest_bytes), max(0, queue.worker_base_bytes - in_worker_bytes)
        )
    return BaseRam(max(0, peak_bytes - loop.num_workers * ready_bytes))


def predicted_base_ram(measured: Sequence[Measurement]) -> BaseRam:
    """Return what a config that never ran will take, by those that did: the one with details, else the least.

    Raises:
        ValueError: nothing was measured.
    """
    if not measured:
        raise ValueError("a base is predicted from measured trials, got none; measure one first")
    known = [base_ram(one) for one in measured]
    return next((base for base in known if base.worker_bytes), min(known, key=lambda base: base.main_bytes))
