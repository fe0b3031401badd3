"""What a trial examined after its measurement, while the loop was still running."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.attribution import LoaderWork
from tunekit.records.base import Record


class Detail(StrEnum):
    """What a trial can examine, in this order."""

    QUEUE = "queue"
    """The loader's full queue: its use of /dev/shm and the memory of each worker."""
    KERNELS = "kernels"
    """A few batches under torch.profiler."""
    SYNCS = "syncs"
    """Where the script waits for the device."""
    PEAKS = "peaks"
    """Peak device memory of forward and backward, and separately of the optimizer."""
    FLOORS = "floors"
    """The loader without training, then the training without the loader, on one batch."""
    LARGEST = "largest"
    """Training on a batch of the data set's largest samples, if they vary in size."""
    SIZES = "sizes"
    """Training without the loader at other batch sizes, on one batch that is resized."""
    TRACE = "trace"
    """What a step allocates and computes, at two small batch sizes."""
    DATA = "data"
    """The samples of two epochs. It comes last because it advances the data set's state."""


class QueueSeen(Record):
    """The loader's queue, left to fill until it stopped growing."""

    batches: NonNegativeInt
    """Batches in a full queue by formula: workers x prefetch, plus the current one."""
    predicted_bytes: NonNegativeInt
    """Predicted size of these batches, from what one batch takes in /dev/shm."""
    shm_bytes: NonNegativeInt
    """Growth of /dev/shm since before the loader was first iterated, kept_bytes included. The semaphores of
    the loader's queues, a page each, are not counted."""
    kept_bytes: NonNegativeInt = 0
    """The part that the script held when these workers were forked, such as the previous epoch's last batch
    and its queues' semaphores. The workers keep it until they exit; the formula doesn't count it."""
    is_full: bool
    """Whether the workers had filled the queue and it had stopped growing; never with pinned memory, where
    batches leave /dev/shm as they arrive."""
    main_base_bytes: NonNegativeInt | None = None
    """Proportional memory of training process and workers without shared memory, minus worker_base_bytes for
    each worker. Pages shared since the fork are counted once."""
    worker_base_bytes: NonNegativeInt | None = None
    """Mean private memory of a worker, without shared memory: what one more worker would take."""
    worker_growth_bytes: NonNegativeInt = 0
    """Predicted growth of that until the end of the epoch, from its growth within a window: a forked worker
    copies pages of the data set when it updates the reference counts of Python objects."""
    pss_bytes: NonNegativeInt | None = None
    """Proportional memory of training process and workers, including what they map from /dev/shm. Batches
    that wait in the queue are mapped by no process and only counted in shm_bytes."""


class WorkerSweepPoint(Record):
    """The loader without training, at one number of workers."""

    num_workers: PositiveInt
    step_s: PositiveFloat
    """Seconds per batch."""
    loader_work: LoaderWork | None = None
    """What its batches cost; None if the workers report nothing."""


class IsolatedRates(Record):
    """Loader and training, each measured without the other in one process."""

    loader_step_s: PositiveFloat | None = None
    """Seconds per batch of the loader without training, its already filled queue left out."""
    compute_step_s: PositiveFloat | None = None
    """Seconds per batch of training on the same batch again and again."""
    loader_work: LoaderWork | None = None
    """What batches cost while the loader ran without training; None if the loader's processes could not be
    inspected or made no batch in that time."""
    why_not: str | None = None
    """Why one of the two is missing."""
    workers: tuple[WorkerSweepPoint, ...] = Field(default=(), max_length=8)
    """A loader sweep: the loader without training at other numbers of workers."""


class ComputeSweepPoint(Record):
    """Training without the loader at one batch size."""

    batch_size: PositiveInt
    step_s: PositiveFloat
    """Seconds per loop batch."""
    batches: PositiveInt
    """Number of loop batches that were timed."""
    peak_reserved_bytes: NonNegativeInt | None = None
    """Peak device memory that the process reserved at this size; None on a CPU."""


class ComputeSweep(Record):
    """A compute sweep: training without the loader at several batch sizes, in one process."""

    sizes: tuple[ComputeSweepPoint, ...] = Field(default=(), max_length=64)
    why_ended: str | None = Field(default=None, max_length=500)
    """Why some requested sizes are missing."""


