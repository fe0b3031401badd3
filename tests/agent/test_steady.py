"""The window and the boundary, proved on loops whose clock, workers and device are simulated."""

import pytest
from _tunekit_agent.measure.host_times import CompileSettling
from _tunekit_agent.measure.steady import FINISHED, LoopClock, ramp_batches
from hypothesis import given
from hypothesis import strategies as st
from simulated_loops import Loop, Simulation, always, step_s

ENDLESS = 100_000


def loop(step_s: float, epoch_batches: int = ENDLESS, **more: object) -> Loop:
    """A loop whose batches all take the same time, and come for nothing unless said otherwise."""
    return Loop(
        **{"compute_s": always(step_s), "load_s": always(0.0), "epoch_batches": epoch_batches, **more}
    )


def measured(of: Loop, window_s: float = 5.0, **options: object) -> LoopClock:
    return Simulation(of).measure(window_s, **options)


def rate(clock: LoopClock) -> float:
    return clock.steady.samples / clock.steady.time_s


def test_a_steady_loop_gives_its_own_rate() -> None:
    clock = measured(loop(0.075, load_s=always(0.025)))
    assert clock.stop_reason == "interval"
    assert rate(clock) == pytest.approx(160.0)
    assert clock.steady.time_s >= 5.0
    assert clock.parts()["data_wait_s"] == pytest.approx(clock.steady.time_s / 4)
    assert clock.parts()["compute_s"] == pytest.approx(clock.steady.time_s * 3 / 4)


def test_batches_that_lie_ready_when_the_loop_is_learnt_are_left_out() -> None:
    """The compiler held the loop up: of a loop that waits for its workers, the queue was full."""
    held_up = loop(0.05, load_s=always(0.4), workers=4, prefetch=4, captures={0: 30.0})
    clock = measured(held_up, learning=3)
    assert step_s(clock) == pytest.approx(0.1, rel=0.02)
    assert clock.discarded_batches >= 16


def test_a_forced_boundary_costs_what_start_and_stop_cost() -> None:
    simulation = Simulation(loop(0.1, start_s=2.0, stop_s=0.5))
    clock = simulation.measure(5.0)
    assert simulation.ended_epochs == 0
    assert clock.boundaries_seen == 1
    assert clock.boundary_s == pytest.approx(2.5)
    assert clock.boundary_deviation_s is None and clock.whole_epoch == (None, None)


def test_natural_boundaries_cost_the_same_and_validation_is_not_in_them() -> None:
    clock = measured(loop(0.1, 12, start_s=2.0, stop_s=0.5, validates_s=3.0))
    assert clock.boundaries_seen >= 2 and clock.whole_epoch[1] == 12
    assert clock.boundary_s == pytest.approx(2.5)
    assert clock.boundary_deviation_s == pytest.approx(0.0, abs=1e-6)
    assert rate(clock) == pytest.approx(160.0)


def test_nothing_is_measured_while_graphs_are_captured() -> None:
    clock = measured(loop(0.1, captures=dict.fromkeys(range(0, 30, 2), 1.0)))
    assert clock.discarded_batches >= 30
    assert step_s(clock) == pytest.approx(0.1)


@pytest.mark.parametrize("at", [8, 30, 90])
def test_a_recompile_within_the_window_is_booked_once_and_no_steady_time(at: int) -> None:
    simulation = Simulation(loop(0.1, captures={0: 60.0, at: 35.0}))
    clock = simulation.measure(5.0, can_force=False)
    assert step_s(clock) == pytest.approx(0.1)
    assert max(clock.steady.durations) == pytest.approx(0.1)
    seen = at < simulation.batches  # the window of 50 batches may be closed by then
    assert simulation.recompile_s == pytest.approx(35.0 if seen else 0.0)


def test_where_only_steps_can_be_seen_each_counts_for_its_batches() -> None:
    settling, seconds = CompileSettling(), [0.0]
    clock = LoopClock(lambda: seconds[0], lambda: None, 5.0, 0.05, ramp=1, group=1, can_force_boundary=False)
    for step in range(200):
        is_captured = step in (3, 9)
        seconds[0] += 31.0 if is_captured else 1.0
        graphs = 1 + (step >= 3) + (step >= 9)
        settling.asked(seconds[0], graphs, step, has_stepped=True, batches=4)
        if clock.tick(8, (0.0,) * 5, False, settling.is_settled(step), 4) == FINISHED:
            break
    assert step_s(clock) == pytest.approx(0.25)
    assert clock.discarded_batches == 4 * (9 + 1)  # up to the last capture
    assert settling.recompile_s(0.25) == pytest.approx(60.0)


def test_the_compiler_hides_nothing_of_what_the_device_owed() -> None:
    """391 batches of 10 ms that the host launches in 1 ms, then 35 s in the compiler."""
    epochs = loop(0.001, 391, device_s=always(0.01), last_samples=3, captures={390: 35.0}, start_s=0.5)
    clock = measured(epochs)
    assert rate(clock) == pytest.approx(1600, rel=0.01)
    assert clock.boundary_s == pytest.approx(0.5, abs=0.05)


def test_a_slow_batch_that_nothing_explains_stays_in_the_window_and_in_its_interval() -> None:
    clock = measured(loop(0.01, slow={300: 4.0}), can_force=False)
    assert clock.interval >= abs(0.01 / step_s(clock) - 1)
    assert clock.stop_reason == "time_cap"


