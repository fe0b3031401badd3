"""How ranks train one model together: what a trial sets of it, and what was seen."""

from enum import StrEnum

from pydantic import Field, NonNegativeInt, PositiveFloat

from tunekit.records.base import Record


class DdpSettings(Record):
    """Settings of torch's DistributedDataParallel; None leaves one as the script has it."""

    gradient_as_bucket_view: bool | None = None
    """Whether gradients are views into the buckets that are summed, which saves a copy of them."""
    static_graph: bool | None = None
    """Whether each step is said to use the same parameters in the same order."""
    bucket_cap_mb: PositiveFloat | None = None
    """Size of a bucket in MiB, from which on its gradients are summed."""
    sync_gradients: bool | None = None
    """False: after a few steps no gradient is summed any more, as under DDP's no_sync. What a step gains by
    it is the communication that its backward pass does not hide; the ranks train apart then."""

    def asked(self) -> dict[str, bool | float]:
        """Return the settings that are not left to the script, by name."""
        return self.model_dump(exclude_none=True)


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
    settings: DdpSettings | None
    """In force in the first DistributedDataParallel; None where there is none."""
    comm_hook: str | None = Field(default=None, max_length=200)
    """What takes the place of the plain sum, such as "fp16_compress_hook"; None for that."""


class RankSeen(Record):
    """One rank's loop by its own clock, within rank 0's steady window."""

    rank: NonNegativeInt
    samples_per_s: PositiveFloat
    batch_samples: PositiveFloat | None = None
    """Mean samples in its loop batches; None where they were not counted."""
    data_wait_share: float = Field(ge=0, le=1)
    """Of its time, what it spent inside its loader's next()."""