class LargestSamples(Record):
    """Training on a batch of the largest samples, among those read from all over the data set."""

    samples_read: NonNegativeInt = 0
    data_set_samples: NonNegativeInt | None = None
    """Samples that the loader draws from; None if they can't be read individually."""
    varies: bool | None = None
    """Whether samples differ in bytes or shapes; if the first sixteen don't, no more are read. None if
    unknown."""
    batch_bytes: NonNegativeInt | None = None
    """Size of the batch of the largest samples, as built by the loader's collate_fn."""
    usual_batch_bytes: NonNegativeInt | None = None
    """Size of a batch of as many samples from all over the data set, built the same way."""
    is_given: bool = False
    """Whether the script received the batch of the largest samples."""
    survived: bool = False
    """Whether it trained on that batch a few times; a failure before that means the batch was too large. Once
    is enough if the script changes its batch in place, so that it can't be used again."""
    peak_reserved_bytes: NonNegativeInt | None = None
    """Peak device memory while the script trained on it, including what torch still cached from earlier
    batches, which it would release before running out. None on a CPU."""
    why_ended: str | None = Field(default=None, max_length=500)
    """Why something is missing."""

    @property
    def times_usual(self) -> float | None:
        """Ratio of the batch's bytes to those of a usual batch."""
        if self.batch_bytes is None or not self.usual_batch_bytes:
            return None
        return self.batch_bytes / self.usual_batch_bytes


class TracedAt(Record):
    """Steps whose allocations and ops were recorded: a StepTrace in a file."""

    precision: Literal["bf16"] | None
    """Precision that the root modules ran in; None for the script's own."""
    batch_size: PositiveInt
    is_checkpointed: bool = False
    """Whether gradient checkpointing was on."""
    file: str = Field(max_length=100, pattern=r"^[a-z0-9.-]+$")
    """Name of the file in the trial's folder."""


class CheckpointingSeen(Record):
    """Gradient checkpointing around a model's repeated blocks, as traced."""

    blocks: NonNegativeInt
    """Number of blocks that keep only their inputs and run again within backward."""
    names: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=4)
    """Their class names."""
    why_not: str | None = Field(default=None, max_length=200)
    """Why nothing was traced with checkpointing."""


class TraceSeen(Record):
    """Steps of the script's own loop at small batch sizes, to predict device memory from."""

    device_type: str = Field(max_length=40)
    """The device type that they ran on; on a CPU, the CUDA allocator is simulated."""
    batches_per_step: PositiveInt = 1
    """Loop batches per optimizer step."""
    is_dry: bool = False
    """Whether they ran without arithmetic, on tensor shapes only."""
    is_own_batch: bool = False
    """Whether the script makes its own batches, so that only one size was traced."""
    is_expandable: bool = False
    """Whether torch's allocator uses expandable segments, on a GPU."""
    kept: tuple[NonNegativeInt, ...] | None = Field(default=None, max_length=1000)
    """Bytes of each lasting block of at least 1 MiB that holds no tensor of the steps: cuBLAS workspaces and
    unrelated tensors. None on a CPU."""
    steps: tuple[TracedAt, ...] = Field(default=(), max_length=8)
    checkpointing: CheckpointingSeen | None = None
    """Traces with gradient checkpointing; None if it wasn't tried."""
    doubts: tuple[str, ...] = Field(default=(), max_length=8)
    """Reasons why a GPU may need another amount."""
    why_ended: str | None = Field(default=None, max_length=500)
    """Why something is missing."""


class Kernel(Record):
    """One kernel, or one operator on a CPU, over the traced batches."""

    name: str = Field(max_length=200)
    calls: PositiveInt
    time_s: NonNegativeFloat


class KernelWindow(Record):
    """A few batches under torch.profiler, for what an outside clock can't see; never used for rates."""

    batches: PositiveInt
    """Number of traced loop batches."""
    time_s: PositiveFloat
    """Time of the traced batches by the host's clock; untraced ones are faster."""
    device_busy_s: NonNegativeFloat | None = None
    """Time in which a kernel or a copy ran; None on a CPU."""
    h2d_s: NonNegativeFloat | None = None
    copies_alone_s: NonNegativeFloat | None = None
    """Time in which only copies between host and device ran; None if unknown."""
    kernels: tuple[Kernel, ...] = Field(default=(), max_length=32)
    """The kernels with the most self time."""


