"""What a trial looked at after its measurement, while the loop was still there."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.attribution import LoaderWork
from tunekit.records.base import Record


class Detail(StrEnum):
    """What may be looked at, in this order."""

    QUEUE = "queue"
    """The loader's full queue: /dev/shm, and the memory of each worker."""
    KERNELS = "kernels"
    """A few batches under torch.profiler."""
    SYNCS = "syncs"
    """Where the script waits for the device."""
    PEAKS = "peaks"
    """Peak device memory of forward and backward, and of the optimizer, apart."""
    FLOORS = "floors"
    """The loader alone, then the training alone on one batch."""
    LARGEST = "largest"
    """The training on a batch of the data set's largest samples, where they vary in size."""
    SIZES = "sizes"
    """The training alone at other batch sizes, on one batch that is resized."""
    TRACE = "trace"
    """What a step allocates and computes, at two small batch sizes."""
    DATA = "data"
    """The samples of two epochs. The last: it moves what the data set reads from."""


class QueueSeen(Record):
    """The loader's queue, held until it grew no more."""

    batches: NonNegativeInt
    """Batches that a full queue holds, by formula: workers x prefetch + 1 at hand."""
    predicted_bytes: NonNegativeInt
    """These, by the bytes that one batch takes in /dev/shm."""
    shm_bytes: NonNegativeInt
    """Growth of /dev/shm since before the loader was first iterated, kept_bytes included; the semaphores of
    the loader's queues, a page each, are left out."""
    kept_bytes: NonNegativeInt = 0
    """Of it, what the script held when these workers were forked, as the last batch of the epoch before and
    its queues' semaphores: they keep it until they end, and the formula does not count it."""
    is_full: bool
    """Whether the workers had made all that they may and it had stopped growing; never with pinned memory,
    where batches leave /dev/shm as they come."""
    main_base_bytes: NonNegativeInt | None = None
    """What training process and workers take without shared memory, proportionally, less worker_base_bytes of
    each worker: what the workers share with the training process since their fork is in it once."""
    worker_base_bytes: NonNegativeInt | None = None
    """What a worker alone has, on average, without shared memory: one more worker takes as much."""
    worker_growth_bytes: NonNegativeInt = 0
    """What that grows by until the epoch's end, predicted from its growth within a window: pages of the data
    set become a forked worker's own as reference counts are written into Python objects."""
    pss_bytes: NonNegativeInt | None = None
    """Proportional memory of training process and workers, with what they have mapped of /dev/shm: batches
    that wait in the queue are mapped by none, and stand in shm_bytes alone."""


class WorkerSweepPoint(Record):
    """The loader alone with one number of workers."""

    num_workers: PositiveInt
    step_s: PositiveFloat
    """Seconds per batch."""
    loader_work: LoaderWork | None = None
    """What its batches cost; None where the workers report nothing."""


class IsolatedRates(Record):
    """The two halves of the loop, each without the other, in this process: what either alone would allow."""

    loader_step_s: PositiveFloat | None = None
    """Seconds per batch of the loader alone, its primed queue left out."""
    compute_step_s: PositiveFloat | None = None
    """Seconds per batch of training on one batch over and over."""
    loader_work: LoaderWork | None = None
    """What its batches cost while the loader ran alone; None where the loader's processes could not be looked
    into, or none was made in that time."""
    why_not: str | None = None
    """Why a half is missing."""
    workers: tuple[WorkerSweepPoint, ...] = Field(default=(), max_length=8)
    """The loader alone with other numbers of workers: a loader sweep."""


class ComputeSweepPoint(Record):
    """The training alone at one batch size."""

    batch_size: PositiveInt
    step_s: PositiveFloat
    """Seconds per loop batch."""
    batches: PositiveInt
    """Loop batches that were timed."""
    peak_reserved_bytes: NonNegativeInt | None = None
    """Largest device memory that the process reserved at this size; None on a CPU."""


