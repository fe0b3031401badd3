"""Device memory and speed that are predicted for GPUs: what goes into a prediction, and what comes of it."""

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
    """There before the steps, and none of the above."""


PURPOSES = tuple(Purpose)


class OpCost(NamedTuple):
    """One op of a step."""

    name: str
    dtype: str
    """Of its first floating-point tensor, such as "bfloat16"; empty without one."""
    flops: float
    """Multiplications and additions of matmuls, convolutions, attention and recurrent layers."""
    moved_bytes: float
    """Read and written, each tensor once."""


class StepTrace(Record):
    """A few steps at one batch size: allocations of all, ops of the last optimizer step."""

    batch_size: PositiveInt
    blocks: tuple[NonNegativeInt, ...]
    """Of each event: number of the block, counted from 0 as blocks are allocated."""
    sizes: tuple[int, ...]
    """Of each event: bytes that are asked for; -1 where the block is freed."""
    purposes: tuple[NonNegativeInt, ...]
    """Of each block: its place in PURPOSES."""
    temporaries: tuple[NonNegativeInt, ...] = ()
    """Of each block: bytes that an op allocated right after it and freed before it was through; empty where
    that was not seen, as on a CPU."""
    ops: tuple[OpCost, ...] = Field(default=())

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.blocks) != len(self.sizes):
            raise ValueError(f"{len(self.blocks)} blocks, but {len(self.sizes)} sizes")
        allocated = [block for block, size in zip(self.blocks, self.sizes, strict=True) if size >= 0]
        if allocated != list(range(len(self.purposes))):
            raise ValueError("blocks must be counted from 0 as they are allocated, each with a purpose")
        if len(self.temporaries) not in (0, len(self.purposes)):
            raise ValueError(f"{len(self.purposes)} blocks, but {len(self.temporaries)} temporaries")
        if any(place >= len(PURPOSES) for place in self.purposes):
            raise ValueError("unknown purpose")
        return self


class ConvolutionSeen(Record):
    """What one convolution took of torch's pool beyond its own tensors, at most."""

    shape: str
    """Such as "64x256x56x56, kernel 3x3, to 64"."""
    dtype: str
    benchmark: bool
    """torch.backends.cudnn.benchmark: its search for the fastest kernel takes memory too."""
    forward_bytes: NonNegativeInt
    backward_bytes: NonNegativeInt

    @property
    def workspace_bytes(self) -> int:
        """The larger of forward and backward."""
        return max(self.forward_bytes, self.backward_bytes)


class Calibration(Record):
    """One GPU with one torch and one driver: measured."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    created_at: str
    """ISO 8601, UTC."""
    device_name: str
    compute_capability: str | None
    """None on ROCm."""
    driver: str | None
    torch_version: str
    cuda_version: str | None
    cudnn_version: str | None
    context_bytes: NonNegativeInt
    """What the driver counts beyond what torch had reserved, once matmuls, convolutions and an optimizer
    step had loaded their libraries."""
    context_seen_by: Literal["process", "device"]
    """"device" where the driver does not tell of processes: by what the whole GPU had more than before."""
    blas_forward_bytes: NonNegativeInt
    """cuBLAS's workspace of the forward thread, in torch's pool."""
    blas_backward_bytes: NonNegativeInt
    """Of autograd's own thread."""
    blas_is_kept: bool
    """Whether workspaces stay from the first matmul on, or are given back after each."""
    convolutions: tuple[ConvolutionSeen, ...]

    @property
    def blas_workspace_bytes(self) -> int:
        """What both threads' workspaces take at once."""
        both = (self.blas_forward_bytes, self.blas_backward_bytes)
        return sum(both) if self.blas_is_kept else max(both)

    def workspaces_bytes(self, benchmark: bool) -> tuple[int, int] | None:
        """Return the least and the most that a convolution took; None where none was measured.

        Args:
            benchmark: with torch.backends.cudnn.benchmark on.
        """
        seen = [one.workspace_bytes for one in self.convolutions if one.benchmark is benchmark]
        return (min(seen), max(seen)) if seen else None


class PredictionPath(StrEnum):
    """How the steps were traced that a prediction goes by."""

    LOOP_ON_GPU = "loop-on-gpu"
    LOOP_ON_CPU = "loop-on-cpu"
    LOOP_DRY = "loop-dry"
    """On tensor shapes only."""


class BytesRange(Record):
    """Bytes that are known within bounds."""

    low: NonNegativeInt
    high: NonNegativeInt
    source: str

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        return self


class OutsideTorch(Record):
    """What a GPU's memory holds beside torch's tensors."""

    context: BytesRange
    """CUDA context and loaded libraries: not torch's, so they take from what it can reserve."""
    workspace: BytesRange
    """Of cuDNN, in torch's own pool while a convolution runs."""
    blas_workspace_bytes: NonNegativeInt
    """Of cuBLAS, in torch's own pool from the first matmul on: forward and backward thread together, or one
    of them where they are given back after each."""
    blas_is_kept: bool | None = None
    """Whether they stay; None where it was not measured."""


