"""Quantities as people read and write them."""

import math

import pytest
from build_records import GIB, MIB
from hypothesis import given
from hypothesis import strategies as st

from tunekit.errors import UsageError
from tunekit.units import (
    bytes_text,
    count_text,
    digits_text,
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


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "n/a"),
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (MIB, "1.0 MiB"),
        (64 * MIB, "64.0 MiB"),
        (GIB - 1, "1.0 GiB"),
        (MIB - 1, "1.0 MiB"),
        (22.5 * GIB, "22.5 GiB"),
        (-GIB, "-1.0 GiB"),
        (1 << 50, "1,048,576.0 GiB"),
    ],
)
def test_sizes_are_binary(size: float | None, text: str):
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "n/a"),
        (0, "0 ms"),
        (0.000_23, "0.23 ms"),
        (0.000_996, "1.0 ms"),
        (0.0061, "6.1 ms"),
        (0.009_96, "10 ms"),
        (0.042, "42 ms"),
        (0.9996, "1.0 s"),
        (1, "1.0 s"),
        (8.149, "8.1 s"),
        (59.94, "59.9 s"),
        (59.97, "1m 00s"),
        (60, "1m 00s"),
        (200, "3m 20s"),
        (3599.7, "1h 00m"),
        (7500, "2h 05m"),
        (1e6, "277h 46m"),
        (-200, "-3m 20s"),
    ],
)
def test_durations_have_two_parts_at_most(seconds: float | None, text: str):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (None, "n/a"),
        (0, "0.00"),
        (0.567, "0.57"),
        (9.994, "9.99"),
        (9.999, "10.0"),
        (57.04, "57.0"),
        (99.98, "100"),
        (1234.4, "1,234"),
        (1e7, "10,000,000"),
    ],
)
def test_rates_have_three_or_four_digits(rate: float | None, text: str):
    assert rate_text(rate) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (57.04, "57.0"),
        (9_999.4, "9,999"),
        (9_999.6, "10.0k"),
        (10_271, "10.3k"),
        (99_949, "99.9k"),
        (99_951, "100k"),
        (999_400, "999k"),
        (999_600, "1.00M"),
        (1_136_446, "1.14M"),
        (2.5e9, "2,500M"),
    ],
)
def test_rates_of_a_narrow_column_are_short(rate: float, text: str):
    assert short_rate_text(rate) == text


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (None, "n/a"),
        (1234.4, "1,234 h"),
        (177.94, "178 h"),
        (17.81, "17.8 h"),
        (1.0, "1.00 h"),
        (0.9996, "1.00 h"),
        (0.99, "59m 24s"),
        (0.014, "50.4 s"),
        (2e-6, "7.2 ms"),
    ],
)
def test_less_than_an_hour_is_minutes_or_seconds(hours: float | None, text: str):
    assert hours_text(hours) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (None, "n/a"),
        (0.0, "$0.00"),
        (0.004, "<$0.01"),
        (0.42, "$0.42"),
        (17.8, "$17.80"),
        (99.994, "$99.99"),
        (99.996, "$100"),
        (1234.5, "$1,234"),
    ],
)
def test_dollars_have_cents_up_to_a_hundred(usd: float | None, text: str):
    assert usd_text(usd) == text


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


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1_281_167, "1,281,167 files")]
)
def test_counts_of_one_have_no_s(number: int, text: str):
    assert count_text(number, "file") == text


def test_a_plural_of_its_own_is_used_for_all_but_one():
    assert [count_text(number, "batch", "batches") for number in (0, 1, 2)] == [
        "0 batches",
        "1 batch",
        "2 batches",
    ]


@pytest.mark.parametrize(
    ("text_of", "huge"),
    [
        (bytes_text, "9.31e+290 GiB"),
        (duration_text, "2.78e+296h"),
        (rate_text, "1e+300"),
        (hours_text, "1e+300 h"),
        (usd_text, "$1e+300"),
        (share_text, "1e+302%"),
        (percent_text, "1e+302%"),
        (lambda factor: digits_text(factor, ".2f"), "1e+300"),
    ],
)
def test_a_figure_beyond_all_use_has_few_letters_and_an_infinite_one_is_unknown(text_of, huge: str):
    assert text_of(1e300) == huge
    assert text_of(math.inf) == text_of(-math.inf) == text_of(math.nan) == "n/a"


@given(
    st.floats() | st.integers(), st.sampled_from([bytes_text, duration_text, rate_text, usd_text, share_text])
)
def test_any_figure_is_a_short_text(figure: float, text_of):
    assert 0 < len(text_of(figure)) <= 26


def test_a_whole_number_that_no_float_holds_is_unknown():
    assert bytes_text(10**400) == "n/a"


@pytest.mark.parametrize(("share", "text"), [(0.0, "0%"), (0.05, "5%"), (0.025, "2.5%"), (0.0005, "0.05%")])
def test_shares_are_percents(share: float, text: str) -> None:
    assert percent_text(share) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(240.0, "4m"), (5400.0, "90m"), (90.0, "90s"), (2.5, "2.5s"), (1e6 + 1, "1000001s")]
)
def test_a_duration_is_typed_as_a_flag_takes_it(seconds: float, text: str):
    assert typed_duration_text(seconds) == text
    assert parse_duration_s(text) == seconds
