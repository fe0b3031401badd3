"""Each loop batch's time is split by what the host did in it."""

import math

import pytest
from _tunekit_agent.measure.host_times import HostTimes
from _tunekit_agent.measure.steady import LoopClock
from hypothesis import given
from hypothesis import strategies as st

times = st.floats(0.0, 10.0)


def never_queued() -> int:
    return 0


FETCHED, BEGAN, ENDED = HostTimes.fetched, HostTimes.step_began, HostTimes.step_ended


@pytest.mark.parametrize(
    ("told", "asked_at", "parts"),
    [
        ([(FETCHED, 2.0, 0.5), (BEGAN, 10.0), (ENDED, 11.5)], 12.0, (2.0, 0.5, 1.5, 0.5, 0.0)),
        # What lies between two optimizers is not the rest.
        ([(BEGAN, 1.0), (ENDED, 2.0), (BEGAN, 5.0), (ENDED, 6.0)], 6.5, (0.0, 0.0, 2.0, 0.5, 0.0)),
        # A wait after the step is no time of the script's own.
        ([(ENDED, 3.0), (FETCHED, 0.75, 0.5)], 4.0, (0.75, 0.5, 0.0, 0.25, 0.0)),
        # A step within a step counts once.
        ([(BEGAN, 1.0), (BEGAN, 1.5), (ENDED, 2.0), (ENDED, 3.0)], 3.0, (0.0, 0.0, 2.0, 0.0, 0.0)),
        # A step that a scaler skipped ends what was computed.
        ([(ENDED, 3.0)], 4.0, (0.0, 0.0, 0.0, 1.0, 0.0)),
    ],
)
def test_a_batch_is_wait_then_step_then_the_rest(told: list, asked_at: float, parts: tuple) -> None:
    split = HostTimes(never_queued)
    for tell, *arguments in told:
        tell(split, *arguments)
    assert split.asked(asked_at) == pytest.approx(parts)


@pytest.mark.parametrize(
    ("counted_ns", "waited_s"),
    [((0, 5_000_000, 8_000_000), (0.005, 0.003)), ((7, None, 9), (None, None)), ((None, 4, 4), (None, 0.0))],
)
def test_what_the_thread_waited_for_a_cpu_is_of_its_batch(
    counted_ns: tuple[int | None, ...], waited_s: tuple[float | None, ...]
) -> None:
    counts = iter(counted_ns)
    split = HostTimes(lambda: next(counts))
    seen = [split.asked(now)[4] for now in (1.0, 2.0)]
    assert [None if math.isnan(one) else one for one in seen] == list(waited_s)


def test_a_window_with_a_batch_whose_wait_is_unknown_knows_none() -> None:
    clock = LoopClock(lambda: 0.0, lambda: None, 1e9, 0.0, 1, 1, can_force_boundary=False)
    for waited_s in (0.5, 0.25):
        clock.steady.add(1.0, 8, (0.0, 0.0, 0.0, 0.0, waited_s), 1)
    assert clock.parts()["run_queue_s"] == 0.75
    clock.steady.add(1.0, 8, (0.0, 0.0, 0.0, 0.0, math.nan), 1)
    assert clock.parts()["run_queue_s"] is None


@given(st.lists(st.tuples(times, times, times, times), min_size=12, max_size=40))
def test_the_parts_add_up_to_the_steady_time(batches: list[tuple[float, float, float, float]]) -> None:
    now = [0.0]
    clock = LoopClock(lambda: now[0], lambda: None, 1e9, 0.0, 1, 1, can_force_boundary=False)
    clock.epoch_started(0.0)
    split = HostTimes(never_queued)
    clock.tick(0, split.asked(now[0]), False, True)
    for wait_s, compute_s, step_s, other_s in batches:
        now[0] += wait_s
        split.fetched(wait_s, 0.0)
        now[0] += compute_s
        split.step_began(now[0])
        now[0] += step_s
        split.step_ended(now[0])
        now[0] += other_s
        clock.tick(1, split.asked(now[0]), False, True)
    parts = clock.parts()
    counted = batches[1:]
    for place, name in enumerate(("data_wait_s", "compute_s", "optimizer_s", "other_s")):
        assert parts[name] == pytest.approx(sum(batch[place] for batch in counted), abs=1e-6)
    total_s = sum(value for name, value in parts.items() if name not in ("fetch_cpu_s", "run_queue_s"))
    assert total_s == pytest.approx(clock.steady.time_s, abs=1e-6)
