"""Where a training step's time goes, and what its batches consist of, as the agent saw it."""

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from tunekit.records.base import Record


class StepParts(Record):
    """The steady window by the host's clock, in seconds; the parts add up to it.

    On a CPU this is where the training's time goes. With a GPU, which runs asynchronously, it is only where
    the host's time goes; `DeviceParts` has the device's.
    """

    data_wait_s: NonNegativeFloat
    """Time inside the loader's next()."""
    compute_s: NonNegativeFloat
    """From receiving a batch to its last optimizer step, without the steps: transfer, forward, loss,
    backward.

    In a loop without a DataLoader this is everything except optimizer steps.
    """
    optimizer_s: NonNegativeFloat
    """Time inside optimizer steps, closures included."""
    other_s: NonNegativeFloat
    """From the last optimizer step to the next request for a batch: logging, metrics, schedules."""
    fetch_cpu_s: NonNegativeFloat = 0.0
    """CPU time of the loop's thread within data_wait_s: it makes the batch, or unpickles it if there are
    workers."""
    run_queue_s: NonNegativeFloat | None = None
    """Time within all parts that the loop's thread was runnable but had no CPU; None if the kernel doesn't
    report it."""


class DeviceParts(Record):
    """The steady window by CUDA events on the current stream, recorded without synchronising."""

    batches: PositiveInt
    """Loop batches whose events had all completed when they were read."""
    stall_s: NonNegativeFloat
    """Exposed data stall: device time between asking for a batch and having it. It is near 0 while queued
    work hides the host's wait."""
    compute_s: NonNegativeFloat
    optimizer_s: NonNegativeFloat
    other_s: NonNegativeFloat
    """From the last optimizer step to the next request for a batch."""
    drained_batches: NonNegativeInt
    """Batches at whose end the device had almost no queued work left when the next one was requested."""

    @property
    def time_s(self) -> float:
        """Device time of those batches."""
        return self.stall_s + self.compute_s + self.optimizer_s + self.other_s


class WorkerWork(Record):
    """What one loader process made in the steady window; without workers, the training process itself."""

    batches: NonNegativeInt
    """Number of batches, without the first one after the process started."""
    time_s: NonNegativeFloat


class LoaderWork(Record):
    """What it costs to make batches, in the processes that make them: data set and collate."""

    workers: tuple[WorkerWork, ...] = Field(min_length=1, max_length=1024)
    cpu_s: NonNegativeFloat
    """CPU seconds within time_s, of all threads of the workers; without workers, of the loop's thread
    only."""
    run_queue_s: NonNegativeFloat | None = None
    """Seconds within time_s in which the threads that make batches were runnable but had no CPU; None if the
    kernel doesn't report it."""
    block_io_s: NonNegativeFloat | None = None
    """Seconds within time_s in which they waited for block devices; 0 if the kernel doesn't count it."""

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
        """CPU seconds per second of making batches, low while workers wait for storage; None without time."""
        return self.cpu_s / self.time_s if self.time_s else None

    @property
    def cpus_per_worker(self) -> float:
        """CPUs that one worker needs while it makes batches, not counting waits for a CPU: at most 1."""
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
    """Size of the data itself."""
    shared_bytes: NonNegativeInt
    """Size in /dev/shm when a worker hands it over: its tensors' storages, rounded up to whole pages.

    A slice takes its whole storage; after pinning, only the slice itself can be seen.
    """
    piped_bytes: NonNegativeInt
    """What goes through a pipe instead: arrays, text, numbers."""
    leaves: tuple[LeafSeen, ...] = Field(max_length=64)
    """The largest leaves, in the batch's order."""

    @property
    def tokens_per_sample(self) -> int | None:
        """Length of this batch's sequences, padding included; None unless it holds token ids.

        Token ids are a matrix of whole numbers with a row per sample, either named so or beside another of
        the same shape, such as the next tokens.
        """
        shapes = [one.shape for one in self.leaves if "int" in (one.dtype or "") and len(one.shape) == 2]
        named = [one.shape for one in self.leaves if "input_ids" in one.path and len(one.shape) == 2]
        found = named or [one for one in shapes if len(self.leaves) == len(shapes) == shapes.count(one) > 1]
        return found[0][1] if found and found[0][0] == self.samples and found[0][1] > 1 else None


class ModelBytes(Record):
    """Bytes of the optimized modules on the training device, at the end of the measurement."""

    parameters_bytes: NonNegativeInt
    frozen_bytes: NonNegativeInt = 0
    """Bytes of parameters that require no gradient."""
    buffers_bytes: NonNegativeInt
    gradients_bytes: NonNegativeInt
    """Bytes when all gradients exist; zero_grad frees them between steps.

    For a module without gradients at that moment they are predicted from its trainable parameters.
    """
    gradients_are_predicted: bool = False
    """Whether any of these bytes are predicted."""
    optimizer_bytes: NonNegativeInt
