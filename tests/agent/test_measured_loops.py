"""What a trial tells of loops whose truth is known: epochs, partial batches, queues, recompiles."""

import math
from dataclasses import replace

import pytest
from _tunekit_agent.measure.steady import FINISHED
from hypothesis import given
from hypothesis import strategies as st
from simulated_loops import BATCH, Loop, Simulation, always, epoch_s, step_s

WINDOW_S = 5.0
TRUE_BATCHES = 800
TRIAL_S = 300.0
"""What a trial may take by default."""


@st.composite
def loops(draw: st.DrawFn, slowest_ms: int) -> Loop:
    """Loops of even batches, but for each epoch's last and those in which graphs are captured."""
    workers = draw(st.sampled_from([0, 1, 2, 4, 8]))
    epoch_batches = draw(st.integers(max(8, 2 * workers), 400) | st.just(100_000))
    seconds = st.integers(5, slowest_ms).map(lambda ms: ms / 1000)
    captured = st.sampled_from([1, 5, 40, epoch_batches - 1])
    return Loop(
        compute_s=always(draw(seconds)),
        load_s=always(draw(seconds) * max(1, workers)),
        workers=workers,
        prefetch=draw(st.integers(1, 4)),
        epoch_batches=epoch_batches,
        start_s=draw(st.sampled_from([0.0, 0.5, 5.0])),
        stop_s=draw(st.sampled_from([0.0, 0.3])),
        device_s=draw(st.none() | seconds.map(always)),
        ahead=draw(st.sampled_from([1, 3, 20])),
        captures=draw(st.dictionaries(captured, st.floats(1.0, 40.0), max_size=2)),
        last_samples=draw(st.integers(1, BATCH)),
        validates_s=draw(st.sampled_from([0.0, 3.0])),
    )


@given(loop=loops(slowest_ms=500), learning=st.integers(3, 8))
def test_steady_steps_and_boundaries_make_up_the_wall_time(loop: Loop, learning: int) -> None:
    """Within the interval, and what one or two batches take that may be hidden behind others."""
    clock = Simulation(loop).measure(WINDOW_S, learning=learning)
    assert clock.phase == FINISHED
    assert clock.interval is not None
    assert clock.whole_epoch[1] in (None, loop.epoch_batches)
    plain = Simulation(replace(loop, captures={}))
    few = 2 / clock.steady.batches + 2 / TRUE_BATCHES
    if loop.epoch_batches > TRUE_BATCHES:
        estimated_s, truth_s = step_s(clock), plain.step_time_s(TRUE_BATCHES)
    else:
        estimated_s = epoch_s(clock, loop)
        truth_s = plain.epoch_time_s(1 + TRUE_BATCHES // loop.epoch_batches)
        few += (2 * step_s(clock) + _lead_s(loop)) / truth_s
    assert abs(truth_s - estimated_s) <= (clock.interval + few) * max(estimated_s, truth_s)


def _lead_s(loop: Loop) -> float:
    """What the host may be ahead of its device by: a trial's waits for the device leave it less to hide."""
    device_s = loop.device_s(None) if loop.device_s is not None else 0.0
    return min(loop.ahead, loop.epoch_batches) * max(0.0, device_s - loop.compute_s(None))


@given(loop=loops(slowest_ms=4000), learning=st.integers(3, 8), sees_all=st.booleans())
def test_no_measurement_is_lost_to_the_trials_limit(loop: Loop, learning: int, sees_all: bool) -> None:
    trial_s = TRIAL_S + math.fsum(loop.captures.values())
    clock = Simulation(loop).measure(WINDOW_S, learning=learning, sees_all=sees_all, trial_s=trial_s)
    assert clock.stop_reason is not None


@pytest.mark.parametrize("sees_all", [False, True])
def test_steps_of_four_seconds_with_a_deep_queue_are_measured_in_good_time(sees_all: bool) -> None:
    slow = Loop(always(4.0), always(16.0), workers=8, prefetch=4, start_s=5.0, stop_s=0.5)
    simulation = Simulation(slow)
    clock = simulation.measure(WINDOW_S, learning=3, sees_all=sees_all, can_force=not sees_all)
    assert step_s(clock) == pytest.approx(4.0)
    assert simulation.now < (180 if sees_all else 150)
    assert clock.boundary_s == (None if sees_all else pytest.approx(5.5 + 16.0))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("epoch_batches", [1, 2, 3])
def test_epochs_of_a_few_batches_are_measured_with_all_that_an_epoch_takes(
    epoch_batches: int, workers: int
) -> None:
    short = Loop(
        always(0.02), always(0.01), workers, epoch_batches=epoch_batches, start_s=0.1 * workers, stop_s=0.02
    )
    clock = Simulation(short).measure(WINDOW_S, learning=1)
    assert clock.phase == FINISHED
    assert epoch_s(clock, short) == pytest.approx(Simulation(short).epoch_time_s(50), rel=0.02)
