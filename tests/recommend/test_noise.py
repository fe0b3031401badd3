import math
import random

import pytest
from build_records import interval
from hypothesis import given
from hypothesis import strategies as st

from tunekit.recommend.noise import (
    confidence,
    mean_interval,
    mean_of_known,
    noise_floor,
    rounds_to_tell,
    speedup,
    t_quantile,
    unpaired_factor,
    verdict,
)
from tunekit.records.interval import Interval
from tunekit.records.recommendation import NoiseFloor

rates = st.floats(1e-3, 1e6)
rate_lists = st.lists(rates, min_size=2, max_size=12)


def floor(relative, pairs=4):
    return NoiseFloor(relative=relative, pairs=pairs, processes=pairs + 1)


@pytest.mark.parametrize(
    ("degrees", "t"), [(1, 12.7062047362), (4, 2.7764451052), (30, 2.0422724563), (120, 1.9799304051)]
)
def test_t_quantiles_equal_the_published_ones(degrees, t):
    assert t_quantile(degrees) == pytest.approx(t, rel=1e-7)


def test_t_goes_on_smoothly_from_the_table_to_the_normal_distribution():
    assert t_quantile(2.5) == pytest.approx(2 / (1 / t_quantile(2) + 1 / t_quantile(3)), rel=1e-9)
    assert t_quantile(12) == pytest.approx(2.1788128297, rel=1e-5)
    assert t_quantile(10**18) == pytest.approx(1.9599639845, rel=1e-9)
    assert t_quantile(30, 0.99) == pytest.approx(2.7499956536, rel=1e-6)


def test_the_noise_floor_is_the_root_mean_square_of_consecutive_log_ratios():
    # Log ratios 0.03 and -0.04.
    found = noise_floor([100.0, 100 * math.exp(0.03), 100 * math.exp(-0.01)])
    assert found.relative == pytest.approx(math.expm1(math.sqrt((0.03**2 + 0.04**2) / 2)), rel=1e-12)
    assert (found.pairs, found.processes) == (2, 3)


def test_fewer_than_two_processes_have_no_noise_floor():
    assert noise_floor([]) is None
    assert noise_floor([100.0]) is None


@given(rate_lists, st.floats(1e-3, 1e3))
def test_the_noise_floor_is_a_ratio(values, factor):
    scaled = noise_floor([value * factor for value in values])
    assert scaled.relative == pytest.approx(noise_floor(values).relative, rel=1e-6, abs=1e-9)
    assert noise_floor(values[::-1]).relative == pytest.approx(noise_floor(values).relative, rel=1e-9)


def test_the_speedup_of_paired_rounds_by_hand():
    # Ratios 2.0 and 2.0 * e^0.1: mean log + half = 0.05 +- 12.706 * 0.1 / 2.
    found = speedup([200.0, 220.0 * math.exp(0.1)], [100.0, 110.0])
    half = 12.7062047361747 * 0.05
    assert found.value == pytest.approx(2 * math.exp(0.05), rel=1e-12)
    assert found.low == pytest.approx(2 * math.exp(0.05 - half), rel=1e-9)
    assert found.high == pytest.approx(2 * math.exp(0.05 + half), rel=1e-9)


def test_one_round_takes_its_range_from_the_noise_floor():
    found = speedup([150.0], [100.0], floor(0.05))
    assert found.value == pytest.approx(1.5, rel=1e-12)
    assert found.high / found.value == pytest.approx(1.05**2.7764451052, rel=1e-9)
    assert found.value / found.low == pytest.approx(found.high / found.value, rel=1e-12)


def test_a_speedup_with_unknown_range_is_no_speedup():
    assert speedup([150.0], [100.0]) is None
    assert speedup([], [], floor(0.05)) is None


def test_rates_that_do_not_pair_are_refused():
    with pytest.raises(ValueError, match="longer"):
        speedup([1.0], [1.0, 2.0])


@given(st.lists(st.tuples(rates, rates), min_size=2, max_size=8))
def test_the_inverse_comparison_has_the_inverse_range(pairs):
    ours, theirs = zip(*pairs, strict=True)
    there, back = speedup(ours, theirs), speedup(theirs, ours)
    assert math.log(there.value) == pytest.approx(-math.log(back.value), rel=1e-9, abs=1e-9)
    if back.low > 1e-280 and there.low > 1e-280:
        assert math.log(there.high) == pytest.approx(-math.log(back.low), rel=1e-9, abs=1e-9)


def test_a_mean_of_several_processes_by_hand():
    found = mean_interval([100.0, 100.0 * math.exp(0.2), 100.0 * math.exp(0.1)])
    half = 4.302652729911275 * 0.1 / math.sqrt(3)
    assert found.value == pytest.approx(100 * math.exp(0.1), rel=1e-12)
    assert found.high == pytest.approx(found.value * math.exp(half), rel=1e-9)


def test_a_mean_leaves_out_what_is_no_figure():
    assert mean_of_known([0.0, 100.0, math.inf, 400.0]) == mean_interval([100.0, 400.0])
    assert mean_of_known([0.0, math.inf]) is None


@pytest.mark.parametrize(
    ("ratio", "noise", "expected"),
    [
        (interval(1.2), floor(0.05), "faster"),
        (interval(1.03, 0.01), floor(0.05), "no gain"),
        (interval(1.06, 0.01), floor(0.10), "inconclusive"),
        (interval(1.04, 0.01), None, "faster"),
        (interval(1.5, 0.5), floor(0.05), "inconclusive"),
        (Interval(value=1.83, low=0.24, high=13.73), floor(0.02), "inconclusive"),
        (interval(0.8), floor(0.05), "slower"),
        (interval(0.97, 0.01), floor(0.05), "no gain"),
        (interval(0.97, 0.06), floor(0.05), "no gain"),
        (interval(1.0, 0.0), None, "no gain"),
    ],
)
def test_a_speedup_is_confirmed_or_excluded_or_left_open(ratio, noise, expected):
    assert verdict(ratio, noise) == expected


