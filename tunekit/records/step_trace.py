"""What steps of a training allocate and compute, op by op."""

from enum import StrEnum
from typing import NamedTuple, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from tunekit.records.base import Record


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
