"""The machines that stand out."""

import pytest
from build_plans import exactly, plan_row
from hypothesis import given
from hypothesis import strategies as st

from tunekit.plan.plan import choose
from tunekit.records.interval import Interval
from tunekit.records.plan import PlanRow

some = st.none() | st.floats(0.01, 1e4)


def priced(usd: float | None, hours: float | None, **overrides: object) -> PlanRow:
    values = {
        "usd_on_demand": None if usd is None or hours is None else exactly(usd),
        "hours": None if hours is None else exactly(hours),
    }
    return plan_row(**(values | overrides))


def chosen(rows: list[PlanRow], may_use_spot: bool = False, max_hours: float | None = None) -> list[object]:
    """The rows that are cheapest, balanced and fastest; with a star on spot."""
    choices = choose(rows, may_use_spot, max_hours)
    return [f"{one.row}*" if one.on_spot else one.row for one in choices]


@given(st.lists(st.tuples(some, st.none() | st.floats(1.0, 1e4)), max_size=6))
def test_no_other_machine_is_better(figures: list[tuple[float | None, float | None]]):
    rows = [priced(usd, hours) for usd, hours in figures]
    found = {one.kind: rows[one.row] for one in choose(rows, may_use_spot=False)}
    known = [row for row in rows if row.hours]
    dollars = [row.usd_on_demand.value for row in known if row.usd_on_demand]
    assert ("fastest" in found) == bool(known)
    assert ("cheapest" in found) == ("balanced" in found) == bool(dollars)
    if dollars:
        assert found["cheapest"].usd_on_demand == exactly(min(dollars))
        assert found["balanced"].usd_on_demand.value <= 2 * min(dollars)
    if known:
        assert found["fastest"].hours == exactly(min(row.hours.value for row in known if row.hours))


QUOTA = priced(0, 40, hours_per_week=30.0, weeks=exactly(2), elapsed_hours=exactly(178))
ON_SPOT = priced(20, 8, usd_spot=exactly(5.0), spot_hours=exactly(12.0))
DOUBTED = {"may_not_fit": True}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # Dollars x hours are 1000, 800 and 900.
        ([priced(10, 100), priced(20, 40), priced(90, 10)], [0, 1, 2]),
        ([priced(10, 100), priced(20, 60), priced(21, 1)], [0, 0, 2]),  # at most twice the cheapest
        ([priced(10, 9), priced(10, 8), priced(10, 8)], [1, 1, 1]),  # ties: other figure, earlier row
        ([priced(9, 8), priced(None, 8), priced(7, 8)], [2, 2, 2]),
        ([priced(1, 1, provider=None, instance=None), priced(2, 2)], [1, 1, 1]),  # can't be rented
        ([priced(1, 1, obstacle="too small", fits=False)], []),
        ([priced(1, 1, gpu_busy=0.49), priced(20, 3, gpu_busy=0.51)], [1, 1, 1]),  # idle GPUs
        ([priced(0, 100), priced(20, 40), priced(10, 90), priced(90, 10)], [0, 1, 3]),  # beside a free one
        ([priced(0, 100), priced(5, 100)], [0, 0, 0]),
        ([QUOTA, priced(50, 100)], [0, 1, 1]),  # fastest by the calendar
        ([QUOTA, priced(50, 180)], [0, 0, 0]),
        ([priced(1, 2), priced(3, 1), priced(9, 0.01)], [0, 0, 1]),  # an hour is fast enough
        ([priced(1, 1, **DOUBTED), priced(20, 3), priced(10, 8)], [2, 1, 1]),  # may not hold it
        ([priced(1, 1, is_outdated=True), priced(2, 2)], [1, 1, 1]),
        ([priced(1, 1, **DOUBTED), priced(2, 2, fits=False, obstacle="too small")], [0, 0, 0]),
    ],
)
def test_choices_by_hand(rows: list[PlanRow], expected: list[int]):
    assert chosen(rows) == expected


def test_spot_counts_only_when_it_is_allowed_and_with_its_own_hours():
    rows = [priced(10, 10), ON_SPOT]
    assert chosen(rows)[0] == 0
    assert chosen(rows, may_use_spot=True) == ["1*", "1*", 1]
    assert chosen(rows, may_use_spot=True, max_hours=11) == [0, 0, 1]


def test_a_limit_leaves_out_what_is_slower():
    assert chosen([priced(10, 100), priced(20, 60), priced(90, 10)], max_hours=60) == [1, 1, 2]


def test_an_outdated_price_on_demand_or_on_spot_is_not_chosen():
    assert chosen([ON_SPOT.changed(is_spot_outdated=True)], may_use_spot=True) == [0, 0, 0]
    assert chosen([ON_SPOT.changed(is_outdated=True)], may_use_spot=True) == ["0*", "0*", "0*"]


@pytest.mark.parametrize(
    ("other", "rival"),
    [
        (Interval(value=12, low=8, high=20), 1),
        (Interval(value=12, low=11.5, high=20), None),
    ],
)
def test_a_choice_that_another_gpu_may_beat_within_the_ranges_names_it(other: Interval, rival: int | None):
    """The same GPU at another price changes with it, and is no rival."""
    first = priced(10, 10, usd_on_demand=Interval(value=10, low=9, high=11))
    rows = [first, priced(12, 5, profile_id="l4", usd_on_demand=other), priced(10.5, 10)]
    choices = {one.kind: one.rival for one in choose(rows, may_use_spot=False)}
    assert choices["cheapest"] == rival
    assert choices["fastest"] is None
