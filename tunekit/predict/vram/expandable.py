"""What torch's caching allocator reserves with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. Pure.

There is one segment for small and one for large blocks, of more addresses than the device has memory.
Memory comes behind them by pages of 2 MiB for small ones and 20 MiB for large ones: at the lowest address
where, with what is free beside it, there is room. Every rest of 512 B is kept. A free block that borders on
addresses without memory counts as large as both, so that others are taken first. Under pressure whole free
pages go back.
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
"""Of a segment: no device has so many."""


class ExpandableAllocator(CachingAllocator):
    """Torch's allocator on one device, with expandable segments.

    Args:
        capacity_bytes: that torch can reserve on the device; None for as much as is asked for.
    """

    def __init__(self, capacity_bytes: int | None = None) -> None:
        super().__init__(capacity_bytes)
        self._unmapped = {
            is_small: [Block(0, _ADDRESSES, is_small, is_mapped=False)] for is_small in (True, False)
        }
        """Without memory behind them, by address."""

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
        """Return the first block of a row, free or without memory, that is large enough."""
        for unmapped in self._unmapped[is_small]:
            before = unmapped.before
            first = before if before is not None and not before.is_used else unmapped
            row, room = first, first.size
            while room < size and row.after is not None and not row.after.is_used:
                row = row.after
                room += row.size
            if room >= size:
                return first
        raise AssertionError("the last has more addresses than any device has memory")

    def _map(self, block: Block, size: int) -> bool:
        """Put memory behind the beginning of a block, and make it one with what is free beside it."""
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
        """Give back the whole pages of a free block."""
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