class SyncPoint(Record):
    """A place where the script waits for the device."""

    where: str = Field(max_length=300)
    """File and line in the script; in torch if no frame belongs to the script."""
    what: str = Field(max_length=300)
    per_batch: PositiveFloat


class PeaksSeen(Record):
    """Peak allocated device memory of one batch, in two parts, once the optimizer state exists."""

    forward_backward_bytes: NonNegativeInt
    optimizer_bytes: NonNegativeInt
    gradients_at_start_bytes: NonNegativeInt
    """Gradients that still existed when the batch began."""
    batch_bytes: NonNegativeInt
    """Size of the batch's tensors, which are on the device once copied."""


class IndicesSeen(Record):
    """What the batch sampler draws, with seeded generators and without reading any sample."""

    is_whole: bool
    """Whether whole epochs were drawn; otherwise only the beginning of one."""
    draws: NonNegativeInt
    """Indices drawn in the first epoch."""
    distinct: NonNegativeInt
    distinct_in_two: NonNegativeInt | None = None
    """Distinct indices in two epochs together."""
    digest: str = Field(max_length=20)
    """A hash of the drawn indices that doesn't depend on their order."""
    data_set_samples: NonNegativeInt | None = None


class SamplesSeen(Record):
    """The samples that the loader's processes made over epochs, as the script trains on them."""

    whole_epochs: NonNegativeInt
    """Number of whole epochs; 0 if there wasn't time for one, and the other fields cover a part of it."""
    count: NonNegativeInt
    """Samples in the first epoch."""
    distinct: NonNegativeInt
    """Distinct samples, by index, or by content for a stream."""
    distinct_in_two: NonNegativeInt | None = None
    digests: tuple[Annotated[str, Field(max_length=20)], ...] = Field(default=(), max_length=2)
    """A hash of each whole epoch's content that doesn't depend on the order."""
    made_again: NonNegativeInt = 0
    """Number of indices whose sample was made more than once."""
    made_otherwise: NonNegativeInt = 0
    """How many of these had different content than before."""


class LeafSeen(Record):
    """One leaf of the checked samples."""

    prints: str = Field(max_length=8 * 256)
    """An eight-digit hash of type, shape and data for each sample, concatenated."""
    unlike: NonNegativeInt
    """Number of samples whose leaf differed when they were made a second time."""


class ContentsSeen(Record):
    """Samples at chosen indices, the same in every trial, made twice with seeded generators."""

    indices: tuple[NonNegativeInt, ...] = Field(max_length=256)
    leaves: tuple[LeafSeen, ...] = Field(max_length=8)


class DataSeen(Record):
    """The samples of the training loader: which are drawn, which arrive, and what is in some of them."""

    indices: IndicesSeen | None = None
    """The drawn indices; None for a stream."""
    samples: SamplesSeen | None = None
    contents: ContentsSeen | None = None
    changing: tuple[Annotated[str, Field(max_length=200)], ...] | None = Field(default=None, max_length=8)
    """What the script changes in its data set between epochs; None if that wasn't observed."""
    shared_generators: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=8)
    """Random generators from which several workers draw the same numbers."""
    unshared: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=8)
    """State that reading the data set changes without workers, and that samples or the script's loop depend
    on."""
    faults: tuple[Annotated[str, Field(max_length=500)], ...] = Field(default=(), max_length=8)
    """Why something is missing."""


class Details(Record):
    """The details that were requested and could be seen; the others are None."""

    queue: QueueSeen | None = None
    floors: IsolatedRates | None = None
    kernels: KernelWindow | None = None
    syncs: tuple[SyncPoint, ...] | None = Field(default=None, max_length=64)
    peaks: PeaksSeen | None = None
    largest: LargestSamples | None = None
    sizes: ComputeSweep | None = None
    trace: TraceSeen | None = None
    data: DataSeen | None = None
    faults: tuple[str, ...] = Field(default=(), max_length=16)
    """Why something that was requested is missing."""