def test_of_a_wait_that_began_before_the_window_only_the_part_inside_counts() -> None:
    """As of a second loader that a thread of the script reads meanwhile."""
    now = [0.0]
    clock = LoopClock(lambda: now[0], lambda: None, 5.0, 0.05, ramp=1, group=1, can_force_boundary=False)
    clock.epoch_started(0.0)
    for wait_s in (0.0, 0.0, 30.0, 0.25):
        now[0] += 1.0
        clock.tick(8, (wait_s, 0.0, 0.0, 0.0, 0.0), False, True)
    assert clock.parts()["data_wait_s"] == 1.25
    assert clock.steady.time_s == 3.0


def test_the_device_is_waited_for_at_the_ends_only() -> None:
    simulation = Simulation(loop(0.01))
    clock = simulation.measure(5.0)
    assert clock.steady.batches > 400
    assert simulation.synchronised == 4  # the window opens and closes, the epoch ends, its boundary does


def test_a_script_that_ends_after_enough_batches_is_measured() -> None:
    clock = measured(loop(0.1, 30), max_epochs=1)
    assert clock.phase == FINISHED
    assert clock.stop_reason == "loop_ended"


@given(
    step_ms=st.integers(1, 2000),
    start_ms=st.integers(0, 5000),
    stop_ms=st.integers(0, 1000),
    epoch_batches=st.integers(2, 300),
    workers=st.integers(0, 16),
)
def test_rate_and_boundary_are_exact_for_any_regular_loop(
    step_ms: int, start_ms: int, stop_ms: int, epoch_batches: int, workers: int
) -> None:
    more = {"start_s": start_ms / 1000, "stop_s": stop_ms / 1000, "workers": workers}
    clock = measured(loop(step_ms / 1000, epoch_batches, **more))
    assert clock.phase == FINISHED
    assert step_s(clock) == pytest.approx(step_ms / 1000)
    assert clock.boundary_s == pytest.approx((start_ms + stop_ms) / 1000, abs=1e-6)


def test_a_loop_too_slow_is_given_up_without_an_epoch_boundary() -> None:
    simulation = Simulation(loop(0.1, start_s=2.0))
    clock = simulation.measure(5.0, rate_to_beat=300.0)
    assert simulation.ended_epochs == 0
    assert (clock.phase, clock.stop_reason, clock.is_abandoned) == (FINISHED, "abandoned", True)
    assert rate(clock) == pytest.approx(160.0)
    assert clock.interval == pytest.approx(0.0, abs=1e-9)
    assert 12 <= clock.steady.batches <= 20
    assert (clock.boundaries_seen, clock.boundary_s) == (0, None)
    assert simulation.synchronised == 2  # window opens, window closes


def test_a_loop_that_is_getting_faster_is_not_judged_by_its_start() -> None:
    faster = loop(0.08, slow={place: 0.12 - 0.005 * place for place in range(24)})
    clock = measured(faster, rate_to_beat=140.0, can_force=False)
    assert clock.stop_reason != "abandoned"
    assert rate(clock) > 140.0


@given(
    step_ms=st.integers(1, 2000),
    epoch_batches=st.integers(2, 300),
    workers=st.integers(0, 9),
    margin=st.floats(0.1, 1.0),
)
def test_a_loop_that_is_not_slower_is_measured_as_if_nobody_had_looked(
    step_ms: int, epoch_batches: int, workers: int, margin: float
) -> None:
    figures = []
    for rate_to_beat in (None, margin * 0.999 * 16_000 / step_ms):
        simulation = Simulation(loop(step_ms / 1000, epoch_batches, start_s=1.0, workers=workers))
        clock = simulation.measure(5.0, rate_to_beat=rate_to_beat)
        seen = (clock.stop_reason, clock.steady.batches, clock.steady.time_s, clock.interval)
        figures.append((*seen, clock.boundary_s, simulation.now))
    assert figures[0] == figures[1]


@given(workers=st.integers(0, 64), prefetch=st.integers(0, 16), epoch=st.none() | st.integers(1, 10_000))
def test_the_ramp_leaves_half_of_every_epoch(workers: int, prefetch: int, epoch: int | None) -> None:
    ramp = ramp_batches(workers, prefetch, epoch)
    assert (epoch != 1) <= ramp <= 32
    assert epoch is None or ramp <= epoch // 2


def queued(host_s: float, device_s: float, epoch_batches: int, ahead: int = 1000, **more: object) -> Loop:
    """A host, and a device that works behind it."""
    return loop(host_s, epoch_batches, device_s=always(device_s), ahead=ahead, **more)


@given(
    host_ms=st.integers(1, 500),
    device_ms=st.integers(1, 500),
    epoch_batches=st.integers(8, 200),
    ahead=st.sampled_from([1, 2, 5, 1000]),
)
def test_a_step_of_any_queue_takes_what_its_slower_half_takes(
    host_ms: int, device_ms: int, epoch_batches: int, ahead: int
) -> None:
    """But for the work of one batch per epoch, which may be hidden or not."""
    clock = measured(queued(host_ms / 1000, device_ms / 1000, epoch_batches, ahead), 10.0)
    assert step_s(clock) == pytest.approx(
        max(host_ms, device_ms) / 1000, rel=2 / min(epoch_batches - 4, clock.steady.batches) + 1e-9
    )
