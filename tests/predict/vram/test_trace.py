"""Traces of two batch sizes become the trace of any other."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.vram.predict import MemoryPrediction, budget_at_peak, replay
from tunekit.predict.vram.trace import AllocationTrace, TracesDiffer, between, in_order
from tunekit.records.prediction import Purpose
from tunekit.units import GIB, MIB


def trace(batch_size: int, events, purposes=None) -> AllocationTrace:
    """Events as (block, fixed bytes, bytes per sample); fixed bytes of -1 are a free."""
    blocks = np.array([block for block, _, _ in events], dtype=np.int64)
    sizes = [-1 if fixed < 0 else fixed + each * batch_size for _, fixed, each in events]
    count = int(blocks.max()) + 1 if len(blocks) else 0
    return AllocationTrace(
        batch_size,
        blocks,
        np.array(sizes, dtype=np.int64),
        tuple(purposes or [Purpose.ACTIVATIONS] * count),
        np.zeros(count, dtype=np.int64),
    )


@st.composite
def steps(draw: st.DrawFn):
    """What a step allocates and frees, whatever its batch size."""
    events, alive = [], []
    for block in range(draw(st.integers(1, 30))):
        events.append((block, draw(st.integers(0, 3 * MIB)), draw(st.integers(0, 200_000))))
        alive.append(block)
        while alive and draw(st.booleans()):
            events.append((alive.pop(draw(st.integers(0, len(alive) - 1))), -1, 0))
    return events


@given(events=steps(), sizes=st.lists(st.integers(1, 600), min_size=3, max_size=3, unique=True))
def test_between_two_batch_sizes_is_exactly_what_a_third_would_trace(events, sizes):
    first, second, third = (in_order(trace(size, events)) for size in sizes)
    found = between(first, second, sizes[2])
    assert np.array_equal(found.sizes_bytes, third.sizes_bytes)
    assert np.array_equal(found.blocks, third.blocks)
    assert replay(found).peak_reserved_bytes == replay(third).peak_reserved_bytes


@given(events=steps(), data=st.data())
def test_the_order_of_frees_that_follow_one_another_does_not_matter(events, data):
    runs, shuffled = [], []
    for event in events:
        if runs and (event[1] < 0) == (runs[-1][-1][1] < 0) and event[1] < 0:
            runs[-1].append(event)
        else:
            runs.append([event])
    for run in runs:
        shuffled += data.draw(st.permutations(run))
    one, other = in_order(trace(8, events)), in_order(trace(8, shuffled))
    assert np.array_equal(one.blocks, other.blocks)
    assert np.array_equal(one.sizes_bytes, other.sizes_bytes)


def test_traces_of_other_steps_are_told_apart():
    one = trace(8, [(0, 100, 1), (0, -1, 0)])
    with pytest.raises(TracesDiffer, match="batch sizes 8 and 24"):
        between(one, trace(24, [(0, 100, 1), (1, 100, 1), (0, -1, 0)]), 16)
    with pytest.raises(TracesDiffer, match="both traces have batch size 8"):
        between(one, one, 16)


def test_the_budget_is_of_the_moment_of_the_peak():
    events = [(0, 1024, 0), (1, 0, 4096), (1, -1, 0), (2, 512, 0)]
    of_step = trace(2, events, [Purpose.PARAMETERS, Purpose.ACTIVATIONS, Purpose.GRADIENTS])
    budget = budget_at_peak(of_step)
    assert budget[Purpose.PARAMETERS] == 1024
    assert budget[Purpose.ACTIVATIONS] == 8192
    assert budget[Purpose.GRADIENTS] == 0
    assert sum(budget.values()) == replay(of_step).peak_allocated_bytes


@given(events=steps(), capacity=st.integers(2 * MIB, 400 * MIB))
def test_the_largest_batch_fits_and_one_more_does_not(events, capacity: int):
    prediction = MemoryPrediction(trace(8, events), trace(24, events))
    largest = prediction.largest_batch(capacity)
    if largest:
        assert prediction.fits(largest, capacity)
        assert prediction.peak(largest, capacity).reserved_bytes <= capacity
    if largest < 2**24:
        assert not prediction.fits(largest + 1, capacity)


@given(events=steps(), capacity=st.integers(2 * MIB, 4 * GIB), more=st.integers(0, 200 * MIB))
def test_more_memory_never_means_a_smaller_batch(events, capacity: int, more: int):
    """But for the steps of 1% that it is looked for in."""
    prediction = MemoryPrediction(trace(8, events), trace(24, events))
    assert prediction.largest_batch(capacity + more) >= 0.98 * prediction.largest_batch(capacity)


def test_what_comes_and_goes_right_after_a_block_counts_at_the_peak() -> None:
    events = [(0, MIB, MIB), (0, -1, 0), (1, MIB, 0)]
    first, second = (
        replace(trace(size, events), temporaries_bytes=np.array([size * 4 * MIB, 0])) for size in (2, 4)
    )
    prediction = MemoryPrediction(first, second)
    assert prediction.peak(8).allocated_bytes == (1 + 8 + 8 * 4) * MIB
