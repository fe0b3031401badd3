"""Simulates what torch's caching allocator reserves for a sequence of allocations. Pure.

It follows c10/cuda/CUDACachingAllocator.cpp of torch 2.13, for one stream and default settings: sizes are
rounded up to 512 B. Blocks up to 1 MiB come from segments of 2 MiB, blocks up to 10 MiB from segments of
20 MiB, and larger ones get separate segments, rounded up to 2 MiB. The smallest free block that is large
enough is used, at the lowest address if there are several, and split if the rest is worth keeping. Adjacent
free blocks of a segment are merged. When the device has no memory left, entirely free segments are released,
and the allocation is retried.

`expandable` simulates expandable segments.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass

from tunekit.units import MIB

ROUNDING_BYTES = 512
SMALL_BYTES = 1 * MIB
SMALL_SEGMENT_BYTES = 2 * MIB
LARGE_SEGMENT_BYTES = 20 * MIB
_MIN_OWN_SEGMENT_BYTES = 10 * MIB
_OWN_SEGMENT_ROUNDING_BYTES = 2 * MIB


class OutOfDeviceMemory(Exception):  # noqa: N818 - the name that torch's users know
    """The device has no room for a segment, even after cached segments are released."""


def rounded(size_bytes: int) -> int:
    """Return the size rounded up as the allocator does it: to a multiple of 512 B, at least one."""
    return max(ROUNDING_BYTES, -(-size_bytes // ROUNDING_BYTES) * ROUNDING_BYTES)


@dataclass(eq=False, slots=True)
class Block:
    """A part of a segment, linked to its neighbours in that segment."""

    address: int
    size: int
    is_small: bool
    is_used: bool = False
    is_mapped: bool = True
    """Whether memory is mapped to it; always True except in expandable segments."""
    before: "Block | None" = None
    after: "Block | None" = None

    @property
    def is_whole_segment(self) -> bool:
        """Whether it is the only block in its segment."""
        return self.before is None and self.after is None


class CachingAllocator:
    """Torch's allocator on one device.

    Args:
        capacity_bytes: memory that torch can reserve on the device; None for no limit.

    Attributes:
        allocated_bytes: size of the blocks in use, like torch.cuda.memory_allocated().
        reserved_bytes: size of all segments, like torch.cuda.memory_reserved().
        peak_allocated_bytes: the maximum of allocated_bytes.
        peak_reserved_bytes: the maximum of reserved_bytes.
        retries: how often cached segments were released to make room, like num_alloc_retries.
    """

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self._capacity = capacity_bytes
        self._free: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}
        self._used: dict[int, Block] = {}
        self._next_address = 0
        self.allocated_bytes = self.reserved_bytes = 0
        self.peak_allocated_bytes = self.peak_reserved_bytes = 0
        self.retries = 0

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in use or cached."""
        return [*self._used.values(), *[block for pool in self._free.values() for _, _, block in pool]]

    def allocate(self, key: int, size_bytes: int) -> None:
        """Allocate a block.

        Args:
            key: identifies the block for `free`.
            size_bytes: the requested size.

        Raises:
            OutOfDeviceMemory: there is no room for it.
        """
        size = rounded(size_bytes)
        is_small = size <= SMALL_BYTES
        block = self._taken_from_cache(size, is_small) or self._new_block(size, is_small)
        rest = block.size - size
        if rest and self._is_worth_keeping(rest, is_small):
            self._keep(self._cut(block, size))
        block.is_used = True
        self._used[key] = block
        self.allocated_bytes += block.size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)

    def free(self, key: int) -> None:
        """Return a block to the cache."""
        block = self._used.pop(key)
        self.allocated_bytes -= block.size
        block.is_used = False
        self._join(block)
        self._keep(block)

    # --- blocks ----------------------------------------------------------------------------

    def _taken_from_cache(self, size: int, is_small: bool) -> Block | None:
        """Take the smallest free block that is large enough; None if there is none."""
        pool = self._free[is_small]
        place = bisect_left(pool, (size, -1))
        return pool.pop(place)[2] if place < len(pool) else None

    def _is_worth_keeping(self, rest: int, is_small: bool) -> bool:
        return rest >= ROUNDING_BYTES if is_small else rest > SMALL_BYTES

    def _cut(self, block: Block, size: int) -> Block:
        """Shrink a block to a size and return the rest as a new block."""
        rest = Block(block.address + size, block.size - size, block.is_small)
        rest.before, rest.after = block, block.after
        if block.after is not None:
            block.after.before = rest
        block.size, block.after = size, rest
        return rest

    def _join(self, block: Block) -> None:
        """Merge a block with its free neighbours."""
        before, after = block.before, block.after
        if before is not None and not before.is_used and before.is_mapped is block.is_mapped:
            self._forget(before)
            block.address, block.size, block.before = before.address, before.size + block.size, before.before
            if block.before is not None:
                block.before.after = block
        if after is not None and not after.is_used and after.is_mapped is block.is_mapped:
            self._forget(after)
            block.size, block.after = block.size + after.size, after.after
            if block.after is not None:
                block.after.before = block

    def _keep(self, block: Block) -> None:
        insort(self._free[block.is_small], (block.size, block.address, block))

    def _forget(self, block: Block) -> None:
        pool = self._free[block.is_small]
        del pool[bisect_left(pool, (block.size, block.address))]

    # --- segments --------------------------------------------------------------------------

    def _new_block(self, size: int, is_small: bool) -> Block:
        """Return a block of new device memory, which is not in a pool yet.

        Raises:
            OutOfDeviceMemory: the device has none left.
        """
        block = self._grown(size, is_small)
        if block is None:
            self.retries += 1
            self._release()
            block = self._grown(size, is_small)
        if block is None:
            raise OutOfDeviceMemory(
                f"{size:,} B more than the {self.reserved_bytes:,} B reserved of {self._capacity:,} B"
            )
        return block

    def _grown(self, size: int, is_small: bool) -> Block | None:
        """Return a block of new memory; None if the device has no room for it."""
        wanted = _segment_bytes(size, is_small)
        if not self._reserve(wanted):
            return None
        self._next_address += wanted
        return Block(self._next_address - wanted, wanted, is_small)

    def _reserve(self, wanted: int) -> bool:
        """Reserve device memory; return whether there was room."""
        if self._capacity is not None and self.reserved_bytes + wanted > self._capacity:
            return False
        self.reserved_bytes += wanted
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        return True

    def _release(self) -> None:
        """Release all entirely free segments to the device."""
        for is_small, pool in self._free.items():
            self.reserved_bytes -= sum(block.size for _, _, block in pool if block.is_whole_segment)
            self._free[is_small] = [entry for entry in pool if not entry[2].is_whole_segment]


def _segment_bytes(size: int, is_small: bool) -> int:
    """Return the size of the segment to request from the device for a block."""
    if is_small:
        return SMALL_SEGMENT_BYTES
    if size < _MIN_OWN_SEGMENT_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-size // _OWN_SEGMENT_ROUNDING_BYTES) * _OWN_SEGMENT_ROUNDING_BYTES
