"""Predicted device memory and speed of GPUs: what goes into a prediction and what it yields."""

from enum import StrEnum
from typing import Literal, NamedTuple, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.interval import Interval


class Purpose(StrEnum):
    """What a block of device memory is for."""

    PARAMETERS = "parameters"
    BUFFERS = "buffers"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer state"
    BATCH = "batch"
    ACTIVATIONS = "activations"
    WORKSPACE = "workspace"
    HELD = "held by the script"
    """Allocated before the steps, and none of the above."""


PURPOSES = tuple(Purpose)


class OpCost(NamedTuple):
    """One op of a step."""

    name: str
    """Such as "mm", or "convolution.depthwise.nhwc" with the groups and layout of a convolution."""
    dtype: str
    """dtype of its first floating-point tensor, such as "bfloat16"; empty without one."""
    flops: float
    """Multiplications and additions of matmuls, convolutions, attention and recurrent layers."""
    moved_bytes: float
    """Bytes read and written, each tensor counted once."""


class OpTime(NamedTuple):
    """A measured op."""

    op: OpCost
    seconds: float
    """On the GPU."""


class StepTrace(Record):
    """A few steps at one batch size: the allocations of all, and the ops of the last optimizer step."""

    batch_size: PositiveInt
    blocks: tuple[NonNegativeInt, ...]
    """For each event: the block's number, counted from 0 in order of allocation."""
    sizes: tuple[int, ...]
    """For each event: the bytes requested, or -1 if the block is freed."""
    purposes: tuple[NonNegativeInt, ...]
    """For each block: its index in PURPOSES."""
    temporaries: tuple[NonNegativeInt, ...] = ()
    """For each block: bytes that an op allocated right after it and freed before the op ended; empty if that
    can't be seen, as on a CPU."""
    ops: tuple[OpCost, ...] = Field(default=())

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.blocks) != len(self.sizes):
            raise ValueError(f"{len(self.blocks)} blocks, but {len(self.sizes)} sizes")
        allocated = [block for block, size in zip(self.blocks, self.sizes, strict=True) if size >= 0]
        if allocated != list(range(len(self.purposes))):
            raise ValueError("blocks must be numbered from 0 in order of allocation, each with a purpose")
        if len(self.temporaries) not in (0, len(self.purposes)):
            raise ValueError(f"{len(self.purposes)} blocks, but {len(self.temporaries)} temporaries")
        if any(place >= len(PURPOSES) for place in self.purposes):
            raise ValueError("unknown purpose")
        return self


class ConvolutionSeen(Record):
    """The most that one convolution took from torch's pool in addition to its tensors."""

    shape: str
    """Input, kernel and output channels, such as "64x256x56x56, kernel 3x3, to 64"."""
    dtype: str
    benchmark: bool
    """torch.backends.cudnn.benchmark; its search for the fastest kernel takes memory, too."""
    forward_bytes: NonNegativeInt
    backward_bytes: NonNegativeInt

    @property
    def workspace_bytes(self) -> int:
        """The larger of forward and backward."""
        return max(self.forward_bytes, self.backward_bytes)


class Calibration(Record):
    """Memory overheads measured on one GPU with one torch and one driver."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    created_at: str
    """ISO 8601, UTC."""
    device_name: str
    compute_capability: str | None
    """Such as "9.0"; None on ROCm."""
    driver: str | None
    torch_version: str
    cuda_version: str | None
    cudnn_version: str | None
    context_bytes: NonNegativeInt
    """Memory that the driver counts in addition to torch's reserved memory, once matmuls, convolutions and an
    optimizer step have loaded their libraries."""
    context_seen_by: Literal["process", "device"]
    """"device" if the driver doesn't report processes: the growth of the whole GPU's memory."""
    blas_forward_bytes: NonNegativeInt
    """The forward thread's cuBLAS workspace, in torch's pool."""
    blas_backward_bytes: NonNegativeInt
    """The autograd thread's cuBLAS workspace."""
    blas_is_kept: bool
    """Whether workspaces stay allocated after the first matmul; else they are released after each."""
    convolutions: tuple[ConvolutionSeen, ...]
    op_times: tuple[OpTime, ...] = ()
    host_op_s: PositiveFloat | None = None
    """The host's time per op of a training step."""

    @property
    def blas_workspace_bytes(self) -> int:
        """What both threads' workspaces take at the same time."""
        both = (self.blas_forward_bytes, self.blas_backward_bytes)
        return sum(both) if self.blas_is_kept else max(both)

    def workspaces_bytes(self, benchmark: bool) -> tuple[int, int] | None:
        """Return the least and the most that a convolution took, or None if none was measured.

        Args:
            benchmark: whether torch.backends.cudnn.benchmark was on.
        """
        seen = [one.workspace_bytes for one in self.convolutions if one.benchmark is benchmark]
        return (min(seen), max(seen)) if seen else None


class PredictionPath(StrEnum):
    """How the steps behind a prediction were traced."""

    LOOP_ON_GPU = "loop-on-gpu"
    LOOP_ON_CPU = "loop-on-cpu"
    LOOP_DRY = "loop-dry"
    """The steps ran on tensor shapes only."""


class BytesRange(Record):
    """A number of bytes known within bounds."""

    low: NonNegativeInt
    high: NonNegativeInt
    source: str

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        return self


class OutsideTorch(Record):
    """What a GPU's memory holds in addition to torch's tensors."""

    context: BytesRange
    """CUDA context and loaded libraries, which reduce what torch can reserve."""
    blas_workspace_bytes: NonNegativeInt
    """cuBLAS workspaces, in torch's pool from the first matmul on: those of forward and backward thread
    together, or only the larger one if they are released after each matmul."""
    blas_is_kept: bool | None = None
    """Whether these workspaces stay allocated; None if that wasn't measured."""


