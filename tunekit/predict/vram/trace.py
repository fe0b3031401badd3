"""Allocations of training steps in order, for any batch size, from two traced sizes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tunekit.records.prediction import PURPOSES, OpCost, Purpose, StepTrace

Ints = NDArray[np.int64]


class TracesDiffer(Exception):  # noqa: N818 - says what is the case
    """Two traces are not of the same steps, so nothing between them can be predicted."""


@dataclass(frozen=True)
class AllocationTrace:
    """Allocations and frees of the same few training steps, one entry per event in each array."""

    batch_size: int
    blocks: Ints
    """Number of the block, counted from 0 as blocks are allocated."""
    sizes_bytes: Ints
    """The requested size; -1 if the block is freed."""
    purposes: tuple[Purpose, ...]
    """The purpose of each block."""
    temporaries_bytes: Ints
    """For each block, the size of temporaries that were allocated right after it and freed again."""

    @classmethod
    def of(cls, steps: StepTrace) -> Self:
        """Return the allocations of traced steps."""
        return cls(
            batch_size=steps.batch_size,
            blocks=np.array(steps.blocks, dtype=np.int64),
            sizes_bytes=np.array(steps.sizes, dtype=np.int64),
            purposes=tuple(PURPOSES[place] for place in steps.purposes),
            temporaries_bytes=np.array(steps.temporaries or [0] * len(steps.purposes), dtype=np.int64),
        )


def in_order(trace: AllocationTrace) -> AllocationTrace:
    """Sort each run of consecutive frees by block.

    The order in which Python frees objects together is not reliable.
    """
    is_freed = trace.sizes_bytes < 0
    run = np.cumsum(np.concatenate([[True], is_freed[1:] != is_freed[:-1]])) if len(is_freed) else is_freed
    order = np.lexsort((np.where(is_freed, trace.blocks, np.arange(len(is_freed))), run))
    return replace(trace, blocks=trace.blocks[order], sizes_bytes=trace.sizes_bytes[order])


def between(first: AllocationTrace, second: AllocationTrace, batch_size: int) -> AllocationTrace:
    """Return the trace of another batch size: each block grows with the batch along a straight line.

    Args:
        first: the steps at one batch size.
        second: the same steps at another size; both with consecutive frees in order.
        batch_size: the wanted batch size.

    Raises:
        TracesDiffer: they are not of the same steps.
    """
    if first.batch_size == second.batch_size:
        raise TracesDiffer(f"both traces have batch size {first.batch_size}")
    is_freed = first.sizes_bytes < 0
    are_alike = np.array_equal(first.blocks, second.blocks) and first.purposes == second.purposes
    if not are_alike or not np.array_equal(is_freed, second.sizes_bytes < 0):
        raise TracesDiffer(
            f"the steps at batch sizes {first.batch_size} and {second.batch_size} allocate differently "
            f"({len(first.blocks)} and {len(second.blocks)} events)"
        )
    steps, wanted = second.batch_size - first.batch_size, batch_size - first.batch_size
    grown = (second.sizes_bytes - first.sizes_bytes) * wanted
    sizes = first.sizes_bytes - (-grown // steps)  # rounded up
    return AllocationTrace(
        batch_size,
        first.blocks,
        np.where(is_freed, -1, np.maximum(sizes, 0)),
        first.purposes,
        _temporaries(first, second, batch_size),
    )


def _temporaries(first: AllocationTrace, second: AllocationTrace, batch_size: int) -> Ints:
    """Interpolate the temporaries to another batch size, with at most the traced bytes per sample."""
    one, other = first.temporaries_bytes, second.temporaries_bytes
    share = (batch_size - first.batch_size) / (second.batch_size - first.batch_size)
    a_sample = np.maximum(one / first.batch_size, other / second.batch_size)
    most = np.maximum(np.maximum(one, other), a_sample * batch_size)
    return np.clip(np.ceil(one + share * (other - one)), 0, most).astype(np.int64)


def ops_between(first: StepTrace, second: StepTrace, batch_size: int) -> tuple[OpCost, ...]:
    """Return the ops of another batch size: each grows with the batch along a straight line.

    Raises:
        TracesDiffer: the two are not of the same steps.
    """
    if [op.name for op in first.ops] != [op.name for op in second.ops]:
        raise TracesDiffer(
            f"the steps at batch sizes {first.batch_size} and {second.batch_size} run other ops "
            f"({len(first.ops)} and {len(second.ops)})"
        )
    share = (batch_size - first.batch_size) / (second.batch_size - first.batch_size)
    return tuple(
        OpCost(
            name=one.name,
            dtype=one.dtype,
            flops=max(0.0, one.flops + share * (other.flops - one.flops)),
            moved_bytes=max(0.0, one.moved_bytes + share * (other.moved_bytes - one.moved_bytes)),
        )
        for one, other in zip(first.ops, second.ops, strict=True)
    )


def with_more(trace: AllocationTrace, sizes_bytes: Sequence[int], purpose: Purpose) -> AllocationTrace:
    """Return the trace with additional blocks that exist from the beginning to the end."""
    count = len(sizes_bytes)
    return AllocationTrace(
        batch_size=trace.batch_size,
        blocks=np.concatenate([np.arange(count, dtype=np.int64), trace.blocks + count]),
        sizes_bytes=np.concatenate([np.array(sizes_bytes, dtype=np.int64), trace.sizes_bytes]),
        purposes=(purpose,) * count + trace.purposes,
        temporaries_bytes=np.concatenate([np.zeros(count, dtype=np.int64), trace.temporaries_bytes]),
    )
