"""Where a training step's time goes, and what its batches are made of, as the agent saw it."""

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from tunekit.records.base import Record


class StepParts(Record):
    """The steady window by the host's clock, in seconds; the parts add up to it.

    On a CPU that is where the time goes. Beside a GPU, which works on while the host goes ahead, it is where
    the host's time goes; `DeviceParts` is the device's.
    """

    data_wait_s: NonNegativeFloat
    """Inside the loader's next()."""
    compute_s: NonNegativeFloat
    """From a batch at hand to its last optimizer step, the steps left out: transfer, forward, loss, backward.

    A loop without a DataLoader has all but its steps here.
    """
    optimizer_s: NonNegativeFloat
    """Inside optimizer steps, closures included."""
    other_s: NonNegativeFloat
    """From the last step to asking for the next batch: logging, metrics, schedules."""
    fetch_cpu_s: NonNegativeFloat = 0.0
    """CPU time of the loop's thread within data_wait_s: making the batch without workers, unpickling with."""
    run_queue_s: NonNegativeFloat | None = None
    """Within all parts, how long the loop's thread was ready to run and had no CPU; None where the kernel
    does not tell."""


class DeviceParts(Record):
    """The steady window by CUDA events on the current stream; nothing is synchronised for them."""

    batches: PositiveInt
    """Loop batches whose events had all come to pass when they were read."""
    stall_s: NonNegativeFloat
    """Exposed data stall: device time between asking for a batch and having it. Near 0 while queued work
    hides the host's wait."""
    compute_s: NonNegativeFloat
    optimizer_s: NonNegativeFloat
    other_s: NonNegativeFloat
    """From the last step to asking for the next batch."""
    drained_batches: NonNegativeInt
    """Of the batches, those at whose end the device had next to no work left, when another was asked for."""

    @property
    def time_s(self) -> float:
        """Device time of those batches."""
        return self.stall_s + self.compute_s + self.optimizer_s + self.other_s


class WorkerWork(Record):
    """What one loader process made in the steady window; the loop's own process without workers."""

    batches: NonNegativeInt
    """The first batch after its start is left out."""
    time_s: NonNegativeFloat


class LoaderWork(Record):
    """What making batches costs in the processes that make them: data set and collate."""

    workers: tuple[WorkerWork, ...] = Field(min_length=1, max_length=1024)
    cpu_s: NonNegativeFloat
    """CPU seconds within time_s, of all threads of a worker; without workers of the loop's thread alone."""
    run_queue_s: NonNegativeFloat | None = None
    """Seconds within time_s in which the threads that make batches were ready to run and had no CPU; None
    where the kernel does not tell."""
    block_io_s: NonNegativeFloat | None = None
    """Seconds within time_s in which they waited for block devices; 0 where the kernel does not count it."""

    @property
    def batches(self) -> int:
        """Batches made in the window."""
        return sum(worker.batches for worker in self.workers)

    @property
    def time_s(self) -> float:
        """Seconds spent on them, summed over the workers."""
        return sum(worker.time_s for worker in self.workers)

    @property
    def batch_s(self) -> float | None:
        """Mean seconds that one worker takes for a batch; None when none was made."""
        return self.time_s / self.batches if self.batches else None

    @property
    def cpu_share(self) -> float | None:
        """CPU seconds per second of making; low where the workers wait for storage. None without time."""
        return self.cpu_s / self.time_s if self.time_s else None

    @property
    def cpus_per_worker(self) -> float:
        """CPUs that one worker needs while it makes batches, its waits for one left out: at most 1."""
        busy_s = self.time_s - (self.run_queue_s or 0.0)
        return min(1.0, self.cpu_s / busy_s) if busy_s > 0 else 1.0


class LeafSeen(Record):
    """One tensor, array, text or number of a batch."""

    path: str = Field(max_length=200)
    """How to reach it in the batch, such as "[0]" or "['labels']"."""
    kind: Literal["tensor", "array", "text", "number", "other"]
    dtype: str | None = None
    shape: tuple[NonNegativeInt, ...] = ()
    bytes: NonNegativeInt


class BatchSeen(Record):
    """One full batch of the training loader, walked leaf by leaf."""

    samples: PositiveInt
    total_bytes: NonNegativeInt
    """Of the data itself."""
    shared_bytes: NonNegativeInt
    """What it takes in /dev/shm when a worker hands it over: its tensors' storages, in whole pages.

    A slice carries the whole storage; of a batch that was pinned, only the slice is left to see.
    """
    piped_bytes: NonNegativeInt
    """What goes through a pipe instead: arrays, text, numbers."""
    leaves: tuple[LeafSeen, ...] = Field(max_length=64)
    """The largest, in the order of the batch."""


class ModelBytes(Record):
    """Bytes of the stepped modules on the training device, at the end of the measurement."""

    parameters_bytes: NonNegativeInt
    frozen_bytes: NonNegativeInt = 0
    """Of parameters that require no gradient."""
    buffers_bytes: NonNegativeInt
    gradients_bytes: NonNegativeInt
    """When all are there; freed between steps by zero_grad.

    Predicted for a module that has none at that moment: its parameters that require one, in their dtype.
    """
    gradients_are_predicted: bool = False
    """Whether any of them are such a prediction."""
    optimizer_bytes: NonNegativeInt