class PeakAt(Record):
    """Predicted device memory at one batch size, for the GPU that a trial ran on."""

    precision: Precision
    batch_size: PositiveInt
    reserved_bytes: PositiveInt


class PeakShown(Record):
    """Predicted peak device memory of one batch size."""

    batch_size: PositiveInt
    allocated_bytes: NonNegativeInt
    """torch.cuda.max_memory_allocated()."""
    reserved_bytes: NonNegativeInt
    """torch.cuda.max_memory_reserved()."""
    by_purpose: dict[Purpose, NonNegativeInt]
    """What is allocated at that moment, without the unused ends of blocks; hardly any gradients exist while
    activations peak."""


class LargestBatch(Record):
    """The largest batch that fits a GPU's memory, per device, however many samples there are."""

    low: NonNegativeInt
    """Fits with the margin on every byte and the worst-case memory outside torch: the one to trust."""
    value: NonNegativeInt
    high: NonNegativeInt
    """Fits only in the best case."""


class CheckpointingPredicted(Record):
    """Gradient checkpointing around a model's repeated blocks: traced, not assumed."""

    blocks: NonNegativeInt
    """Number of the model's blocks that keep only their inputs."""
    names: tuple[str, ...] = ()
    """Their class names."""
    extra_flops: NonNegativeFloat | None = None
    """Additional arithmetic of a step, as a share and by the trace: the blocks' forward pass runs twice."""
    why_not: str | None = None
    """Why nothing is predicted with checkpointing."""


class PredictedFit(Record):
    """What fits one GPU in one precision, and how fast that would be."""

    profile_id: str
    precision: Precision
    capacity_bytes: PositiveInt
    """The device memory that torch sees."""
    largest: LargestBatch
    checkpointed: LargestBatch | None = None
    """The largest batch with gradient checkpointing; None if that wasn't traced."""
    peak: PeakShown | None
    """The peak at the largest batch that fits with the margin, or at a whole epoch's samples if these are
    fewer; None if not even one sample fits."""
    rate: Interval | None = None
    """Samples/s of one device at the peak's batch; None if the GPU's rates are unknown."""
    compute: Interval | None = None
    """Samples/s that the GPU alone would reach."""
    loader: Interval | None = None
    """Samples/s that the loader could make there; None if unknown."""
    bound_by: Literal["VRAM", "loader", "compute"] | None = None
    """"VRAM" if nothing fits; else the slower of loader and compute, or compute if the loader is unknown."""
    instance: str | None = None
    """Provider and name of the machine whose vCPUs the loader uses."""
    note: str | None = None

    @property
    def batch_size(self) -> int:
        """The batch that peak and rates refer to; 0 if not even one sample fits."""
        return self.peak.batch_size if self.peak else 0


class Correction(Record):
    """How a prediction compares with measured trials."""

    precision: Precision
    batch_size: PositiveInt
    predicted_bytes: PositiveInt
    """Predicted reserved memory, without the margin."""
    measured_bytes: PositiveInt

    @property
    def factor(self) -> float:
        """Measured over predicted."""
        return self.measured_bytes / self.predicted_bytes


class DevicePrediction(Record):
    """What steps at two small batch sizes predict for GPUs; only the corrections are measured."""

    path: PredictionPath
    margin: NonNegativeFloat
    """How far a peak may exceed its prediction, as a share of it."""
    doubts: tuple[str, ...] = ()
    """What widened the margin, or may differ on a GPU."""
    traced_sizes: tuple[PositiveInt, ...]
    epoch_samples: PositiveInt | None = None
    """Samples per epoch of one rank's loader, so no batch is larger; None if unknown."""
    fits: tuple[PredictedFit, ...] = ()
    checkpointing: CheckpointingPredicted | None = None
    """The effect of gradient checkpointing; None if it wasn't traced."""
    corrections: tuple[Correction, ...] = ()
    """Corrections by trials on the GPU itself."""
    config: TrainConfig | None = None
    """A starting config for a GPU that isn't here; None if it is here or nothing fits."""
    start: PredictedFit | None = None
    """The prediction for that config; `peak` and rates refer to its batch size."""
    speed_factor: PositiveFloat | None = None
    """Factor on all roofline rates: the local GPU's measured rate over its roofline. None without a local
    GPU."""
    flops_per_sample: PositiveFloat | None = None
    """FLOPs per sample, from two traced batch sizes; None if none were traced."""
    loader_measured: PositiveFloat | None = None
    """Samples/s of the loader without training on this machine; None if it wasn't measured."""
    loader_cpus: PositiveInt | None = Field(default=None)
    """CPUs that the loader had on this machine."""

    @model_validator(mode="after")
    def _has_possible_batches(self) -> Self:
        most = self.epoch_samples
        too_large = [fit.batch_size for fit in self.fits if most is not None and fit.batch_size > most]
        if too_large:
            raise ValueError(f"a batch of {too_large[0]} is larger than an epoch of {most} samples")
        return self

    def has_whole_epoch(self, batch_size: int) -> bool:
        """Return whether a batch would hold all samples of an epoch; loaders can't make larger ones."""
        return self.epoch_samples is not None and batch_size >= self.epoch_samples

    def fit_of(self, profile_id: str, precision: Precision) -> PredictedFit | None:
        """Return what was predicted for a GPU and precision."""
        found = (one for one in self.fits if (one.profile_id, one.precision) == (profile_id, precision))
        return next(found, None)
