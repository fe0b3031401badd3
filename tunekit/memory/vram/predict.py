"""What a step takes of a GPU's memory at any batch size, and the largest batch that fits. Pure."""

from dataclasses import dataclass

import numpy as np

from tunekit.memory.vram.allocator import CachingAllocator, OutOfDeviceMemory, rounded
from tunekit.memory.vram.trace import AllocationTrace, Purpose, between, in_order

_MOST_DOUBLINGS = 24
"""A batch of 16 million samples is no question of memory any more."""


@dataclass(frozen=True)
class PeakPredicted:
    """Device memory at the peak of the traced steps, in bytes; predicted."""

    batch_size: int
    allocated_bytes: int
    """torch.cuda.max_memory_allocated()."""
    reserved_bytes: int
    """torch.cuda.max_memory_reserved()."""
    by_purpose: dict[Purpose, int]
    """What allocated_bytes is spent on at that moment, but for rests of blocks that are too small to split
    off: gradients are nearly absent while activations peak."""
    retries: int
    """How often the allocator had to give back what it kept."""


class MemoryPrediction:
    """Device memory of one training step against batch size, by two traces of it.

    Args:
        first: of the steps at one batch size.
        second: of the same steps at another.
        is_expandable: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.

    Raises:
        TracesDiffer: they are not of the same steps.
    """

    def __init__(self, first: AllocationTrace, second: AllocationTrace, is_expandable: bool = False) -> None:
        self._first, self._second = in_order(first), in_order(second)
        self._is_expandable = is_expandable
        between(self._first, self._second, first.batch_size)

    def trace(self, batch_size: int) -> AllocationTrace:
        """Return the steps' allocations at a batch size."""
        return between(self._first, self._second, batch_size)

    def peak(self, batch_size: int, capacity_bytes: int | None = None) -> PeakPredicted:
        """Return what a batch size takes at its peak.

        Args:
            batch_size: samples in a batch.
            capacity_bytes: that torch can reserve on the device; None for as much as is asked for.

        Raises:
            OutOfDeviceMemory: it does not fit.
        """
        trace = self.trace(batch_size)
        allocator = replayed(trace, capacity_bytes, self._is_expandable)
        return PeakPredicted(
            batch_size=batch_size,
            allocated_bytes=allocator.peak_allocated_bytes,
            reserved_bytes=allocator.peak_reserved_bytes,
            by_purpose=budget_at_peak(trace),
            retries=allocator.retries,
        )

    def fits(self, batch_size: int, capacity_bytes: int) -> bool:
        """Return whether a batch size runs with so much memory."""
        try:
            replayed(self.trace(batch_size), capacity_bytes, self._is_expandable)
        except OutOfDeviceMemory:
            return False
        return True

    def largest_batch(self, capacity_bytes: int) -> int:
        """Return the largest batch size that runs with so much memory; 0 if not even one sample does."""
        if not self.fits(1, capacity_bytes):
            return 0
        fitting = 1
        for _ in range(_MOST_DOUBLINGS):
            if not self.fits(2 * fitting, capacity_bytes):
                break
            fitting *= 2
        too_large = 2 * fitting
        while too_large - fitting > 1:
            middle = (fitting + too_large) // 2
            if self.fits(middle, capacity_bytes):
                fitting = middle
            else:
                too_large = middle
        return fitting


def replayed(
    trace: AllocationTrace, capacity_bytes: int | None = None, is_expandable: bool = False
) -> CachingAllocator:
    """Return torch's allocator after a trace.

    Raises:
        OutOfDeviceMemory: it does not fit.
    """
    allocator = CachingAllocator(capacity_bytes, is_expandable)
    for block, size_bytes in zip(trace.blocks.tolist(), trace.sizes_bytes.tolist(), strict=True):
        if size_bytes < 0:
            allocator.free(block)
        else:
            allocator.allocate(block, size_bytes)
    return allocator


def budget_at_peak(trace: AllocationTrace) -> dict[Purpose, int]:
    """Return the bytes of each purpose at the moment when most is allocated, each block rounded up."""
    is_freed = trace.sizes_bytes < 0
    taken = np.zeros(len(trace.purposes), dtype=np.int64)
    taken[trace.blocks[~is_freed]] = [rounded(size) for size in trace.sizes_bytes[~is_freed].tolist()]
    changes = np.where(is_freed, -taken[trace.blocks], taken[trace.blocks])
    if not len(changes):
        return dict.fromkeys(Purpose, 0)
    until = int(np.argmax(np.cumsum(changes))) + 1
    places = {purpose: place for place, purpose in enumerate(Purpose)}
    of_block = np.array([places[purpose] for purpose in trace.purposes])
    sums = np.bincount(of_block[trace.blocks[:until]], weights=changes[:until], minlength=len(places))
    return {purpose: int(total) for purpose, total in zip(Purpose, sums, strict=True)}
