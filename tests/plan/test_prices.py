"""How old a price is."""

from datetime import date, timedelta

import pytest

from tunekit.plan.offers import is_stale, seen_on


@pytest.mark.parametrize(
    ("as_of", "day"),
    [("2026-03-10", date(2026, 3, 10)), ("2025-04", date(2025, 4, 1)), ("2024", date(2024, 1, 1))],
)
def test_what_is_not_known_of_the_day_is_taken_for_the_first(as_of: str, day: date):
    assert seen_on(as_of) == day


def test_a_price_is_stale_the_day_after_its_last_good_one():
    seen = date(2026, 1, 1)
    assert not is_stale("2026-01-01", seen + timedelta(days=90), 90)
    assert is_stale("2026-01-01", seen + timedelta(days=91), 90)


def test_a_price_of_tomorrow_is_fresh():
    assert not is_stale("2026-01-02", date(2026, 1, 1), 90)


def test_a_price_of_no_real_day_is_stale():
    assert is_stale("2026-02-30", date(2026, 3, 1), 90)
