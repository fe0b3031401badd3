"""What torch's caching allocator reserves for a sequence of allocations. Pure.

After c10/cuda/CUDACachingAllocator.cpp of torch 2.13, for one stream and default settings: sizes are rounded
up to 512 B. Up to 1 MiB they come out of segments of 2 MiB, up to 10 MiB out of segments of 20 MiB, and above
that out of segments of their own, rounded up to 2 MiB. The smallest free block that is large enough is taken,
and split where what remains is worth keeping. Blocks that are free beside each other become one again, within
their segment. When the device has no more, segments that are wholly free are given back, and it is asked once
more.

With expandable segments there is one segment for small and one for large blocks; it grows at its end, by
pages of 2 MiB for small ones and 20 MiB for large ones, and whole free pages go back under pressure.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass

from tunekit.units import MIB

ROUNDING_BYTES = 512
_SMALL_BYTES = 1 * MIB
_SMALL_SEGMENT_BYTES = 2 * MIB
_LARGE_SEGMENT_BYTES = 20 * MIB
_LEAST_OWN_SEGMENT_BYTES = 10 * MIB
_OWN_SEGMENT_ROUNDING_BYTES = 2 * MIB


class OutOfDeviceMemory(Exception):  # noqa: N818 - the name that torch's users know
    """The device has no room for a segment, even after what was cached is given back."""


def rounded(size_bytes: int) -> int:
    """Return what the allocator makes of a size: a multiple of 512 B, and at least that."""
    return max(ROUNDING_BYTES, -(-size_bytes // ROUNDING_BYTES) * ROUNDING_BYTES)


@dataclass(eq=False, slots=True)
class _Block:
    """A part of a segment; its neighbours are those of the same segment."""

    number: int
    size: int
    is_small: bool
    is_used: bool = False
    before: "_Block | None" = None
    after: "_Block | None" = None

    @property
    def is_whole_segment(self) -> bool:
        return self.before is None and self.after is None


class CachingAllocator:
    """Torch's allocator on one device.

    Args:
        capacity_bytes: that torch can reserve on the device; None for as much as is asked for.
        is_expandable: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.

    Attributes:
        allocated_bytes: in use, as torch.cuda.memory_allocated() has it.
        reserved_bytes: of all segments, as torch.cuda.memory_reserved() has it.
        peak_allocated_bytes: the most that was in use.
        peak_reserved_bytes: the most that was reserved.
        retries: how often cached segments were given back to make room: num_alloc_retries.
    """

    def __init__(self, capacity_bytes: int | None = None, is_expandable: bool = False) -> None:
        self._capacity = capacity_bytes
        self._is_expandable = is_expandable
        self._free: dict[bool, list[tuple[int, int, _Block]]] = {True: [], False: []}
        self._used: dict[int, _Block] = {}
        self._last: dict[bool, _Block | None] = {True: None, False: None}
        self._blocks = 0
        self.allocated_bytes = self.reserved_bytes = 0
        self.peak_allocated_bytes = self.peak_reserved_bytes = 0
        self.retries = 0

    def allocate(self, key: int, size_bytes: int) -> None:
        """Take a block.

        Args:
            key: by which it is freed.
            size_bytes: as asked for.

        Raises:
            OutOfDeviceMemory: there is no room for it.
        """
        size = rounded(size_bytes)
        is_small = size <= _SMALL_BYTES
        block = self._taken_from_cache(size, is_small) or self._new_block(size, is_small)
        self._split(block, size)
        block.is_used = True
        self._used[key] = block
        self.allocated_bytes += block.size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)

    def free(self, key: int) -> None:
        """Give a block back to the cache."""
        block = self._used.pop(key)
        self.allocated_bytes -= block.size
        block.is_used = False
        for neighbour in (block.before, block.after):
            if neighbour is not None and not neighbour.is_used:
                self._forget(neighbour)
                self._merge(block, neighbour)
        self._keep(block)

    # --- blocks ----------------------------------------------------------------------------

    def _taken_from_cache(self, size: int, is_small: bool) -> _Block | None:
        """Return the smallest free block that is large enough; None without one."""
        pool = self._free[is_small]
        place = bisect_left(pool, (size, 0))
        return pool.pop(place)[2] if place < len(pool) else None

    def _split(self, block: _Block, size: int) -> None:
        rest = block.size - size
        is_worth_it = rest >= ROUNDING_BYTES if block.is_small else rest > _SMALL_BYTES
        if not is_worth_it:
            return
        block.size = size
        remaining = self._made(rest, block.is_small)
        remaining.before, remaining.after = block, block.after
        if block.after is not None:
            block.after.before = remaining
        block.after = remaining
        if self._last[block.is_small] is block:
            self._last[block.is_small] = remaining
        self._keep(remaining)

    def _merge(self, block: _Block, other: _Block) -> None:
        """Make a block's neighbour part of it."""
        block.size += other.size
        if other is block.before:
            block.before = other.before
            if other.before is not None:
                other.before.after = block
        else:
            block.after = other.after
            if other.after is not None:
                other.after.before = block
        if self._last[block.is_small] is other:
            self._last[block.is_small] = block

    def _made(self, size: int, is_small: bool) -> _Block:
        self._blocks += 1
        return _Block(self._blocks, size, is_small)

    def _keep(self, block: _Block) -> None:
        insort(self._free[block.is_small], (block.size, block.number, block))

    def _forget(self, block: _Block) -> None:
        pool = self._free[block.is_small]
        del pool[bisect_left(pool, (block.size, block.number))]

    # --- segments --------------------------------------------------------------------------

    def _new_block(self, size: int, is_small: bool) -> _Block:
        """Return a free block from new memory of the device.

        Raises:
            OutOfDeviceMemory: there is none.
        """
        wanted = self._wanted(size, is_small)
        if not self._has_room(wanted):
            self.retries += 1
            self._release()
            wanted = self._wanted(size, is_small)
            if not self._has_room(wanted):
                raise OutOfDeviceMemory(
                    f"{wanted:,} B more than the {self.reserved_bytes:,} B reserved of {self._capacity:,} B"
                )
        self.reserved_bytes += wanted
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        block = self._made(wanted, is_small)
        return self._appended(block) if self._is_expandable else block

    def _wanted(self, size: int, is_small: bool) -> int:
        """Return the bytes to ask of the device for a block."""
        if self._is_expandable:
            page = _SMALL_SEGMENT_BYTES if is_small else _LARGE_SEGMENT_BYTES
            last = self._last[is_small]
            at_hand = last.size if last is not None and not last.is_used else 0
            return -(-(size - at_hand) // page) * page
        if is_small:
            return _SMALL_SEGMENT_BYTES
        if size < _LEAST_OWN_SEGMENT_BYTES:
            return _LARGE_SEGMENT_BYTES
        return -(-size // _OWN_SEGMENT_ROUNDING_BYTES) * _OWN_SEGMENT_ROUNDING_BYTES

    def _has_room(self, wanted: int) -> bool:
        return self._capacity is None or self.reserved_bytes + wanted <= self._capacity

    def _appended(self, block: _Block) -> _Block:
        """Return the pages with what is free before them, as the end of the expandable segment."""
        last = self._last[block.is_small]
        if last is not None:
            block.before, last.after = last, block
            if not last.is_used:
                self._forget(last)
                self._merge(block, last)
        self._last[block.is_small] = block
        return block

    def _release(self) -> None:
        """Give back to the device whatever is wholly free."""
        for is_small, pool in self._free.items():
            if self._is_expandable:
                self._release_pages(is_small)
                continue
            self.reserved_bytes -= sum(block.size for _, _, block in pool if block.is_whole_segment)
            self._free[is_small] = [entry for entry in pool if not entry[2].is_whole_segment]

    def _release_pages(self, is_small: bool) -> None:
        """Unmap the whole pages of free blocks; where a block begins within its first page is not known."""
        page = _SMALL_SEGMENT_BYTES if is_small else _LARGE_SEGMENT_BYTES
        kept = []
        for _, _, block in self._free[is_small]:
            pages = block.size // page
            block.size -= pages * page
            self.reserved_bytes -= pages * page
            if block.size:
                kept.append((block.size, block.number, block))
            else:
                self._unlink(block)
        self._free[is_small] = sorted(kept, key=lambda entry: entry[:2])

    def _unlink(self, block: _Block) -> None:
        """Take a block of no size out of its segment."""
        if block.before is not None:
            block.before.after = block.after
        if block.after is not None:
            block.after.before = block.before
        if self._last[block.is_small] is block:
            self._last[block.is_small] = block.before