class ComputeSweep(Record):
    """The training alone against batch size, in one process: a compute sweep."""

    sizes: tuple[ComputeSweepPoint, ...] = Field(default=(), max_length=64)
    why_ended: str | None = Field(default=None, max_length=500)
    """Why sizes that were asked for are missing."""


class LargestSamples(Record):
    """The training on a batch of the largest among samples that were read all over the data set."""

    samples_read: NonNegativeInt = 0
    data_set_samples: NonNegativeInt | None = None
    """Samples that the loader may give; None where they can't be read one by one."""
    varies: bool | None = None
    """Whether samples differ in bytes or shapes; if the first sixteen do not, no more are read. None where
    that is not known."""
    batch_bytes: NonNegativeInt | None = None
    """Data of the batch of the largest samples, as the loader's collate_fn makes it."""
    usual_batch_bytes: NonNegativeInt | None = None
    """Data of a batch of as many samples from all over the data set, made in the same way."""
    is_given: bool = False
    """Whether the script was given the batch of the largest."""
    survived: bool = False
    """Whether it trained on that a few times: what ends it before says that the batch was too much. One is
    enough where the script changes its batch in place, so that it can't be given again."""
    peak_reserved_bytes: NonNegativeInt | None = None
    """Device memory while the script trained on it, with what torch had kept of batches before: it gives that
    back before it runs out. None on a CPU."""
    why_ended: str | None = Field(default=None, max_length=500)
    """Why something is missing."""

    @property
    def times_usual(self) -> float | None:
        """Bytes of the batch over those of a usual one."""
        if self.batch_bytes is None or not self.usual_batch_bytes:
            return None
        return self.batch_bytes / self.usual_batch_bytes


class TracedAt(Record):
    """Steps whose allocations and ops were written down: a StepTrace in a file."""

    precision: Literal["bf16"] | None
    """What the roots ran under; None for the script's own."""
    batch_size: PositiveInt
    is_checkpointed: bool = False
    """Whether with gradient checkpointing."""
    file: str = Field(max_length=100, pattern=r"^[a-z0-9.-]+$")
    """In the trial's folder."""


class CheckpointingSeen(Record):
    """Gradient checkpointing around a model's repeated blocks, as it was traced."""

    blocks: NonNegativeInt
    """That keep their inputs alone, and run once more within backward."""
    names: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=4)
    """Of their classes."""
    why_not: str | None = Field(default=None, max_length=200)
    """Why nothing was traced with it."""


class TraceSeen(Record):
    """Steps of the script's own loop at small batch sizes, for device memory that is predicted."""

    device_type: str = Field(max_length=40)
    """What they ran on; on a CPU while simulating the CUDA allocator."""
    batches_per_step: PositiveInt = 1
    """Loop batches per optimizer step."""
    is_dry: bool = False
    """Whether they ran without their arithmetic."""
    is_own_batch: bool = False
    """Whether the script makes its batches itself, so that one size alone was traced."""
    is_expandable: bool = False
    """Whether torch's allocator has expandable segments, on a GPU."""
    kept: tuple[NonNegativeInt, ...] | None = Field(default=None, max_length=1000)
    """Bytes of the blocks, of 1 MiB and more, that no tensor of the steps has and that stay: workspaces of
    cuBLAS, tensors that the steps don't take. None on a CPU."""
    steps: tuple[TracedAt, ...] = Field(default=(), max_length=8)
    checkpointing: CheckpointingSeen | None = None
    """None where it was not looked at."""
    doubts: tuple[str, ...] = Field(default=(), max_length=8)
    """Why a GPU may take another amount."""
    why_ended: str | None = Field(default=None, max_length=500)
    """Why something is missing."""


class Kernel(Record):
    """One kernel, or operator on a CPU, over the traced batches."""

    name: str = Field(max_length=200)
    calls: PositiveInt
    time_s: NonNegativeFloat


