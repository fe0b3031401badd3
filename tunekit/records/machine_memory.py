"""The memory that a training needs on another machine."""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.config import Precision


class OtherMachine(Record):
    """A machine as the user describes it."""

    ram_limit_bytes: PositiveInt
    cpus: PositiveInt
    shm_bytes: PositiveInt | None = None
    """Size of /dev/shm; None if the user didn't give it."""
    profile_id: str | None = None
    """Profile id of its GPU; None without one."""

    @property
    def shm_free_bytes(self) -> int | None:
        """All of /dev/shm is assumed to be free."""
        return self.shm_bytes

    @property
    def shm_used_bytes(self) -> int | None:
        """Unknown for a machine that is only described."""
        return None


class LoaderMemory(Record):
    """Predicted RAM of one loader setting."""

    num_workers: NonNegativeInt
    prefetch_factor: PositiveInt | None
    """None without workers."""
    buffer_bytes: NonNegativeInt
    ram_bytes: NonNegativeInt
    """RAM of the buffer and the processes."""
    verdict: Literal["Safe", "Risky", "OOM"]
    limit: Literal["safe share of RAM", "RAM", "/dev/shm"] | None
    why: str | None
    is_present: bool
    """Whether this is the run's own setting."""


class MemoryPart(Record):
    """One part of the RAM or of the GPU memory."""

    memory: str
    """RAM or GPU."""
    name: str
    size_bytes: int | None
    """None if unknown; negative if the other parts exceed the memory."""
    basis: str
    """Measured, predicted, assumed, unknown, or the remainder after the other parts."""


class GpuFit(Record):
    """Prediction whether a batch fits the GPU."""

    precision: Precision
    batch_size: PositiveInt
    fits: Literal["yes", "tight", "no"]
    """"yes" if it fits with the margin; "tight" if only the best case fits."""
    largest_batch: NonNegativeInt
    """The largest batch that fits with the margin."""
    largest_checkpointed: NonNegativeInt | None
    """The same with gradient checkpointing; None if that wasn't traced."""
    peak_batch_size: PositiveInt
    """The batch size that the memory parts refer to; a run without its trials' files only has the largest."""
    reserved_bytes: NonNegativeInt
    capacity_bytes: PositiveInt


class MachineMemory(Record):
    """RAM and GPU memory that a training needs on another machine."""

    schema_version: Literal[1] = SCHEMA_VERSION
    machine: OtherMachine
    source: str
    batch_bytes: float = Field(gt=0)
    """Size of one batch while it waits in the loader."""
    loader: LoaderMemory
    """The loader setting that the table of parts shows."""
    loaders: tuple[LoaderMemory, ...]
    """All loader settings of the grid."""
    gpu: GpuFit | None = None
    parts: tuple[MemoryPart, ...]
    """The parts of RAM and of GPU memory; each set adds up to its total."""
    notes: tuple[str, ...] = ()
