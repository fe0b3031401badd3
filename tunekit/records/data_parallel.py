"""How ranks train one model together."""

from enum import StrEnum

from pydantic import Field, NonNegativeInt, PositiveFloat

from tunekit.records.base import Record


class DataParallelKind(StrEnum):
    """What makes one training of the ranks'."""

    DDP = "ddp"
    FSDP = "fsdp"
    FSDP2 = "fsdp2"
    NONE = "none"
    """No wrapper of torch's; the script may sum its gradients by itself."""


class DataParallelSeen(Record):
    """What trained the roots together, as rank 0 has it."""

    kind: DataParallelKind
    backend: str | None = Field(max_length=80)
    """Of the default process group on the roots' device, such as "nccl"; None where there is no group."""
    gradient_bytes: NonNegativeInt | None
    """Of the gradients that a rank gives into one sum over all ranks, in the dtype of the parameters; None
    where that is not known, as of FSDP's flat parameters."""
    syncs_gradients: bool | None
    """Whether the first DistributedDataParallel sums gradients; None where there is none."""
    comm_hook: str | None = Field(default=None, max_length=200)
    """What takes the place of the plain sum, such as "fp16_compress_hook"; None for that."""


class RankSeen(Record):
    """One rank's loop by its own clock, within rank 0's steady window."""

    rank: NonNegativeInt
    samples_per_s: PositiveFloat
    batch_samples: PositiveFloat | None = None
    """Mean samples in its loop batches; None where they were not counted."""
