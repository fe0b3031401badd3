"""Sessions of limited length: their number and what lies between two of them."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.plan.interruptions import session_time_s, sessions_needed, with_checkpoints_s


@given(st.integers(1, 10_000_000), st.integers(60, 100_000), st.integers(0, 3600))
def test_sessions_hold_the_work_and_one_fewer_would_not(work_s: int, longest_s: int, overhead_s: int):
    sessions = sessions_needed(work_s, longest_s, overhead_s)
    if sessions == math.inf:
        assert overhead_s >= longest_s
        assert work_s > longest_s
        return
    count = int(sessions)
    assert count == sessions >= 1
    assert work_s + (count - 1) * overhead_s <= count * longest_s
    assert count == 1 or work_s + (count - 2) * overhead_s > (count - 1) * longest_s


@given(st.floats(1, 1e7), st.floats(60, 1e5), st.floats(0, 50), st.floats(1, 10))
def test_time_is_the_work_and_the_gaps_and_grows_with_the_work(
    work_s: float, longest_s: float, overhead_s: float, more: float
):
    time_s = session_time_s(work_s, longest_s, overhead_s)
    gaps = sessions_needed(work_s, longest_s, overhead_s) - 1
    assert time_s - work_s == pytest.approx(gaps * overhead_s, abs=1e-6)
    assert session_time_s(work_s * more, longest_s, overhead_s) >= time_s


@pytest.mark.parametrize(
    ("work_s", "sessions", "time_s"),
    [(100, 1, 100), (101, 2, 111), (190, 2, 200), (191, 3, 211), (280, 3, 300), (281, 4, 311)],
)
def test_sessions_of_100_s_with_10_s_between_by_hand(work_s: float, sessions: int, time_s: float):
    assert sessions_needed(work_s, 100, 10) == sessions
    assert session_time_s(work_s, 100, 10) == time_s


@pytest.mark.parametrize(("work_s", "time_s"), [(100, 100), (101, 111.1), (200, 220)])
def test_a_checkpoint_of_5_s_after_every_50_s_is_a_tenth_more_than_one_session(work_s: float, time_s: float):
    assert with_checkpoints_s(work_s, 50, 5, max_session_s=100) == pytest.approx(time_s)


def test_10_000_trainings_in_sessions_take_what_the_formula_says():
    dice = random.Random(20_261_123)
    for _ in range(10_000):
        work_s, longest_s = dice.uniform(600, 1e6), dice.uniform(3600, 24 * 3600)
        checkpoint_s, restart_s = dice.uniform(1, 120), dice.uniform(10, 900)
        sessions, time_s, left_s = 1, 0.0, work_s
        room_s = longest_s
        while left_s > room_s:
            time_s += longest_s
            left_s -= room_s - checkpoint_s
            sessions, room_s = sessions + 1, longest_s - restart_s
        time_s += left_s + (restart_s if sessions > 1 else 0.0)
        overhead_s = checkpoint_s + restart_s
        assert sessions_needed(work_s, longest_s, overhead_s) == sessions
        assert session_time_s(work_s, longest_s, overhead_s) == pytest.approx(time_s, rel=0.02)