class PeakAt(Record):
    """Device memory at one batch size, for the GPU that a trial ran on: predicted."""

    precision: Precision
    batch_size: PositiveInt
    reserved_bytes: PositiveInt


class PeakShown(Record):
    """Device memory at the peak of one batch size: predicted."""

    batch_size: PositiveInt
    allocated_bytes: NonNegativeInt
    """torch.cuda.max_memory_allocated()."""
    reserved_bytes: NonNegativeInt
    """torch.cuda.max_memory_reserved()."""
    by_purpose: dict[Purpose, NonNegativeInt]
    """What is allocated at that moment, without unsplit rests; gradients are nearly absent while activations
    peak."""


class LargestBatch(Record):
    """The largest batch that fits a GPU's memory, per device, however many samples there are."""

    low: NonNegativeInt
    """Fits with the margin on every byte, and the most outside of torch: the one to trust."""
    value: NonNegativeInt
    high: NonNegativeInt
    """Fits only if everything is at its best."""


class CheckpointingPredicted(Record):
    """Gradient checkpointing around a model's repeated blocks: traced, not assumed."""

    blocks: NonNegativeInt
    """Of the model, each of which keeps its inputs alone."""
    names: tuple[str, ...] = ()
    """Of their classes."""
    extra_flops: NonNegativeFloat | None = None
    """Share by which a step has more arithmetic, by the trace: the blocks' forward runs once more."""
    why_not: str | None = None
    """Why nothing is predicted with it."""


class PredictedFit(Record):
    """One GPU and precision: what fits, and how fast that would be."""

    profile_id: str
    precision: Precision
    capacity_bytes: PositiveInt
    """What torch sees of the device."""
    largest: LargestBatch
    checkpointed: LargestBatch | None = None
    """The largest batch with gradient checkpointing; None where that was not traced."""
    peak: PeakShown | None
    """At the largest batch that fits with the margin, or at all samples of an epoch where these are fewer;
    None where not even one sample fits."""
    rate: Interval | None = None
    """Samples/s of one device at the peak's batch; None where the GPU's rates are unknown."""
    compute: Interval | None = None
    """Samples/s that the GPU alone would reach."""
    loader: Interval | None = None
    """Samples/s that the loader could make there; None where that is not known."""
    bound_by: Literal["VRAM", "loader", "compute"] | None = None
    """VRAM: nothing fits. Else the lower of loader and compute; compute also where the loader is unknown."""
    instance: str | None = None
    """Whose vCPUs the loader has, by provider and name."""
    note: str | None = None

    @property
    def batch_size(self) -> int:
        """The batch that peak and rates are of; 0 where not even one sample fits."""
        return self.peak.batch_size if self.peak else 0


class Correction(Record):
    """What measured trials say of a prediction."""

    precision: Precision
    batch_size: PositiveInt
    predicted_bytes: PositiveInt
    """Reserved, without the margin."""
    measured_bytes: PositiveInt

    @property
    def factor(self) -> float:
        """Measured over predicted."""
        return self.measured_bytes / self.predicted_bytes


class DevicePrediction(Record):
    """What steps at two small batch sizes say of GPUs: predicted, but for the corrections."""

    path: PredictionPath
    margin: NonNegativeFloat
    """Share that a peak may lie above its prediction."""
    doubts: tuple[str, ...] = ()
    """What widened the margin, or may be otherwise on a GPU."""
    traced_sizes: tuple[PositiveInt, ...]
    epoch_samples: PositiveInt | None = None
    """That one rank's loader has: no batch is larger; None where unknown."""
    fits: tuple[PredictedFit, ...] = ()
    checkpointing: CheckpointingPredicted | None = None
    """None where it was not traced."""
    corrections: tuple[Correction, ...] = ()
    """By trials on the GPU itself."""
    config: TrainConfig | None = None
    """To begin with on a GPU that is not here; None where it is, or nothing fits."""
    start: PredictedFit | None = None
    """What is predicted of that config: `peak` and rates are of its batch size."""
    speed_factor: PositiveFloat | None = None
    """Rates are the roofline's times this: how far the GPU that is here is from its own; None without one."""
    loader_measured: PositiveFloat | None = None
    """Samples/s of the loader alone on this machine; None where it was not looked at."""
    loader_cpus: PositiveInt | None = Field(default=None)
    """CPUs that it had here."""

    @model_validator(mode="after")
    def _has_possible_batches(self) -> Self:
        most = self.epoch_samples
        too_large = [fit.batch_size for fit in self.fits if most is not None and fit.batch_size > most]
        if too_large:
            raise ValueError(f"no batch has {too_large[0]} of the {most} samples of an epoch")
        return self

    def has_whole_epoch(self, batch_size: int) -> bool:
        """Return whether a batch would hold all samples of an epoch: no loader makes a larger one."""
        return self.epoch_samples is not None and batch_size >= self.epoch_samples

    def fit_of(self, profile_id: str, precision: Precision) -> PredictedFit | None:
        """Return what was predicted for a GPU and precision."""
        found = (one for one in self.fits if (one.profile_id, one.precision) == (profile_id, precision))
        return next(found, None)
