"""How the ranks train one model together."""

from enum import StrEnum

from pydantic import Field, NonNegativeInt, PositiveFloat

from tunekit.records.base import Record


class DataParallelKind(StrEnum):
    """The wrapper that makes the ranks train together."""

    DDP = "ddp"
    FSDP = "fsdp"
    FSDP2 = "fsdp2"
    NONE = "none"
    """No torch wrapper; the script may still sum gradients itself."""


class DataParallelSeen(Record):
    """How the ranks train the root modules together, as seen on rank 0."""

    kind: DataParallelKind
    backend: str | None = Field(max_length=80)
    """Backend of the default process group on the roots' device, such as "nccl"; None without a group."""
    gradient_bytes: NonNegativeInt | None
    """Bytes of the gradients that each rank contributes to one sum over all ranks, in the parameters' dtype;
    None if unknown, as for FSDP's flat parameters."""
    syncs_gradients: bool | None
    """Whether the first DistributedDataParallel module sums gradients; None without one."""
    comm_hook: str | None = Field(default=None, max_length=200)
    """Hook that replaces the plain sum, such as "fp16_compress_hook"; None for the plain sum."""


class RankSeen(Record):
    """One rank's loop by its own clock, within rank 0's steady window."""

    rank: NonNegativeInt
    samples_per_s: PositiveFloat
    batch_samples: PositiveFloat | None = None
    """Mean samples per loop batch; None if they were not counted."""
