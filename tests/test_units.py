"""Quantities as people read and write them."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from build_records import GIB, MIB
from hypothesis import given
from hypothesis import strategies as st

from tunekit.errors import UsageError
from tunekit.units import (
    bytes_text,
    count_text,
    duration_text,
    hours_text,
    parse_duration_s,
    percent_text,
    rate_text,
    share_text,
    short_rate_text,
    typed_duration_text,
    usd_text,
)

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


SHOWN: dict[Callable[[Any], str], tuple[float | None, ...]] = {
    bytes_text: (
        *(None, 0, 512, 1023, 1024, 1536, MIB, 64 * MIB, GIB - 1, MIB - 1, 22.5 * GIB, -GIB, 1 << 50),
        10**400,
    ),
    duration_text: (
        *(None, 0, 0.000_23, 0.000_996, 0.0061, 0.009_96, 0.042, 0.9996, 1, 8.149, 59.94, 59.97, 60, 200),
        *(3599.7, 7500, 1e6, -200),
    ),
    rate_text: (None, 0, 0.567, 9.994, 9.999, 57.04, 99.98, 1234.4, 1e7),
    short_rate_text: (
        *(57.04, 9_999.4, 9_999.6, 10_271, 99_949, 99_951, 999_400, 999_600, 1_136_446, 2.5e9),
    ),
    hours_text: (None, 1234.4, 177.94, 17.81, 1.0, 0.9996, 0.99, 0.014, 2e-6),
    usd_text: (None, 0.0, 0.004, 0.42, 17.8, 99.994, 99.996, 1234.5),
    percent_text: (0.0, 0.05, 0.025, 0.0005),
    share_text: (0.0, 0.05, 0.995),
}
BEYOND_USE = (1e300, math.inf, -math.inf, math.nan)


def test_quantities_are_short_and_keep_their_digits(golden: Callable[[str], object]):
    lines = [
        f"{one.__name__}({value!r:.30}): {one(value)}"
        for one, values in SHOWN.items()
        for value in (*values, *(BEYOND_USE if one is not short_rate_text else ()))
    ]
    assert ("\n".join(lines) + "\n") == golden("units.txt")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5", 1.5), ("15m", 900), ("1h30m", 5400), (" 2H ", 7200), ("0.5d", 43200)],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float):
    assert parse_duration_s(text) == seconds


@given(st.lists(st.tuples(st.integers(0, 999), st.sampled_from(sorted(UNITS_S))), min_size=1, max_size=5))
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]):
    total_s = sum(number * UNITS_S[unit] for number, unit in parts)
    text = "".join(f"{number}{unit}" for number, unit in parts)
    if total_s:
        assert parse_duration_s(text) == total_s
    else:
        with pytest.raises(UsageError, match="must be positive"):
            parse_duration_s(text)


@given(st.text(max_size=12))
def test_any_text_is_a_positive_duration_or_refused(text: str):
    try:
        seconds = parse_duration_s(text)
    except UsageError as error:
        assert repr(text) in str(error)
        assert "write it as 90s, 15m or 1h30m" in str(error)
    else:
        assert math.isfinite(seconds)
        assert seconds > 0


@pytest.mark.parametrize(
    "text", ["", " ", "soon", "15 min", "m15", "1h 30m", "-5m", "1e3", "inf", "nan", "5mm", "1.h"]
)
def test_what_is_no_duration_is_refused(text: str):
    with pytest.raises(UsageError, match="not a duration"):
        parse_duration_s(text)


@pytest.mark.parametrize("text", ["0", "0s", "0.0h", "0m0s", "9" * 400, "9" * 400 + "d"])
def test_no_time_and_endless_time_are_refused(text: str):
    with pytest.raises(UsageError, match="must be positive"):
        parse_duration_s(text)


def test_counts_of_one_have_no_s():
    assert [count_text(number, "file") for number in (0, 1, 1_281_167)] == [
        "0 files",
        "1 file",
        "1,281,167 files",
    ]
    assert [count_text(number, "batch", "batches") for number in (1, 2)] == ["1 batch", "2 batches"]


@given(
    st.floats() | st.integers(), st.sampled_from([bytes_text, duration_text, rate_text, usd_text, share_text])
)
def test_any_figure_is_a_short_text(figure: float, text_of):
    assert 0 < len(text_of(figure)) <= 26


@pytest.mark.parametrize(
    ("seconds", "text"), [(240.0, "4m"), (5400.0, "90m"), (90.0, "90s"), (2.5, "2.5s"), (1e6 + 1, "1000001s")]
)
def test_a_duration_is_typed_as_a_flag_takes_it(seconds: float, text: str):
    assert typed_duration_text(seconds) == text
    assert parse_duration_s(text) == seconds