@pytest.mark.parametrize(
    ("factor", "noise", "expected"),
    [
        (interval(1.2), floor(0.05), "faster"),
        (interval(0.8), floor(0.05), "slower"),
        (interval(1.0, 0.02), floor(0.02), "no difference"),
        (interval(0.97, 0.06), floor(0.05), "inconclusive"),
    ],
)
def test_a_difference_is_one_either_way_or_excluded_or_left_open(factor, noise, expected):
    assert verdict(factor, noise, seeks_gain=False) == expected


@pytest.mark.parametrize(
    ("half", "noise", "expected"),
    [
        (0.05, floor(0.016), "high"),
        (0.05, floor(0.07), "medium"),
        (0.05, floor(0.17), "low"),
        (0.05, None, "low"),
        (0.20, floor(0.016), "medium"),
        (0.50, floor(0.016), "low"),
    ],
)
def test_confidence_follows_the_noise_and_the_range(half, noise, expected):
    assert confidence(interval(1.6, half), noise) == expected


@given(rate_lists, st.floats(0, 1))
def test_a_config_against_itself_is_never_faster(values, relative):
    assert verdict(speedup(values, values), floor(relative)) == "no gain"


@given(st.floats(0.5, 2.0), st.floats(0.01, 0.5), st.integers(2, 10), st.floats(0.001, 0.3))
def test_as_many_rounds_as_would_tell_leave_nothing_open(value, half, rounds, relative):
    def ratio_of(share: float) -> Interval:
        reach = math.exp(share * half)
        return Interval(value=value, low=value / reach, high=value * reach)

    needed = rounds_to_tell(ratio_of(1.0), rounds, floor(relative))
    between = value <= 1 + relative * (1 + 1e-9) and math.log(1.05 / value) < half / 99
    if needed is None:
        assert between or 0 < math.log(value) < half / 99
    else:
        assert needed >= rounds
        assert verdict(ratio_of(math.sqrt(rounds / needed)), floor(relative)) != "inconclusive"


# --- processes of two runs -----------------------------------------------------------------


def test_welchs_range_by_hand():
    # Log rates 0.1 +- 0.1 (variance 0.01, 3 processes) over 0 +- 0.2 (variance 0.04, 3 processes).
    found = unpaired_factor([math.exp(x) for x in (0.0, 0.1, 0.2)], [math.exp(x) for x in (-0.2, 0.0, 0.2)])
    degrees = (0.01 / 3 + 0.04 / 3) ** 2 / ((0.01 / 3) ** 2 / 2 + (0.04 / 3) ** 2 / 2)
    assert degrees == pytest.approx(50 / 17, rel=1e-12)
    t = 1 / ((3 - degrees) / 4.302652729911275 + (degrees - 2) / 3.182446305284263)
    half = t * math.sqrt(0.05 / 3)
    assert found.value == pytest.approx(math.exp(0.1), rel=1e-12)
    assert found.low == pytest.approx(math.exp(0.1 - half), rel=1e-9)
    assert found.high == pytest.approx(math.exp(0.1 + half), rel=1e-9)


@given(rate_lists, st.floats(0, 1))
def test_a_run_against_its_own_copy_is_never_different(values, relative):
    judged = verdict(unpaired_factor(values, values), floor(relative), seeks_gain=False)
    assert judged in ("no difference", "inconclusive")


def covered_share(own: tuple[int, float], other: tuple[int, float], experiments: int = 3000) -> float:
    """How often the range holds the true factor: log-normal rates, each side (processes, spread)."""
    chance, truth, held = random.Random(20260102), math.log(0.9), 0
    for _ in range(experiments):
        ours = [math.exp(truth + chance.gauss(0, own[1])) for _ in range(own[0])]
        theirs = [math.exp(chance.gauss(0, other[1])) for _ in range(other[0])]
        found = unpaired_factor(ours, theirs)
        held += found.low <= math.exp(truth) <= found.high
    return held / experiments


@pytest.mark.parametrize(
    ("own", "other", "least"),
    [
        ((5, 0.08), (3, 0.02), 0.95),
        ((2, 0.05), (12, 0.05), 0.90),
    ],
)
def test_the_range_of_two_runs_holds_the_truth_as_often_as_it_says(own, other, least):
    # Three standard errors of a share of 0.95 in 3,000 experiments are 0.012.
    assert covered_share(own, other) >= least - 0.012


def test_one_process_takes_its_spread_from_its_own_runs_noise():
    found = unpaired_factor([90.0], [100.0], floor(0.05), floor(0.05))
    # The variance of a ratio of two processes is what the floor is of; 4 pairs on either side.
    half = t_quantile(8) * math.log(1.05)
    assert found.high / found.value == pytest.approx(math.exp(half), rel=1e-9)
    noisier = unpaired_factor([90.0], [100.0], floor(0.2), floor(0.05))
    assert noisier.low < found.low < found.high < noisier.high


def test_too_few_processes_tell_nothing():
    assert unpaired_factor([90.0], [100.0, 101.0]) is None
    assert unpaired_factor([90.0], [100.0, 101.0], None, floor(0.05)) is None
    assert unpaired_factor([90.0, 91.0], [100.0], floor(0.05)) is None
    assert unpaired_factor([], [100.0, 101.0], floor(0.05), floor(0.05)) is None
    assert unpaired_factor([90.0, 91.0], []) is None
