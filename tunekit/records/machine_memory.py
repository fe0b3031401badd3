"""The memory that a training takes on another machine."""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.config import Precision


class OtherMachine(Record):
    """A machine as the user describes it."""

    ram_limit_bytes: PositiveInt
    cpus: PositiveInt
    shm_bytes: PositiveInt | None = None
    """Size of /dev/shm; None where the user did not give it."""
    profile_id: str | None = None
    """Its GPU; None without one."""

    @property
    def shm_free_bytes(self) -> int | None:
        """All of /dev/shm."""
        return self.shm_bytes

    @property
    def shm_used_bytes(self) -> int | None:
        """None of it is known to be in use."""
        return None


class LoaderMemory(Record):
    """RAM of one setting of the loader, predicted."""

    num_workers: NonNegativeInt
    prefetch_factor: PositiveInt | None
    """None without workers."""
    buffer_bytes: NonNegativeInt
    ram_bytes: NonNegativeInt
    """The buffer and the processes."""
    verdict: Literal["Safe", "Risky", "OOM"]
    limit: Literal["safe share of RAM", "RAM", "/dev/shm"] | None
    why: str | None
    is_present: bool
    """Whether it is the run's own setting."""


class MemoryPart(Record):
    """One part of the RAM or of the GPU's memory."""

    memory: str
    """RAM or GPU."""
    name: str
    size_bytes: int | None
    """None where it is unknown; negative where the other parts exceed the memory."""
    basis: str
    """Measured, predicted, assumed, unknown, or the rest that the other parts leave."""


class GpuFit(Record):
    """Whether a batch fits the GPU, predicted."""

    precision: Precision
    batch_size: PositiveInt
    fits: Literal["yes", "tight", "no"]
    """Yes with the margin; tight where only the best case fits."""
    largest_batch: NonNegativeInt
    """The largest that fits with the margin."""
    largest_checkpointed: NonNegativeInt | None
    """The same with gradient checkpointing; None where that was not traced."""
    peak_batch_size: PositiveInt
    """The batch size of the memory parts; a run without its trials' files only has the largest."""
    reserved_bytes: NonNegativeInt
    capacity_bytes: PositiveInt


class MachineMemory(Record):
    """What a training takes of another machine's RAM and GPU memory."""

    schema_version: Literal[1] = SCHEMA_VERSION
    machine: OtherMachine
    source: str
    batch_bytes: float = Field(gt=0)
    """One batch while it waits in the loader."""
    loader: LoaderMemory
    """The setting in the table of parts."""
    loaders: tuple[LoaderMemory, ...]
    """All settings of the grid."""
    gpu: GpuFit | None = None
    parts: tuple[MemoryPart, ...]
    """The parts of each memory add up to all of it."""
    notes: tuple[str, ...] = ()
