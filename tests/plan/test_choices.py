"""The machines that stand out."""

import pytest
from build_plans import exactly, plan_row
from hypothesis import given
from hypothesis import strategies as st

from tunekit.plan.choices import Figures, stand_out
from tunekit.plan.plan import choose
from tunekit.records.plan import ChoiceKind, PlanRow

some = st.none() | st.floats(0.01, 1e4)


def priced(usd: float | None, hours: float | None, **overrides: object) -> PlanRow:
    values = {
        "usd_on_demand": None if usd is None or hours is None else exactly(usd),
        "hours": None if hours is None else exactly(hours),
    }
    return plan_row(**(values | overrides))


def rows_chosen(rows: list[PlanRow], may_use_spot: bool = False) -> dict[ChoiceKind, tuple[int, bool]]:
    return {one.kind: (one.row, one.on_spot) for one in choose(rows, may_use_spot)}


def test_cheapest_balanced_and_fastest_by_hand():
    """Dollars x hours are 1000, 800 and 900."""
    assert rows_chosen([priced(10, 100), priced(20, 40), priced(90, 10)]) == {
        ChoiceKind.CHEAPEST: (0, False),
        ChoiceKind.BALANCED: (1, False),
        ChoiceKind.FASTEST: (2, False),
    }


@given(st.lists(st.tuples(some, st.none() | st.floats(1.0, 1e4)), max_size=6))
def test_no_other_machine_is_better(figures: list[tuple[float | None, float | None]]):
    rows = [priced(usd, hours) for usd, hours in figures]
    chosen = rows_chosen(rows)
    known = [row for row in rows if row.hours]
    dollars = [row.usd_on_demand.value for row in known if row.usd_on_demand]
    assert (ChoiceKind.FASTEST in chosen) == bool(known)
    assert (ChoiceKind.CHEAPEST in chosen) == (ChoiceKind.BALANCED in chosen) == bool(dollars)
    if dollars:
        cheapest = rows[chosen[ChoiceKind.CHEAPEST][0]].usd_on_demand
        assert cheapest is not None
        assert cheapest.value == min(dollars)
    if known:
        fastest = rows[chosen[ChoiceKind.FASTEST][0]].hours
        assert fastest is not None
        assert fastest.value == min(row.hours.value for row in known if row.hours)


def test_a_tie_goes_to_the_other_figure_then_to_the_earlier_row():
    assert rows_chosen([priced(10, 9), priced(10, 8), priced(10, 8)])[ChoiceKind.CHEAPEST] == (1, False)
    assert rows_chosen([priced(9, 8), priced(None, 8), priced(7, 8)])[ChoiceKind.FASTEST] == (2, False)


@pytest.mark.parametrize(
    "why", [{"obstacle": "too small", "fits": False}, {"provider": None, "instance": None}]
)
def test_what_can_not_be_rented_or_does_not_fit_is_never_chosen(why: dict[str, object]):
    assert rows_chosen([priced(1, 1, **why), priced(2, 2)])[ChoiceKind.CHEAPEST] == (1, False)
    assert choose([priced(1, 1, **why)], may_use_spot=True) == ()


def test_gpus_that_would_mostly_wait_for_the_loader_are_never_chosen():
    idle, fed = priced(1, 1, gpu_busy=0.49), priced(20, 3, gpu_busy=0.51)
    assert set(rows_chosen([idle, fed]).values()) == {(1, False)}
    assert choose([idle], may_use_spot=True) == ()


def test_what_is_free_is_cheapest_and_the_balanced_one_costs_something():
    rows = [priced(0, 100), priced(20, 40), priced(10, 90), priced(90, 10)]
    assert rows_chosen(rows) == {
        ChoiceKind.CHEAPEST: (0, False),
        ChoiceKind.BALANCED: (1, False),
        ChoiceKind.FASTEST: (3, False),
    }
    assert set(rows_chosen([priced(0, 100), priced(5, 100)]).values()) == {(0, False)}


def test_the_fastest_is_done_first_by_the_calendar():
    quota = priced(0, 40, hours_per_week=30.0, weeks=exactly(2), elapsed_hours=exactly(178))
    assert rows_chosen([quota, priced(50, 100)])[ChoiceKind.FASTEST] == (1, False)
    assert rows_chosen([quota, priced(50, 180)])[ChoiceKind.FASTEST] == (0, False)


