"""The window and the boundary, proved on a scripted clock."""

import pytest
from _tunekit_agent.steady import (
    DRAINING,
    FINISHED,
    MEASURING,
    WARMING,
    LoopClock,
    ramp_batches,
)
from build_records import unhurried
from hypothesis import given
from hypothesis import strategies as st


class ScriptedLoop:
    """A training loop on a clock that only its script moves.

    Args:
        step_s: seconds of a steady loop batch.
        epoch_batches: batches per epoch.
        start_s: worker start-up at each epoch's iterator.
        free: batches at each epoch's start that take half the time (a primed queue).
        stop_s: worker shut-down when an epoch runs dry.
    """

    def __init__(
        self, step_s: float, epoch_batches: int, start_s: float = 0.0, free: int = 0, stop_s: float = 0.0
    ) -> None:
        self.now = 100.0
        self.syncs = 0
        self.step_s, self.epoch_batches = step_s, epoch_batches
        self.start_s, self.free, self.stop_s = start_s, free, stop_s
        self.settled_after = 0
        self.interrupt_at: int | None = None
        self.total = 0

    def clock(self, **options: object) -> LoopClock:
        defaults = {"window_s": 5.0, "interval_goal": 0.02, "ramp": 4, "group": 1, "can_force_boundary": True}
        return LoopClock(lambda: self.now, self._sync, **{**defaults, **options})

    def _sync(self) -> None:
        self.syncs += 1

    def drive(self, clock: LoopClock, max_epochs: int = 50) -> int:
        """Run epochs until the clock has finished; return the epochs that the script saw end."""
        ended = 0
        while ended < max_epochs:
            clock.epoch_started(self.now)
            self.now += self.start_s
            if self._epoch(clock):
                return ended
            ended += 1
            self.now += 3.0  # the script's own validation: no part of any figure
        return ended

    def _epoch(self, clock: LoopClock) -> bool:
        samples = done = 0
        interrupted = False
        while True:
            phase = clock.tick(
                samples,
                (self.step_s / 4, 0.0, self.step_s / 8, 0.0),
                interrupted,
                lambda: self.total >= self.settled_after,
            )
            if phase == FINISHED:
                return True
            if done == self.epoch_batches or (phase == DRAINING and samples):
                asked = self.now
                self.now += self.stop_s
                forced = clock.phase == DRAINING
                clock.epoch_ended(asked)
                if not forced:
                    return False
                clock.epoch_started(self.now)
                self.now += self.start_s
                done = 0
            self.now += self.step_s / 2 if done < self.free else self.step_s
            interrupted = self.total == self.interrupt_at
            if interrupted:
                self.now += 60.0
            samples, done, self.total = 16, done + 1, self.total + 1


def test_a_steady_loop_gives_its_own_rate() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=10_000)
    clock = loop.clock()
    loop.drive(clock)
    assert clock.stop_reason == "interval"
    assert clock.steady_samples / clock.steady_time_s == pytest.approx(160.0)
    assert clock.steady_time_s >= 5.0
    parts = clock.parts()
    assert parts["data_wait_s"] == pytest.approx(clock.steady_time_s / 4)
    assert parts["optimizer_s"] == pytest.approx(clock.steady_time_s / 8)
    assert parts["compute_s"] == pytest.approx(clock.steady_time_s * 5 / 8)


def test_free_batches_of_a_primed_queue_are_left_out() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=10_000, free=8)
    clock = loop.clock(ramp=8)
    loop.drive(clock)
    assert clock.steady_samples / clock.steady_time_s == pytest.approx(160.0)
    assert clock.discarded_batches == 8


def test_a_forced_boundary_costs_what_start_and_stop_cost() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=10_000, start_s=2.0, stop_s=0.5)
    clock = loop.clock()
    epochs_seen_by_script = loop.drive(clock)
    assert epochs_seen_by_script == 0
    assert clock.boundaries_seen == 1
    assert clock.boundary_s == pytest.approx(2.5)


def test_natural_boundaries_cost_the_same_and_validation_is_not_in_them() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=12, start_s=2.0, stop_s=0.5)
    clock = loop.clock()
    assert loop.drive(clock) >= 3
    assert clock.boundary_s == pytest.approx(2.5)
    assert clock.steady_samples / clock.steady_time_s == pytest.approx(160.0)


def test_free_batches_make_a_boundary_cheaper() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=10_000, start_s=2.0, free=4)
    clock = loop.clock(ramp=4)
    loop.drive(clock)
    assert clock.boundary_s == pytest.approx(2.0 - 4 * 0.05)


def test_without_a_way_to_force_it_the_boundary_is_unknown() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=10_000)
    clock = loop.clock(can_force_boundary=False)
    loop.drive(clock)
    assert clock.phase == FINISHED
    assert clock.boundary_s is None


