"""Sessions of limited length: their number and what lies between two of them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.plan.interruptions import (
    WEEK_S,
    WeeklyQuota,
    sessions_needed,
    under_quota,
    with_checkpoints_s,
)


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


@pytest.mark.parametrize(
    ("work_s", "sessions", "time_s"),
    [(100, 1, 100), (101, 2, 111), (190, 2, 200), (191, 3, 211), (280, 3, 300), (281, 4, 311)],
)
def test_sessions_of_100_s_with_10_s_between_by_hand(work_s: float, sessions: int, time_s: float):
    assert under_quota(work_s, 100, 10, None) == (1, sessions, time_s)


@pytest.mark.parametrize(("work_s", "time_s"), [(100, 100), (101, 111.1), (200, 220)])
def test_a_checkpoint_of_5_s_after_every_50_s_is_a_tenth_more_than_one_session(work_s: float, time_s: float):
    assert with_checkpoints_s(work_s, 50, 5, max_session_s=100) == pytest.approx(time_s)


def by_walking(work_s: int, longest_s: int, overhead_s: int, weekly_s: int) -> WeeklyQuota:
    """Take one session after the other, each but the first behind the overhead."""
    weeks = sessions = done_s = elapsed_s = 0
    while done_s < work_s:
        left_s = weekly_s
        while left_s > 0 and done_s < work_s:
            lost_s = overhead_s if sessions else 0
            length_s = min(longest_s, left_s)
            if length_s <= lost_s:
                break
            worked_s = min(length_s - lost_s, work_s - done_s)
            elapsed_s = weeks * int(WEEK_S) + weekly_s - left_s + lost_s + worked_s
            sessions, done_s, left_s = sessions + 1, done_s + worked_s, left_s - length_s
        weeks += 1
    return WeeklyQuota(weeks, sessions, elapsed_s)


@given(
    st.integers(1, 2_000_000), st.integers(1800, 100_000), st.integers(0, 1200), st.integers(3600, 7 * 86_400)
)
def test_a_weekly_quota_takes_the_weeks_that_walking_through_them_takes(
    work_s: int, longest_s: int, overhead_s: int, weekly_s: int
):
    assert under_quota(work_s, longest_s, overhead_s, weekly_s) == pytest.approx(
        by_walking(work_s, longest_s, overhead_s, weekly_s)
    )


def test_a_rest_of_the_quota_that_only_restarts_is_no_session():
    """100 + 90 in the first week, 90 + 90 in the second, 30 behind a restart of 10 in the third."""
    assert under_quota(400, 100, 10, 205) == (3, 5, 2 * WEEK_S + 40)


def test_sessions_that_only_restart_never_end():
    assert under_quota(200, 100, 100, 1000) == (math.inf, math.inf, math.inf)
    assert under_quota(100, 100, 100, 1000) == (1, 1, 100)
