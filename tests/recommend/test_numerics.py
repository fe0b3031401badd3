"""Losses of two runs: noise and rounding pass, what spoils a training does not."""

import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_losses import CURVES, HARMS, curve, decreasing, is_a_fifth_worse, is_stuck, rounded

from tunekit.recommend.numerics import FALL_SHARE, MIN_STEPS, judge_losses
from tunekit.records.recommendation import LossOutcome

OK, NONFINITE, DIVERGENT, UNKNOWN = LossOutcome
NOISE = {"noise": 0.1, "offset": 0.02}
PAIRS = 60


def seeded(name: str, number: int, processes: int, harm=None) -> LossOutcome:
    """One pair of a script that sets its seed."""
    baseline = [curve(CURVES[name], 64, number, **NOISE)] * processes
    return judge_losses(
        baseline, rounded(curve(CURVES[name], 64, number, harm=harm, **NOISE), number)
    ).outcome


def unseeded(name: str, number: int, processes: int, harm=None) -> LossOutcome:
    baseline = [curve(CURVES[name], 64, f"{number} {process}", **NOISE) for process in range(processes)]
    own = curve(CURVES[name], 64, f"{number} own", harm=harm, **NOISE)
    return judge_losses(baseline, rounded(own, number)).outcome


@pytest.mark.parametrize("processes", [1, 3, 6])
@pytest.mark.parametrize("name", CURVES)
def test_rounding_of_a_seeded_training_is_never_divergence(name: str, processes: int):
    assert {seeded(name, number, processes) for number in range(PAIRS)} == {OK}


@pytest.mark.parametrize("processes", [1, 3, 6])
def test_another_seed_is_hardly_ever_divergence(processes: int):
    alarms = [unseeded(name, number, processes) for name in CURVES for number in range(PAIRS)]
    assert alarms.count(DIVERGENT) <= 0.01 * len(alarms)


@pytest.mark.parametrize("judged", [seeded, unseeded])
@pytest.mark.parametrize("processes", [1, 3, 6])
@pytest.mark.parametrize("name", ["decreasing", "steep", "negative"])
def test_a_loss_that_stays_where_it_started_is_divergence(name: str, processes: int, judged):
    assert {judged(name, number, processes, is_stuck) for number in range(20)} == {DIVERGENT}


@pytest.mark.parametrize("judged", [seeded, unseeded])
@pytest.mark.parametrize("name", sorted(set(CURVES) - {"GAN, swinging"}))
def test_a_loss_that_rises_from_the_middle_is_divergence(name: str, judged):
    harm = HARMS["rises from the middle"]
    assert {judged(name, number, 3, harm) for number in range(20)} == {DIVERGENT}


@pytest.mark.parametrize("name", ["decreasing", "slow", "flat", "negative", "GAN, swinging"])
def test_a_fifth_worse_is_divergence_where_the_seed_is_the_same(name: str):
    assert {seeded(name, number, 1, is_a_fifth_worse) for number in range(20)} == {DIVERGENT}


def test_the_figures_are_those_of_the_last_quarter():
    baseline = [[4.0] * 16 + [2.0] * 48, [4.0] * 16 + [1.0] * 48]
    verdict = judge_losses(baseline, [4.0] * 16 + [1.6] * 48)
    assert (verdict.steps, verdict.end_steps) == (64, 16)
    assert (verdict.baseline_end, verdict.candidate_end) == (1.5, 1.6)
    assert verdict.spread == pytest.approx(math.sqrt(0.5))


def test_only_what_both_have_is_compared():
    long = curve(decreasing, 200, 1, **NOISE)
    verdict = judge_losses([long, long[:150]], [*long[:64]])
    assert (verdict.outcome, verdict.steps) == (OK, 64)
    assert judge_losses([long, long[:20]], long).steps == 200, "a process that ended early is left out"


@pytest.mark.parametrize("steps", [0, 1, MIN_STEPS - 1])
def test_few_losses_say_nothing(steps: int):
    long = curve(decreasing, 64, 1, **NOISE)
    assert judge_losses([long], long[:steps]).outcome is UNKNOWN
    assert judge_losses([long[:steps]], long).outcome is UNKNOWN
    assert judge_losses([], long).outcome is UNKNOWN


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_a_loss_that_is_none_is_told_however_short_the_run(missing):
    assert judge_losses([[1.0] * 64], [1.0, missing]).outcome is NONFINITE


def test_a_loss_that_is_none_in_the_baseline_too_is_no_finding():
    spoilt = [None, *([1.0] * 63)]
    assert judge_losses([spoilt], spoilt).outcome is OK
    assert judge_losses([spoilt], [None, None, *([1.0] * 62)]).outcome is NONFINITE
    assert judge_losses([[None] * 64], [None] * 64).outcome is UNKNOWN


def test_a_harm_below_the_share_of_what_was_achieved_passes():
    same = [10.0 - index * 9 / 63 for index in range(64)]
    fall = fmean(same[:8]) - fmean(same[48:])
    less, more = (
        [loss + share * fall * index / 55.5 for index, loss in enumerate(same)]
        for share in (0.9 * FALL_SHARE, 2.5 * FALL_SHARE)
    )
    assert judge_losses([same, same], less).outcome is OK
    assert judge_losses([same, same], more).outcome is DIVERGENT


losses = st.lists(st.none() | st.floats(allow_nan=True, allow_infinity=True), max_size=80)


@given(st.lists(losses, max_size=4), losses)
def test_any_losses_get_a_verdict(baseline: list, candidate: list):
    verdict = judge_losses(baseline, candidate)
    assert verdict.outcome in LossOutcome
    if verdict.outcome in (OK, DIVERGENT):
        assert verdict.steps >= MIN_STEPS
        assert verdict.baseline_end is not None and math.isfinite(verdict.baseline_end)
    if candidate in baseline:
        assert verdict.outcome in (OK, UNKNOWN, DIVERGENT)
    if len(baseline) == 1 and candidate == baseline[0]:
        assert verdict.outcome in (OK, UNKNOWN)
