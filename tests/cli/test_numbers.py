"""Numbers on the command line: what is taken, and the sentence for what is not."""

import argparse
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.cli.numbers import digits, memory_bytes, natural, positive, positive_number, rate, share


@given(st.integers(0, 10**15 - 1))
def test_a_whole_number_is_read_as_it_is_written(number: int) -> None:
    assert natural(str(number)) == number
    if number:
        assert positive(str(number)) == number


@pytest.mark.parametrize("text", ["-1", "1.5", "", " 1", "1e-3", "1_00", "9" * 16, "many"])
def test_what_is_no_whole_number_says_so(text: str) -> None:
    for read, least in ((natural, 0), (positive, 1)):
        with pytest.raises(argparse.ArgumentTypeError) as caught:
            read(text)
        assert str(caught.value) == f"must be a whole number, at least {least}, got {text!r}"


@given(st.floats())
def test_a_number_is_read_if_it_is_positive_and_finite(number: float) -> None:
    if 0 < number < math.inf:
        assert positive_number()(str(number)) == number
    else:
        with pytest.raises(argparse.ArgumentTypeError, match="must be a positive number, got"):
            positive_number()(str(number))


def test_a_number_says_what_it_counts_and_how_many_there_may_be() -> None:
    read = positive_number("MiB", 1e6)
    assert read("1e6") == 1e6
    for text in ("1000001", "0", "inf", "big"):
        with pytest.raises(argparse.ArgumentTypeError) as caught:
            read(text)
        assert str(caught.value) == f"must be a positive number of MiB, at most 1,000,000, got {text!r}"


@pytest.mark.parametrize(
    "text",
    [
        "1281167",
        "1_281_167",
        "1,281,167",
        "1281167e0",
        "1.281167e6",
        "1.2811670E+6",
        "1281.167k",
        "1.281167M",
    ],
)
def test_a_count_may_be_written_as_people_write_it(text: str) -> None:
    assert digits(text) == "1281167"
    assert positive(text) == natural(text) == 1_281_167


@pytest.mark.parametrize(
    ("text", "number"),
    [("50k", 50_000), ("50K", 50_000), ("1.2M", 1_200_000), ("0.5k", 500), ("3B", 3 * 10**9)],
)
def test_a_size_is_a_whole_number(text: str, number: int) -> None:
    assert positive(text) == number


@pytest.mark.parametrize(
    "text", ["0", "0e5", "1.5", "1.5e0", "1,28", "1,281_167", ",281", "1e99", "1e-6", "-1k", "k", "1 k"]
)
def test_what_is_no_count_says_so(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        positive(text)
    assert str(caught.value) == f"must be a whole number, at least 1, got {text!r}"


@pytest.mark.parametrize("text", ["1.2m", "50G", "1.2345k", "5kk", "5min", "999999999999999k"])
def test_a_size_in_letters_that_mean_none_is_told_how_to_write_it(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        positive(text)
    assert str(caught.value).endswith(f"at least 1, got {text!r}; write a size as 50k or 1.2M")


@pytest.mark.parametrize(
    ("text", "per_s", "unit", "is_iterations"),
    [
        ("282", 282.0, None, False),
        ("2.8e2samples/s", 280.0, "samples/s", False),
        ("1.1it/s", 1.1, "it/s", True),
        (" 4 it/s", 4.0, "it/s", True),
        ("0.25s/it", 4.0, "s/it", True),
    ],
)
def test_a_rate_is_read_as_progress_bars_write_it(
    text: str, per_s: float, unit: str | None, is_iterations: bool
) -> None:
    read = rate(text)
    assert read == (text.strip(), per_s, unit)
    assert read.is_iterations is is_iterations


@pytest.mark.parametrize("text", ["0", "-5", "nan", "1e300", "fast", "0s/it", "it/s", "5 it", "1.2.3", ""])
def test_what_is_no_rate_says_so(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        rate(text)
    assert str(caught.value) == (
        "must be a positive rate such as 282 (samples/s), 1.1it/s or 0.9s/it, at most 1,000,000,000,000, "
        f"got {text!r}"
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [("5%", 0.05), ("0.05", 0.05), (".05", 0.05), ("0", 0.0), ("0%", 0.0), ("99.9%", 0.999), ("2.5%", 0.025)],
)
def test_a_share_is_read_with_its_sign_or_as_a_fraction(text: str, value: float) -> None:
    assert share(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("62", 62 * 2**30),
        ("62GiB", 62 * 2**30),
        ("0.5", 2**29),
        ("62GB", 62 * 10**9),
        (" 62.5 gb ", 62_500_000_000),
        ("2TB", 2 * 10**12),
        ("1 TiB", 2**40),
    ],
)
def test_memory_is_in_gib_unless_it_has_a_unit(text: str, size_bytes: int):
    assert memory_bytes(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["0", "-1", "62MB", "GiB", "", "1e3", "nan", "inf", "1000001", "99999999TiB"]
)
def test_memory_that_is_none_is_refused(text: str):
    with pytest.raises(argparse.ArgumentTypeError, match="must be memory in GiB such as 62"):
        memory_bytes(text)
