"""Predicts a step's GPU memory at any batch size, and the largest batch that fits. Pure."""

import math
from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tunekit.predict.vram.allocator import ROUNDING_BYTES, CachingAllocator, OutOfDeviceMemory
from tunekit.predict.vram.expandable import ExpandableAllocator
from tunekit.predict.vram.trace import AllocationTrace, between, in_order
from tunekit.records.prediction import PeakShown, Purpose, StepTrace

_MAX_SAMPLES = 1 << 24
"""Maximum batch size to try: memory does not limit batches of 16 million samples."""
_TEMPORARY = -1
"""Allocation key of temporaries."""
_SINGLE_STEPS, _STEP = 100, 1.01
"""Batch sizes to try: every one up to the first number, then in steps of this factor."""


class MemoryPrediction:
    """Device memory of a training step as a function of the batch size, from two traces.

    Args:
        first: the steps at one batch size.
        second: the same steps at another size.
        is_expandable: whether PYTORCH_CUDA_ALLOC_CONF has expandable_segments:True.

    Raises:
        TracesDiffer: they are not of the same steps.
    """

    def __init__(self, first: AllocationTrace, second: AllocationTrace, is_expandable: bool = False) -> None:
        self._first, self._second = in_order(first), in_order(second)
        self._is_expandable = is_expandable
        between(self._first, self._second, first.batch_size)

    @classmethod
    def of(cls, first: StepTrace, second: StepTrace, is_expandable: bool = False) -> Self:
        """Return the prediction from steps traced at two batch sizes."""
        return cls(AllocationTrace.of(first), AllocationTrace.of(second), is_expandable)

    def trace(self, batch_size: int) -> AllocationTrace:
        """Return the steps' allocations at a batch size."""
        return between(self._first, self._second, batch_size)

    def peak(self, batch_size: int, capacity_bytes: int | None = None) -> PeakShown:
        """Return the peak memory of a batch size.

        Args:
            batch_size: samples in a batch.
            capacity_bytes: memory that torch can reserve on the device; None for no limit.

        Raises:
            OutOfDeviceMemory: it does not fit.
        """
        trace = self.trace(batch_size)
        allocator = replay(trace, capacity_bytes, self._is_expandable)
        return PeakShown(
            batch_size=batch_size,
            allocated_bytes=allocator.peak_allocated_bytes,
            reserved_bytes=allocator.peak_reserved_bytes,
            by_purpose=budget_at_peak(trace),
        )

    def fits(self, batch_size: int, capacity_bytes: int) -> bool:
        """Return whether a batch size runs with this much memory."""
        try:
            replay(self.trace(batch_size), capacity_bytes, self._is_expandable)
        except OutOfDeviceMemory:
            return False
        return True

    def largest_batch(self, capacity_bytes: int) -> int:
        """Return the largest batch size that runs with this much memory; 0 if not even one sample does.

        Near the limit, a smaller batch may fail to fit while a larger one fits, as segments are multiples of
        2 MiB. Batch sizes are tried from above in steps of 1%, so that more memory never results in a batch
        that is smaller by more than that.
        """
        most = _last(0, _MAX_SAMPLES + 1, lambda size: self._least_bytes(size) <= capacity_bytes)
        fitting, too_large = _step_at(most), most + 1
        while fitting and not self.fits(fitting, capacity_bytes):
            too_large, fitting = fitting, _step_at(fitting - 1)
        return _last(fitting, too_large, lambda size: self.fits(size, capacity_bytes))

    def _least_bytes(self, batch_size: int) -> int:
        """Return the sum of all blocks at the peak, which any allocator needs at least."""
        return int(np.cumsum(_changes(self.trace(batch_size))).max(initial=0))


def _step_at(size: int) -> int:
    """Return the largest size to try up to a batch size: all up to 100, then in steps of 1%."""
    if size <= _SINGLE_STEPS:
        return size
    place = int(math.log(size / _SINGLE_STEPS) / math.log(_STEP)) + 1
    while (step := int(_SINGLE_STEPS * _STEP**place)) > size:
        place -= 1
    return step


def _last(good: int, bad: int, is_good: Callable[[int], bool]) -> int:
    """Return the last good number between a good and a bad one, by bisection."""
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_good(middle):
            good = middle
        else:
            bad = middle
    return good


def replay(
    trace: AllocationTrace, capacity_bytes: int | None = None, is_expandable: bool = False
) -> CachingAllocator:
    """Replay a trace in a simulation of torch's allocator, and return it.

    Raises:
        OutOfDeviceMemory: it does not fit.
    """
    allocator = (ExpandableAllocator if is_expandable else CachingAllocator)(capacity_bytes)
    temporaries = trace.temporaries_bytes.tolist()
    for block, size_bytes in zip(trace.blocks.tolist(), trace.sizes_bytes.tolist(), strict=True):
        if size_bytes < 0:
            allocator.free(block)
            continue
        allocator.allocate(block, size_bytes)
        if temporaries[block]:
            allocator.allocate(_TEMPORARY, temporaries[block])
            allocator.free(_TEMPORARY)
    return allocator


def budget_at_peak(trace: AllocationTrace) -> dict[Purpose, int]:
    """Return the bytes of each purpose at the peak of allocated memory, each block rounded up."""
    changes = _changes(trace)
    if not len(changes):
        return dict.fromkeys(Purpose, 0)
    until = int(np.argmax(np.cumsum(changes))) + 1
    places = {purpose: place for place, purpose in enumerate(Purpose)}
    of_block = np.array([places[purpose] for purpose in trace.purposes])
    sums = np.bincount(of_block[trace.blocks[:until]], weights=changes[:until], minlength=len(places))
    return {purpose: int(total) for purpose, total in zip(Purpose, sums, strict=True)}


def _changes(trace: AllocationTrace) -> NDArray[np.int64]:
    """Return by how many bytes each event changes the allocated memory, each block rounded up."""
    is_freed = trace.sizes_bytes < 0
    sizes = -(-trace.sizes_bytes // ROUNDING_BYTES) * ROUNDING_BYTES
    taken = np.zeros(len(trace.purposes), dtype=np.int64)
    taken[trace.blocks[~is_freed]] = np.maximum(sizes[~is_freed], ROUNDING_BYTES)
    return np.where(is_freed, -taken[trace.blocks], taken[trace.blocks])
