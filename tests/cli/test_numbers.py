"""Numbers on the command line: what is taken, and what is not."""

import argparse
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.cli.numbers import memory_bytes, natural, positive, positive_number, rate, share

MIB = positive_number("MiB", 1e6)
READ = [
    (positive, {"50k": 50_000, "50K": 50_000, "1.2M": 1_200_000, "0.5k": 500, "3B": 3 * 10**9}),
    (positive, dict.fromkeys(("1281167", "1_281_167", "1,281,167", "1281167e0", "1.281167e6"), 1_281_167)),
    (positive, dict.fromkeys(("1.2811670E+6", "1281.167k", "1.281167M"), 1_281_167)),
    (MIB, {"1e6": 1e6}),
    (rate, {"282": ("282", 282.0, None), "2.8e2samples/s": ("2.8e2samples/s", 280.0, "samples/s")}),
    (rate, {" 4 it/s": ("4 it/s", 4.0, "it/s"), "0.25s/it": ("0.25s/it", 4.0, "s/it")}),
    (share, {"5%": 0.05, "0.05": 0.05, ".05": 0.05, "0": 0.0, "0%": 0.0, "50%": 0.5}),
    (memory_bytes, {"62": 62 * 2**30, "62GiB": 62 * 2**30, "0.5": 2**29, "62GB": 62 * 10**9}),
    (memory_bytes, {" 62.5 gb ": 62_500_000_000, "2TB": 2 * 10**12, "1 TiB": 2**40}),
]
REFUSED = [
    (natural, ("-1", "1.5", "", " 1", "1e-3", "1_00", "9" * 16, "many")),
    (positive, ("0", "0e5", "1.5e0", "1,28", "1,281_167", ",281", "1e99", "1e-6", "-1k", "k", "1 k")),
    (positive, ("1.2m", "50G", "1.2345k", "5kk", "5min", "999999999999999k")),
    (MIB, ("1000001", "0", "inf", "big")),
    (rate, ("0", "-5", "nan", "1e300", "1e13", "fast", "0s/it", "it/s", "5 it", "1.2.3", "")),
    (share, ("100%", "5", "-1%", "x")),
    (memory_bytes, ("0", "-1", "62MB", "GiB", "", "1e3", "nan", "inf", "1000001", "99999999TiB")),
]


@pytest.mark.parametrize(("read", "values"), READ)
def test_a_number_may_be_written_as_people_write_it(read: Callable[[str], Any], values: dict[str, Any]):
    assert {text: read(text) for text in values} == values


@pytest.mark.parametrize(("read", "texts"), REFUSED)
def test_what_is_no_number_is_refused_with_what_it_must_be(
    read: Callable[[str], Any], texts: tuple[str, ...]
):
    for text in texts:
        with pytest.raises(argparse.ArgumentTypeError, match=r"^must be .*, got "):
            read(text)


@given(st.integers(0, 10**15 - 1))
def test_a_whole_number_is_read_as_it_is_written(number: int) -> None:
    assert natural(str(number)) == number


@given(st.floats())
def test_a_number_is_read_if_it_is_positive_and_finite(number: float) -> None:
    if 0 < number < math.inf:
        assert positive_number()(str(number)) == number
    else:
        with pytest.raises(argparse.ArgumentTypeError, match="must be a positive number, got"):
            positive_number()(str(number))
