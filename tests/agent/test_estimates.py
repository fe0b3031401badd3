"""Intervals that cover the truth as often as they say, on loops whose truth is known."""

import math
from statistics import fmean

import pytest
from _tunekit_agent.measure.estimates import interval_relative, min_relative, trend_relative
from hypothesis import given
from hypothesis import strategies as st
from simulated_loops import BATCH, STEADY_LOOPS, Loop, Simulation, spread, step_s

PROCESSES = 200
BY_DEFAULT = ("data-bound", "noisy", "no workers")
STEADY_NAMES = [
    pytest.param(name, marks=[] if name in BY_DEFAULT else pytest.mark.slow) for name in STEADY_LOOPS
]
durations = st.lists(st.floats(1e-3, 10.0), min_size=10, max_size=200)


def test_the_interval_of_known_data() -> None:
    # Sixteen means of one, alternating: no skewness, no positive correlation; t(15) = 2.131.
    variance = 16 * 0.25 / 15
    expected = 2.131 * math.sqrt(variance / 16) / 1.5
    assert interval_relative([1.0, 2.0] * 8) == pytest.approx(expected)


def test_skewed_batches_say_less() -> None:
    skewed, even = [1.0] * 14 + [1.0, 5.0], [0.0, 2.0] * 8
    scale = math.sqrt(sum((x - fmean(skewed)) ** 2 for x in skewed) / sum((x - 1) ** 2 for x in even))
    alike = [fmean(skewed) + scale * (x - 1) for x in even]
    assert interval_relative(skewed) > 1.2 * interval_relative(alike)


@given(
    seconds=st.floats(1e-3, 10.0),
    batches=st.integers(3, 2000),
    place=st.floats(0, 1, exclude_max=True),
    factor=st.floats(1.0, 1e5),
)
def test_an_interval_covers_any_single_outlier(
    seconds: float, batches: int, place: float, factor: float
) -> None:
    seen = [seconds] * batches
    seen[int(place * batches)] *= factor
    half = interval_relative(seen)
    assert half is not None
    assert abs(seconds / fmean(seen) - 1) <= half + 1e-9


@given(durations)
def test_an_interval_is_never_negative_and_a_trend_turns_with_time(seen: list[float]) -> None:
    assert interval_relative(seen) >= 0
    whole = seen[: len(seen) // 16 * 16] if len(seen) >= 16 else seen
    forth, back = trend_relative(whole), trend_relative(whole[::-1])
    assert (1 + forth) * (1 + back) == pytest.approx(1)
    assert forth > -1


@pytest.mark.parametrize("name", STEADY_NAMES)
def test_intervals_cover_the_truth_about_as_often_as_they_say(name: str) -> None:
    loop = STEADY_LOOPS[name]
    truth_s = Simulation(loop, 10**6).step_time_s(20_000)
    clocks = [Simulation(loop, seed).measure(5.0) for seed in range(PROCESSES)]
    covered = sum(abs(step_s(clock) - truth_s) <= clock.interval * step_s(clock) for clock in clocks)
    assert 0.90 <= covered / PROCESSES <= 0.995
    assert abs(fmean(step_s(clock) for clock in clocks) / truth_s - 1) < 0.02


def test_the_least_of_a_mean_allows_for_several_looks_and_for_phases() -> None:
    noisy = [1.0, 2.0] * 8
    assert min_relative(noisy) == pytest.approx(1 - 1.7 * interval_relative(noisy))
    assert min_relative([1.0] * 16) == pytest.approx(0.75)
    assert min_relative([1.0] * 400) == pytest.approx(0.95)
    assert min_relative([1.0] * 2) == 0.0


@pytest.mark.parametrize("name", STEADY_NAMES)
def test_a_loop_as_fast_as_it_has_to_be_is_hardly_ever_given_up(name: str) -> None:
    loop = STEADY_LOOPS[name]
    rate = BATCH / Simulation(loop, 10**6).step_time_s(60_000)
    clocks = [Simulation(loop, seed).measure(5.0, rate_to_beat=rate) for seed in range(PROCESSES)]
    assert sum(clock.is_abandoned for clock in clocks) <= 0.015 * PROCESSES


@pytest.mark.parametrize("name", sorted(set(STEADY_LOOPS) - {"rare spikes", "slow files"}))
def test_a_loop_at_seven_tenths_is_given_up_soon(name: str) -> None:
    loop = STEADY_LOOPS[name]
    rate = BATCH / Simulation(loop, 10**6).step_time_s(20_000)
    clocks = [Simulation(loop, seed).measure(5.0, rate_to_beat=rate / 0.7) for seed in range(40)]
    abandoned = [clock for clock in clocks if clock.is_abandoned]
    assert len(abandoned) >= 0.85 * len(clocks)
    assert fmean(clock.steady.time_s for clock in abandoned) < 0.75 * 5.0
    assert all(clock.boundaries_seen == 0 for clock in abandoned)


def test_a_loop_that_slows_down_is_told_by_how_much() -> None:
    heating = Loop(spread(0.05, 0.05), spread(0.02, 0.3), workers=2, drift_per_s=0.02)
    even = Loop(spread(0.05, 0.05), spread(0.02, 0.3), workers=2)
    found, truths = [], []
    for seed in range(50):
        simulation = Simulation(heating, seed)
        clock = simulation.measure(5.0)
        found.append(trend_relative(clock.steady.durations))
        # From the middle of the first group to that of the last.
        first = 1 + heating.drift_per_s * (simulation.now - clock.steady.time_s * 31 / 32)
        truths.append(heating.drift_per_s * clock.steady.time_s * 15 / 16 / first)
    assert min(found) > 0
    assert fmean(found) == pytest.approx(fmean(truths), rel=0.1)
    falsely = [
        trend_relative(Simulation(even, seed).measure(5.0).steady.durations) for seed in range(PROCESSES)
    ]
    assert sum(trend != 0 for trend in falsely) / PROCESSES < 0.10
