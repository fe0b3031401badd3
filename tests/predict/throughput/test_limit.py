"""What binds follows from what each part of the loop would allow alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.throughput.model import Ceilings, limit_of
from tunekit.records.recommendation import Limit

rates = st.floats(1e-3, 1e9)


@pytest.mark.parametrize(
    ("loader", "training", "cores", "limit"),
    [
        (400.0, 900.0, 2000.0, Limit.LOADER),
        (900.0, 400.0, 2000.0, Limit.TRAINING),
        (950.0, 900.0, 2000.0, Limit.BOTH),
        (900.0, 950.0, 2000.0, Limit.BOTH),
        (900.0, 400.0, 300.0, Limit.CORES),
        (400.0, 900.0, 300.0, Limit.CORES),
        (900.0, 400.0, 390.0, Limit.TRAINING),
        (900.0, 400.0, None, Limit.TRAINING),
    ],
)
def test_with_workers_the_lowest_ceiling_binds(
    loader: float, training: float, cores: float | None, limit: Limit
):
    assert limit_of(Ceilings(loader, training, cores), with_workers=True) is limit


@pytest.mark.parametrize(
    ("loader", "training", "limit"),
    [
        (400.0, 655.0, Limit.TURNS),
        (400.0, 40_000.0, Limit.LOADER),
        (40_000.0, 400.0, Limit.TRAINING),
    ],
)
def test_without_workers_the_two_wait_for_each_other_unless_one_takes_next_to_nothing(
    loader: float, training: float, limit: Limit
):
    assert limit_of(Ceilings(loader, training, None), with_workers=False) is limit


@given(rates, st.booleans())
def test_what_is_unknown_binds_nothing(rate: float, with_workers: bool):
    assert limit_of(Ceilings(None, rate, None), with_workers) is None
    assert limit_of(Ceilings(rate, None, None), with_workers) is None
