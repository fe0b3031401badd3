"""Simulates torch's caching allocator with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. Pure.

There is one segment for small and one for large blocks, each with more addresses than the device has memory.
Memory is mapped in pages of 2 MiB for small and 20 MiB for large blocks, at the lowest address where it has
room together with adjacent free blocks. Rests of 512 B or more are kept. A free block next to unmapped
addresses counts with their size, so that other blocks are used first. Under pressure, whole free pages are
unmapped.
"""

from bisect import bisect_left

from tunekit.predict.vram.allocator import (
    LARGE_SEGMENT_BYTES,
    ROUNDING_BYTES,
    SMALL_SEGMENT_BYTES,
    Block,
    CachingAllocator,
)

_ADDRESSES = 1 << 60
"""Size of a segment's address range: more than any device's memory."""


class ExpandableAllocator(CachingAllocator):
    """Torch's allocator on one device, with expandable segments.

    Args:
        capacity_bytes: memory that torch can reserve on the device; None for no limit.
    """

    def __init__(self, capacity_bytes: int | None = None) -> None:
        super().__init__(capacity_bytes)
        self._unmapped = {
            is_small: [Block(0, _ADDRESSES, is_small, is_mapped=False)] for is_small in (True, False)
        }
        """The unmapped blocks, sorted by address."""

    def _taken_from_cache(self, size: int, is_small: bool) -> Block | None:
        pool = self._free[is_small]
        place = bisect_left(pool, (size, -1))
        if place == len(pool):
            return None
        while place + 1 < len(pool) and _expanded_size(pool[place + 1][2]) < _expanded_size(pool[place][2]):
            place += 1
        return pool.pop(place)[2]

    def _is_worth_keeping(self, rest: int, is_small: bool) -> bool:
        return rest >= ROUNDING_BYTES

    def _grown(self, size: int, is_small: bool) -> Block | None:
        block = self._first_fit(size, is_small)
        if not block.is_mapped and not self._map(block, size):
            return None
        while block.size < size:
            after = block.after
            assert after is not None
            if not self._map(after, size - block.size):
                return None
            block = after
        self._forget(block)
        return block

    def _first_fit(self, size: int, is_small: bool) -> Block:
        """Return the first of a row of adjacent free or unmapped blocks that together are large enough."""
        for unmapped in self._unmapped[is_small]:
            before = unmapped.before
            first = before if before is not None and not before.is_used else unmapped
            row, room = first, first.size
            while room < size and row.after is not None and not row.after.is_used:
                row = row.after
                room += row.size
            if room >= size:
                return first
        raise AssertionError("the last block has more addresses than any device has memory")

    def _map(self, block: Block, size: int) -> bool:
        """Map memory to the beginning of a block, and merge it with adjacent free blocks."""
        page = _page_bytes(block.is_small)
        wanted = -(-min(size, block.size) // page) * page
        if not self._reserve(wanted):
            return False
        unmapped = self._unmapped[block.is_small]
        place = unmapped.index(block)
        if wanted < block.size:
            rest = self._cut(block, wanted)
            rest.is_mapped = False
            unmapped[place] = rest
        else:
            del unmapped[place]
        block.is_mapped = True
        self._join(block)
        self._keep(block)
        return True

    def _forget(self, block: Block) -> None:
        if block.is_mapped:
            super()._forget(block)
        else:
            self._unmapped[block.is_small].remove(block)

    def _release(self) -> None:
        for is_small, pool in self._free.items():
            for _, _, block in list(pool):
                self._unmap(block, _page_bytes(is_small))

    def _unmap(self, block: Block, page: int) -> None:
        """Unmap the whole pages of a free block."""
        begin = -(-block.address // page) * page
        end = (block.address + block.size) // page * page
        if begin >= end:
            return
        self._forget(block)
        self.reserved_bytes -= end - begin
        if end < block.address + block.size:
            self._keep(self._cut(block, end - block.address))
        if begin > block.address:
            pages = self._cut(block, begin - block.address)
            self._keep(block)
            block = pages
        block.is_mapped = False
        self._join(block)
        unmapped = self._unmapped[block.is_small]
        unmapped.append(block)
        unmapped.sort(key=lambda one: one.address)


def _expanded_size(block: Block) -> int:
    """Return the size that a free block can expand to."""
    after = block.after
    return block.size + (after.size if after is not None and not after.is_mapped else 0)


def _page_bytes(is_small: bool) -> int:
    return SMALL_SEGMENT_BYTES if is_small else LARGE_SEGMENT_BYTES
