"""What a training takes of the memory of a machine that is not here, with where each figure comes from."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.config import Precision
from tunekit.records.profile import TakenName


class FigureBasis(StrEnum):
    """Where a figure of a budget comes from."""

    MEASURED = "measured"
    PREDICTED = "predicted"
    ASSUMED = "assumed"
    REST = "the rest"
    """What the other figures leave."""
    UNKNOWN = "not known"


class PlannedMachine(Record):
    """A machine as the user describes it."""

    ram_limit_bytes: PositiveInt
    cpus: PositiveInt
    gpus: PositiveInt = 1
    """And so training processes."""
    profile_id: str | None = None
    """Of its GPUs; None where none was named."""
    shm_bytes: None = None
    """What /dev/shm has there is not known."""
    shm_used_bytes: None = None
    shm_free_bytes: None = None

    @property
    def cpus_of_each(self) -> "PlannedMachine":
        """The same with the CPUs that each training process has."""
        return self.changed(cpus=max(1, self.cpus // self.gpus))


class BudgetRow(Record):
    """One part of a memory."""

    name: str
    size_bytes: int | None
    """None where it is not known, and counts as nothing; negative where more is taken than there is."""
    basis: FigureBasis
    source: str


class BufferCell(Record):
    """A loader's RAM buffer with some workers and prefetch factor: predicted."""

    num_workers: NonNegativeInt
    """Of one training process."""
    prefetch_factor: PositiveInt | None
    buffer_bytes: NonNegativeInt
    """Of all training processes of the machine."""
    ram_bytes: NonNegativeInt
    """The same with what its processes take."""
    verdict: Literal["Safe", "Risky", "OOM"]
    limit: Literal["safe share of RAM", "RAM", "/dev/shm"] | None
    why: str | None
    is_present: bool
    """Whether it is the run's own."""


class CheckpointedVram(Record):
    """The same with gradient checkpointing: predicted."""

    largest_batch: NonNegativeInt
    """That fits with the margin."""
    reserved_bytes: NonNegativeInt | None
    """By torch, for the same batch; None where only the largest one is known."""
    extra_flops: NonNegativeFloat | None
    """Share by which a step has more arithmetic, by the trace."""


class VramBudget(Record):
    """A GPU's memory at the peak of one batch size: predicted."""

    precision: Precision
    batch_size: PositiveInt
    fits: Literal["yes", "tight", "no"]
    """With the margin; within the bounds of what is known; not even at best."""
    largest_batch: NonNegativeInt
    """That fits with the margin."""
    reserved_bytes: NonNegativeInt
    """By torch, without the margin."""
    capacity_bytes: PositiveInt
    """What torch sees of the GPU."""
    rows: tuple[BudgetRow, ...]
    checkpointed: CheckpointedVram | None = None
    """None where nothing was traced with gradient checkpointing."""


class Accumulation(Record):
    """How a global batch is made of batches that fit."""

    global_batch: PositiveInt
    batch_size: PositiveInt
    """Samples of one forward and backward pass of one GPU."""
    steps: PositiveInt
    """Passes before each optimizer step."""
    gpus: PositiveInt
    limit: str
    """What the batch size was held against."""


class MachineBudget(Record):
    """RAM and device memory of a machine that is not here."""

    schema_version: Literal[1] = SCHEMA_VERSION
    machine: PlannedMachine
    source: str
    """What the figures of the training come from."""
    batch_size: PositiveInt | None = None
    """That is meant; the device memory may be known at another one only."""
    batch_bytes: float | None = Field(default=None, gt=0)
    """Of one batch of one GPU while it waits; None where it is not known."""
    cells: tuple[BufferCell, ...] = ()
    """Workers x prefetch of each training process, with the RAM of all; none where the batch is not known."""
    chosen: BufferCell | None = None
    """Whose buffer is in the budget."""
    ram: tuple[BudgetRow, ...]
    vram: VramBudget | None = None
    vram_needs: str | None = None
    """What would say the device memory, where it is not known."""
    taken_names: tuple[TakenName, ...] = ()
    """GPUs whose profile has another id than was typed."""
    accumulation: Accumulation | None = None
    unknown: tuple[str, ...] = ()
    """What could not be said, and what would say it."""