def test_nothing_is_measured_while_graphs_are_compiled() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=10_000)
    loop.settled_after = 30
    clock = loop.clock()
    loop.drive(clock)
    assert clock.discarded_batches >= 30


def test_a_validation_in_mid_epoch_is_left_out() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=10_000)
    loop.interrupt_at = 20
    clock = loop.clock()
    loop.drive(clock)
    assert max(clock.durations) == pytest.approx(0.1)


def test_the_window_closes_on_a_multiple_of_the_workers() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=10_000)
    clock = loop.clock(group=7)
    loop.drive(clock)
    assert clock.steady_batches % 7 == 0


def test_a_noisy_loop_stops_at_the_time_cap() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=100_000)
    clock = loop.clock(interval_goal=-1.0)
    loop.drive(clock)
    assert clock.stop_reason == "time_cap"
    assert clock.steady_time_s <= 10.0 + 0.5  # it looks at a tenth of the window's length


def test_the_device_is_waited_for_at_the_ends_only() -> None:
    loop = ScriptedLoop(step_s=0.01, epoch_batches=100_000)
    clock = loop.clock()
    loop.drive(clock)
    assert clock.steady_batches > 400
    assert loop.syncs == 3  # window opens, window closes, boundary ends


def test_a_script_that_ends_after_enough_batches_is_measured() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=30)
    clock = loop.clock()
    loop.drive(clock, max_epochs=1)
    assert clock.phase == MEASURING
    assert clock.end()
    assert clock.stop_reason == "loop_ended"


def test_a_script_that_ends_while_warming_up_is_not_measured() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=3)
    clock = loop.clock(ramp=8)
    loop.settled_after = 10
    loop.drive(clock, max_epochs=1)
    assert clock.phase == WARMING
    assert not clock.end()


