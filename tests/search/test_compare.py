"""Configs side by side: paired by round, and nothing claimed that one process can't tell."""

import pytest
from build_records import config, confirm_records, trial_record

from tunekit.recommend.noise import noise_floor
from tunekit.search.compare import contender, factor, processes_noise, product

PLAIN = confirm_records([100.0, 110.0, 120.0])


def test_rounds_in_which_one_of_them_failed_are_left_out():
    other = confirm_records([200.0, None, 240.0], config(num_workers=4), first_number=10)
    found = contender("four", config(num_workers=4), other, PLAIN)
    assert found.trials == (10, 11, 12)
    assert found.factor is not None
    assert found.factor.value == pytest.approx(2.0)
    assert found.why_missing is None


def test_one_round_has_a_range_only_from_the_noise_floor():
    other = confirm_records([200.0], config(num_workers=4))
    assert factor(other, PLAIN[:1], None) is None
    found = factor(other, PLAIN[:1], noise_floor([100.0, 104.0]))
    assert found is not None
    assert found.low < 2.0 < found.high


def test_what_never_ran_says_why():
    failed = contender("x", config(), confirm_records([None]), PLAIN)
    assert failed.rate_samples_per_s is None
    assert failed.factor is None
    assert failed.why_missing == "device_oom: CUDA out of memory"
    assert contender("x", config(), ()).why_missing == "not run"


def test_a_process_that_gives_no_interval_has_a_rate_without_one():
    alone = contender("x", config(), (trial_record(0, 100.0, rate_interval_relative=None),))
    assert alone.rate_samples_per_s is not None
    assert alone.rate_samples_per_s.low == alone.rate_samples_per_s.high == pytest.approx(100.0)


def test_processes_differ_only_where_there_are_two():
    assert processes_noise(PLAIN[:1]) is None
    assert processes_noise(PLAIN).pairs == 2


def test_an_unknown_factor_has_no_product():
    known = contender("a", config(), confirm_records([200.0, 220.0, 240.0]), PLAIN)
    unknown = contender("b", config(), (), PLAIN)
    assert product([known, known]) == pytest.approx(4.0)
    assert product([known, unknown]) is None
    assert product([]) is None
