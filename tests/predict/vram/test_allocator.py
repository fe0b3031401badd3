"""Torch's caching allocator, replayed: what must hold for any sequence of allocations."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.vram.allocator import CachingAllocator, OutOfDeviceMemory, rounded
from tunekit.predict.vram.expandable import ExpandableAllocator
from tunekit.units import KIB, MIB

sizes = st.one_of(st.integers(1, 4 * KIB), st.integers(1, 2 * MIB), st.integers(MIB, 60 * MIB))


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Allocations as (key, bytes), and frees as (key, -1), each of a block that is there."""
    events: list[tuple[int, int]] = []
    alive: list[int] = []
    for key in range(draw(st.integers(1, 40))):
        events.append((key, draw(sizes)))
        alive.append(key)
        while alive and draw(st.booleans()):
            events.append((alive.pop(draw(st.integers(0, len(alive) - 1))), -1))
    return events


def run(events, capacity_bytes: int | None = None, is_expandable: bool = False) -> CachingAllocator:
    allocator = (ExpandableAllocator if is_expandable else CachingAllocator)(capacity_bytes)
    for key, size in events:
        allocator.free(key) if size < 0 else allocator.allocate(key, size)
    return allocator


def segments(allocator: CachingAllocator) -> list[list]:
    """The blocks of each segment in order, from what is in use and what is free."""
    found = []
    for block in allocator.blocks:
        if block.before is None:
            row = [block]
            while row[-1].after is not None:
                assert row[-1].after.before is row[-1]
                assert row[-1].after.address == row[-1].address + row[-1].size
                row.append(row[-1].after)
            found.append([one for one in row if one.is_mapped])
    assert sorted(id(block) for row in found for block in row) == sorted(map(id, allocator.blocks))
    return found


@pytest.mark.parametrize("is_expandable", [False, True])
@given(events=histories())
def test_blocks_fill_their_segments_and_never_overlap(is_expandable: bool, events):
    allocator = run(events, is_expandable=is_expandable)
    rows = segments(allocator)
    assert sum(block.size for row in rows for block in row) == allocator.reserved_bytes
    for row in rows:
        assert not any(not one.is_used and not two.is_used for one, two in pairwise(row))
    used = [block for row in rows for block in row if block.is_used]
    assert allocator.allocated_bytes == sum(block.size for block in used)


@pytest.mark.parametrize("is_expandable", [False, True])
@given(events=histories())
def test_bytes_are_conserved(is_expandable: bool, events):
    allocator = run(events, is_expandable=is_expandable)
    alive = {key: size for key, size in events if size >= 0}
    for key, size in events:
        if size < 0:
            del alive[key]
    least = sum(map(rounded, alive.values()))
    assert least <= allocator.allocated_bytes <= allocator.reserved_bytes
    assert allocator.peak_allocated_bytes <= allocator.peak_reserved_bytes
    for key in list(alive):
        allocator.free(key)
    assert allocator.allocated_bytes == 0
    assert all(len(row) == 1 for row in segments(allocator)), "what is free beside each other is one block"


@pytest.mark.parametrize("is_expandable", [False, True])
@given(events=histories(), less=st.floats(0.2, 1.0))
def test_what_fits_in_little_fits_in_more(is_expandable: bool, events, less: float):
    free = run(events, is_expandable=is_expandable)
    assert run(events, capacity_bytes=free.peak_reserved_bytes, is_expandable=is_expandable).retries == 0
    little = int(less * free.peak_reserved_bytes)
    try:
        under = run(events, capacity_bytes=little, is_expandable=is_expandable)
    except OutOfDeviceMemory:
        return
    assert under.peak_reserved_bytes <= little
    assert under.peak_allocated_bytes >= free.peak_allocated_bytes - 40 * MIB
    run(events, capacity_bytes=free.peak_reserved_bytes + 1, is_expandable=is_expandable)


@pytest.mark.parametrize(
    ("size", "reserved"),
    [
        (1 * MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB),
    ],
)
def test_segments_are_of_the_size_that_torch_asks_for(size: int, reserved: int):
    assert run([(0, size)]).reserved_bytes == reserved


def test_the_smallest_free_block_is_taken_and_a_large_rest_is_kept():
    allocator = run([(0, 30 * MIB), (1, 14 * MIB), (0, -1), (1, -1), (2, 13 * MIB + 512)])
    assert allocator.reserved_bytes == 44 * MIB
    assert allocator.allocated_bytes == 14 * MIB, "a rest of less than a mebibyte is not split off"
    allocator.allocate(3, 12 * MIB)
    assert allocator.allocated_bytes == 26 * MIB
    allocator.allocate(4, 18 * MIB)
    assert allocator.reserved_bytes == 44 * MIB


def test_cached_segments_are_given_back_under_pressure():
    events = [(0, 30 * MIB), (0, -1), (1, 40 * MIB)]
    allocator = run(events, capacity_bytes=50 * MIB)
    assert (allocator.retries, allocator.reserved_bytes) == (1, 40 * MIB)
    with pytest.raises(OutOfDeviceMemory, match="reserved of"):
        run(events, capacity_bytes=39 * MIB)


def test_an_expandable_segment_grows_at_its_end():
    events = [(0, 30 * MIB), (0, -1), (1, 40 * MIB)]
    assert run(events, is_expandable=True).reserved_bytes == 40 * MIB
    assert run(events).reserved_bytes == 70 * MIB


def test_an_expandable_segment_keeps_every_rest_and_spares_its_end() -> None:
    allocator = run([(0, 3 * MIB), (1, 2 * MIB), (0, -1), (2, 3 * MIB - 512)], is_expandable=True)
    assert allocator.allocated_bytes == 5 * MIB - 512, "a rest of 512 B is split off"
    allocator.free(1)
    allocator.allocate(3, 512)
    assert allocator.reserved_bytes == 20 * MIB + 2 * MIB, "small blocks have a segment of their own"


def test_whole_free_pages_of_an_expandable_segment_go_back_and_are_filled_again() -> None:
    events = [(0, 40 * MIB), (1, 20 * MIB), (2, 20 * MIB), (0, -1), (3, 2 * MIB), (4, 60 * MIB)]
    allocator = run(events, capacity_bytes=139 * MIB, is_expandable=True)
    allocator._capacity = None
    assert allocator.retries == 1
    assert allocator.reserved_bytes == 120 * MIB, "60 MiB stay, and 60 come at the end"
    allocator.free(1)
    allocator.allocate(5, 50 * MIB)
    assert allocator.reserved_bytes == 140 * MIB, "the gap is filled, with what is free on both its sides"