def test_balanced_costs_at_most_twice_the_cheapest():
    rows = [priced(10, 100), priced(20, 60), priced(21, 1)]
    assert rows_chosen(rows) == {
        ChoiceKind.CHEAPEST: (0, False),
        ChoiceKind.BALANCED: (0, False),
        ChoiceKind.FASTEST: (2, False),
    }
    assert rows_chosen([*rows, priced(20, 49)])[ChoiceKind.BALANCED] == (3, False)


def test_what_is_done_within_an_hour_is_fast_enough():
    rows = [priced(1, 2), priced(3, 1), priced(9, 0.01)]
    assert rows_chosen(rows)[ChoiceKind.FASTEST] == (1, False)


def test_spot_counts_only_when_it_is_allowed_and_with_its_own_hours():
    rows = [priced(10, 10), priced(20, 8, usd_spot=exactly(5.0), spot_hours=exactly(12.0))]
    assert rows_chosen(rows)[ChoiceKind.CHEAPEST] == (0, False)
    allowed = rows_chosen(rows, may_use_spot=True)
    assert allowed == {
        ChoiceKind.CHEAPEST: (1, True),
        ChoiceKind.BALANCED: (1, True),
        ChoiceKind.FASTEST: (1, False),
    }


def test_a_gpu_that_may_not_hold_it_is_passed_over_and_that_is_said():
    rows = [priced(1, 1, may_not_fit=True), priced(20, 3), priced(10, 8), priced(2, 2, may_not_fit=True)]
    chosen = choose(rows, may_use_spot=False)
    assert [(one.kind, one.row) for one in chosen] == [
        (ChoiceKind.CHEAPEST, 2),
        (ChoiceKind.BALANCED, 1),
        (ChoiceKind.FASTEST, 1),
    ]
    assert chosen[0].reason == (
        "least expected dollars of 2 machines with a price, passing over 2 machines that may have too little "
        "memory"
    )


def test_a_gpu_that_may_not_hold_it_is_chosen_where_there_is_no_other():
    rows = [priced(1, 1, may_not_fit=True), priced(2, 2, fits=False, obstacle="too small")]
    assert rows_chosen(rows)[ChoiceKind.CHEAPEST] == (0, False)


def test_every_choice_says_why():
    reasons = {one.kind: one.reason for one in choose([priced(1, 1), priced(None, 2)], may_use_spot=False)}
    assert reasons == {
        ChoiceKind.CHEAPEST: "least expected dollars of 1 machine with a price",
        ChoiceKind.BALANCED: "least dollars x hours for at most 2 times the cheapest's dollars",
        ChoiceKind.FASTEST: "least expected hours of 2 machines",
    }


@given(
    st.lists(st.tuples(st.floats(1.0, 1e4), st.none() | st.just(0.0) | st.floats(0.01, 1e4)), max_size=8),
    st.floats(0, 1e4),
    st.floats(0, 1e4),
)
def test_a_limit_only_filters(figures: list[tuple[float, float | None]], most_h: float, most_usd: float):
    """What stands out without limits and holds them still does; nothing that breaks one ever does."""
    ways = [Figures(*one) for one in figures]

    def holds(one: Figures) -> bool:
        return one.hours <= most_h and (one.usd or 0.0) <= most_usd

    free, held = stand_out(ways, lambda one: one), stand_out(ways, lambda one: one, holds)
    assert all(map(holds, held.values()))
    for kind, one in free.items():
        if holds(one):
            assert held[kind] == one
    assert (ChoiceKind.FASTEST in held) == any(map(holds, ways))


def test_a_choice_that_a_limit_decided_says_so():
    rows = [priced(10, 100), priced(20, 60), priced(90, 10)]
    slow, *fast = rows
    chosen = choose(fast, may_use_spot=False, max_hours=60, too_slow=[slow])
    assert [(one.kind, one.row, one.is_by_limit) for one in chosen] == [
        (ChoiceKind.CHEAPEST, 0, True),
        (ChoiceKind.BALANCED, 0, True),
        (ChoiceKind.FASTEST, 1, False),
    ]
    assert chosen[0].reason == "least expected dollars of 2 machines with a price within --max-hours 60"


def test_spot_that_takes_longer_than_the_limit_is_no_choice():
    rows = [priced(20, 8, usd_spot=exactly(5.0), spot_hours=exactly(12.0))]
    assert {one.on_spot for one in choose(rows, may_use_spot=True, max_hours=10)} == {False}
    assert True in {one.on_spot for one in choose(rows, may_use_spot=True, max_hours=12)}