@given(
    step_ms=st.integers(1, 2000),
    start_ms=st.integers(0, 5000),
    stop_ms=st.integers(0, 1000),
    epoch_batches=st.integers(2, 300),
    ramp=st.integers(1, 32),
)
def test_rate_and_boundary_are_exact_for_any_regular_loop(
    step_ms: int, start_ms: int, stop_ms: int, epoch_batches: int, ramp: int
) -> None:
    loop = ScriptedLoop(step_ms / 1000, epoch_batches, start_s=start_ms / 1000, stop_s=stop_ms / 1000)
    clock = loop.clock(ramp=min(ramp, max(1, epoch_batches // 2)))
    loop.drive(clock, max_epochs=5000)
    assert clock.phase == FINISHED
    assert clock.steady_time_s / clock.steady_batches == pytest.approx(step_ms / 1000)
    assert clock.boundary_s == pytest.approx((start_ms + stop_ms) / 1000, abs=1e-6)


def test_a_loop_too_slow_is_given_up_without_an_epoch_boundary() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=10_000, start_s=2.0)
    clock = loop.clock(rate_to_beat=300.0)
    assert loop.drive(clock) == 0
    assert (clock.phase, clock.stop_reason, clock.is_abandoned) == (FINISHED, "abandoned", True)
    assert clock.steady_samples / clock.steady_time_s == pytest.approx(160.0)
    assert clock.interval == 0.0
    assert 12 <= clock.steady_batches <= 20
    assert (clock.boundaries_seen, clock.boundary_s) == (0, None)
    assert loop.syncs == 2  # window opens, window closes


def test_a_loop_is_given_up_on_whole_turns_of_its_workers() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=10_000)
    clock = loop.clock(rate_to_beat=300.0, group=7)
    loop.drive(clock)
    assert (clock.stop_reason, clock.steady_batches) == ("abandoned", 14)


def test_a_boundary_that_was_seen_is_told_of_a_loop_that_is_given_up() -> None:
    loop = ScriptedLoop(step_s=0.1, epoch_batches=10, start_s=2.0)
    clock = loop.clock(rate_to_beat=300.0)
    loop.drive(clock)
    assert clock.stop_reason == "abandoned"
    assert clock.boundary_s == pytest.approx(2.0)


def test_a_loop_that_is_getting_faster_is_not_judged_by_its_start() -> None:
    loop = ScriptedLoop(step_s=0.2, epoch_batches=10_000)
    clock = loop.clock(rate_to_beat=140.0, can_force_boundary=False)
    clock.epoch_started(loop.now)
    while clock.phase != FINISHED:
        clock.tick(16, (0.0, 0.0, 0.0, 0.0), False, lambda: True)
        loop.now += loop.step_s
        loop.step_s = max(0.08, loop.step_s - 0.005)
    assert clock.stop_reason != "abandoned"
    assert clock.steady_samples / clock.steady_time_s > 140.0


def test_a_loop_without_a_loader_is_given_up_by_samples_of_whole_steps() -> None:
    for rate_to_beat, reason in ((300.0, "abandoned"), (100.0, "interval")):
        loop = ScriptedLoop(step_s=0.4, epoch_batches=10_000)
        clock = loop.clock(rate_to_beat=rate_to_beat, can_force_boundary=False)
        while clock.phase != FINISHED:
            clock.tick(64, (0.0, 0.0, 0.0, 0.0), False, lambda: True, batches=4)
            loop.now += loop.step_s
        assert clock.stop_reason == reason
        assert clock.steady_batches == clock.steady_samples / 16


@given(
    step_ms=st.integers(1, 2000),
    epoch_batches=st.integers(2, 300),
    group=st.integers(0, 9),
    margin=st.floats(0.1, 1.0),
)
def test_a_loop_that_is_not_slower_is_measured_as_if_nobody_had_looked(
    step_ms: int, epoch_batches: int, group: int, margin: float
) -> None:
    figures = []
    for rate_to_beat in (None, margin * 16_000 / step_ms):
        loop = ScriptedLoop(step_ms / 1000, epoch_batches, start_s=1.0)
        clock = loop.clock(rate_to_beat=rate_to_beat, group=group)
        loop.drive(clock, max_epochs=5000)
        seen = (clock.stop_reason, clock.steady_batches, clock.steady_time_s, clock.interval)
        figures.append((*seen, clock.boundary_s, loop.now))
    assert figures[0] == figures[1]


@given(workers=st.integers(0, 64), prefetch=st.integers(0, 16), epoch=st.none() | st.integers(1, 10_000))
def test_the_ramp_leaves_half_of_every_epoch(workers: int, prefetch: int, epoch: int | None) -> None:
    ramp = ramp_batches(workers, prefetch, epoch)
    assert 1 <= ramp <= 32
    assert epoch is None or ramp <= max(1, epoch // 2)


class QueuedLoop:
    """A host and a device that works after it, each with its time per batch; seconds.

    Args:
        host_s: to fetch a batch and launch its work.
        device_s: of that work.
        epoch_batches: batches per epoch.
        ahead: batches that the host may be ahead of the device.
        stop_s: the host's, to end an epoch.
    """

    def __init__(
        self, host_s: float, device_s: float, epoch_batches: int, ahead: int = 1000, stop_s: float = 0.0
    ) -> None:
        self.now = self.free_at = 100.0
        self.host_s, self.device_s, self.stop_s = host_s, device_s, stop_s
        self.epoch_batches, self.ahead = epoch_batches, ahead
        self.ends: list[float] = []

    def drained(self) -> None:
        self.now = max(self.now, self.free_at)

    def measured(self, **options: object) -> LoopClock:
        defaults = {
            "window_s": 20.0,
            "interval_goal": 0.02,
            "ramp": 4,
            "group": 1,
            "can_force_boundary": True,
        }
        clock = LoopClock(lambda: self.now, self.drained, **{**defaults, **options})
        while clock.phase != FINISHED:
            clock.epoch_started(self.now)
            self._epoch(clock)
        return clock

    def _epoch(self, clock: LoopClock) -> None:
        samples = 0
        for done in range(self.epoch_batches + 1):
            phase = clock.tick(samples, (0.0, 0.0, 0.0, 0.0), False, lambda: True)
            if phase == FINISHED:
                return
            if done == self.epoch_batches or (phase == DRAINING and samples):
                asked = self.now
                self.now += self.stop_s
                clock.epoch_ended(asked)
                return
            self.now += self.host_s
            if len(self.ends) >= self.ahead:
                self.now = max(self.now, self.ends[-self.ahead])
            self.free_at = max(self.now, self.free_at) + self.device_s
            self.ends.append(self.free_at)
            samples = 16


@pytest.mark.parametrize("ahead", [1, 2, 1000])
def test_what_a_device_still_owes_when_an_epoch_ends_is_no_boundary(ahead: int) -> None:
    clock = QueuedLoop(host_s=0.01, device_s=1.0, epoch_batches=12, ahead=ahead).measured()
    assert clock.steady_time_s / clock.steady_batches == pytest.approx(1.0, rel=0.02)
    assert clock.boundary_s == pytest.approx(0.0, abs=0.05)


def test_work_that_the_next_fetch_hides_is_neither_step_nor_boundary() -> None:
    for epoch_batches in (12, 10_000):
        loop = QueuedLoop(host_s=0.1, device_s=0.08, epoch_batches=epoch_batches, stop_s=0.5)
        clock = loop.measured(window_s=5.0)
        assert clock.steady_time_s / clock.steady_batches == pytest.approx(0.1)
        assert clock.boundary_s == pytest.approx(0.5)


@unhurried
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
    loop = QueuedLoop(host_ms / 1000, device_ms / 1000, epoch_batches, ahead)
    clock = loop.measured(window_s=10.0)
    step_s = clock.steady_time_s / clock.steady_batches
    assert step_s == pytest.approx(
        max(host_ms, device_ms) / 1000, rel=2 / min(epoch_batches - 4, clock.steady_batches) + 1e-9
    )