class KernelWindow(Record):
    """A few batches under torch.profiler: for what no outside clock sees, never for rates."""

    batches: PositiveInt
    """Loop batches that were traced."""
    time_s: PositiveFloat
    """Of the traced batches by the host's clock, slower than untraced ones."""
    device_busy_s: NonNegativeFloat | None = None
    """Time in which a kernel or a copy ran; None on a CPU."""
    h2d_s: NonNegativeFloat | None = None
    copies_alone_s: NonNegativeFloat | None = None
    """Time in which nothing but copies between host and device ran; None where that is not known."""
    kernels: tuple[Kernel, ...] = Field(default=(), max_length=32)
    """Those that took longest, by their own time."""


class SyncPoint(Record):
    """A place where the script waits for the device."""

    where: str = Field(max_length=300)
    """The script's file and line; torch's where no frame is the script's."""
    what: str = Field(max_length=300)
    per_batch: PositiveFloat


class PeaksSeen(Record):
    """Peak allocated device memory of one batch, in its two parts, after an optimizer has its state."""

    forward_backward_bytes: NonNegativeInt
    optimizer_bytes: NonNegativeInt
    gradients_at_start_bytes: NonNegativeInt
    """Gradients that were still there when the batch began."""
    batch_bytes: NonNegativeInt
    """The batch's tensors; on the device once they were copied."""


class IndicesSeen(Record):
    """What the batch sampler draws, with pinned generators and without reading a sample."""

    is_whole: bool
    """Whether whole epochs were drawn; else one alone, cut off."""
    draws: NonNegativeInt
    """Of the first epoch."""
    distinct: NonNegativeInt
    distinct_in_two: NonNegativeInt | None = None
    """In two epochs together."""
    digest: str = Field(max_length=20)
    """Equal for the same draws in any order."""
    data_set_samples: NonNegativeInt | None = None


class SamplesSeen(Record):
    """What the loader's processes made of epochs, as the script trains on them."""

    whole_epochs: NonNegativeInt
    """0 where the time did not do for one: the rest is of a part then."""
    count: NonNegativeInt
    """Of the first epoch."""
    distinct: NonNegativeInt
    """By index; of a stream by content."""
    distinct_in_two: NonNegativeInt | None = None
    digests: tuple[Annotated[str, Field(max_length=20)], ...] = Field(default=(), max_length=2)
    """Of each whole epoch, equal for the same content in any order."""
    made_again: NonNegativeInt = 0
    """Indices whose sample was made more than once."""
    made_otherwise: NonNegativeInt = 0
    """Of them, those with another content than before."""


class LeafSeen(Record):
    """One leaf of some samples."""

    prints: str = Field(max_length=8 * 256)
    """Eight digits for each sample, equal for equal type, shape and data."""
    unlike: NonNegativeInt
    """Samples of which it came out otherwise a second time."""


class ContentsSeen(Record):
    """Samples of chosen indices, the same in every trial, made twice with pinned generators."""

    indices: tuple[NonNegativeInt, ...] = Field(max_length=256)
    leaves: tuple[LeafSeen, ...] = Field(max_length=8)


class DataSeen(Record):
    """The samples of the training loader: which are drawn, which arrive, and what is in some of them."""

    indices: IndicesSeen | None = None
    """None for a stream."""
    samples: SamplesSeen | None = None
    contents: ContentsSeen | None = None
    changing: tuple[Annotated[str, Field(max_length=200)], ...] | None = Field(default=None, max_length=8)
    """What the script changes in its data set between epochs; None where that was not seen."""
    shared_generators: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=8)
    """From which several workers draw the same numbers."""
    unshared: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=8)
    """What reading changes in a data set without workers, and samples or the script's loop depend on."""
    faults: tuple[Annotated[str, Field(max_length=500)], ...] = Field(default=(), max_length=8)
    """Why something is missing."""


class Details(Record):
    """Whatever was asked for and could be seen; None where not."""

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
    """Why something that was asked for is missing."""
