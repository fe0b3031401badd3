"""What trials on several processes come to: rates, efficiency, the split of an iteration, the law, lr."""

import pytest
from build_records import config, profile
from build_scaling import GRADIENTS, Step, bare_run, scaled, scaling_trial, seen
from machine.shipped import PROFILES

from tunekit.predict.scaling import expected_maximum
from tunekit.recommend.measured_scaling import (
    gradients_of,
    why_no_further,
    with_figures,
)
from tunekit.records.data_parallel import DataParallelKind
from tunekit.records.interval import EXACTLY_ONE, Interval
from tunekit.records.recommendation import LearningRateRule
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScaledCount, ScaleOptions, ScalingRun


def count(run: ScalingRun, processes: int) -> ScaledCount:
    return next(one for one in run.counts if one.processes == processes)


def test_rates_are_of_all_processes_and_efficiency_of_each_against_the_least():
    run = scaled(Step(jitter=0.0))
    alone, four = count(run, 1), count(run, 4)
    assert alone.rate_samples_per_s is not None and four.rate_samples_per_s is not None
    assert alone.rate_samples_per_s.value == pytest.approx(1280)
    step_s = 0.100 * (1 + 0.02 * expected_maximum(4)) + 0.010 * 1.5
    assert four.rate_samples_per_s.value == pytest.approx(4 * 128 / step_s)
    assert four.efficiency is not None
    assert four.efficiency.value == pytest.approx(0.1 / step_s)
    assert alone.efficiency == EXACTLY_ONE


def test_rounds_in_turns_leave_what_changes_from_round_to_round_out_of_the_efficiency():
    run = scaled(Step(jitter=0.3))
    four = count(run, 4)
    assert four.rate_samples_per_s is not None and four.efficiency is not None
    assert four.rate_samples_per_s.high > 2 * four.rate_samples_per_s.low
    assert four.efficiency.high == pytest.approx(four.efficiency.low, rel=1e-6)


def test_one_round_has_the_range_that_its_processes_give_themselves():
    run = scaled(rounds=1)
    four = count(run, 4)
    assert four.rate_samples_per_s is not None and four.efficiency is not None
    assert four.rate_samples_per_s.high / four.rate_samples_per_s.value == pytest.approx(1.01)
    assert four.efficiency.high / four.efficiency.value == pytest.approx(1.01 / 0.99)


def test_an_iteration_splits_into_what_a_rank_takes_the_slowest_and_the_sum_of_gradients():
    step = Step(wait_s=0.002, jitter=0.0)
    four = count(scaled(step), 4).step
    assert four is not None and four.exposed_s is not None and four.straggler_s is not None
    own_s = 0.100 + 4 * 0.002
    together_s = own_s + 0.02 * 0.100 * expected_maximum(4) + 0.010 * 1.5
    # Apart, three ranks take their own time and the fourth a fiftieth more.
    mean_rate = (3 + 1 / 1.02) / 4
    assert four.time_s == pytest.approx(together_s)
    assert four.exposed_s == pytest.approx(together_s - own_s * 1.02)
    assert four.straggler_s == pytest.approx(own_s * 1.02 - own_s / mean_rate)
    assert four.data_wait_s == pytest.approx(0.008)
    parts = four.compute_s + four.exposed_s + four.straggler_s + four.data_wait_s
    assert parts == pytest.approx(four.time_s)


def test_one_process_has_nobody_to_wait_for():
    alone = count(scaled(), 1).step
    assert alone is not None
    assert (alone.exposed_s, alone.straggler_s) == (None, None)
    assert alone.compute_s == pytest.approx(0.1, rel=0.01)


def test_the_law_that_the_rates_were_made_with_is_fitted_and_speaks_of_more_processes():
    run = scaled(Step(jitter=0.0), processes=(1, 2, 4, 8))
    assert run.fit is not None
    assert run.fit.communication == pytest.approx(0.1)
    assert run.fit.spread == pytest.approx(0.02)
    eight = count(run, 8)
    assert eight.efficiency is not None
    assert eight.fitted == pytest.approx(eight.efficiency.value)
    assert [one.processes for one in run.expected] == [16, 32]
    further = run.expected[0]
    assert further.efficiency is not None and further.rate_samples_per_s is not None
    assert further.rate_samples_per_s.value == pytest.approx(16 * 1280 * further.efficiency.value)
    for one in (further.efficiency, further.rate_samples_per_s):
        assert one.high / one.low == pytest.approx(eight.efficiency.high / eight.efficiency.low)


def test_the_law_is_not_asked_further_than_the_largest_count_is_known():
    (largest,) = (one for one in scaled(processes=(1, 2, 4, 8)).counts if one.processes == 8)
    for high, is_asked in ((0.59, True), (0.61, False)):
        known = largest.changed(efficiency=Interval(value=0.5, low=0.3, high=high))
        assert (why_no_further(known) is None) is is_asked


def test_waiting_for_data_is_no_part_of_the_law():
    waits = scaled(Step(jitter=0.0, wait_s=0.005), processes=(1, 2, 4, 8))
    assert waits.fit is not None
    assert waits.fit.communication == pytest.approx(0.1)
    assert waits.fit.spread == pytest.approx(0.02)
    eight = count(waits, 8)
    assert eight.efficiency is not None and eight.fitted is not None
    assert eight.efficiency.value < 0.8 < eight.fitted
    assert waits.expected == ()


def test_processes_that_are_not_seen_to_sum_gradients_follow_no_law():
    bare = seen(kind=DataParallelKind.NONE, syncs_gradients=None, gradient_bytes=None)
    run = scaled(loop=lambda n: {"data_parallel": bare if n > 1 else None}, here=PROFILES["h100-sxm"])
    assert (run.fit, run.expected) == (None, ())
    assert {(one.fitted, one.predicted) for one in run.counts} == {(None, None)}
    together = scaled(here=PROFILES["h100-sxm"])
    assert together.fit is not None
    assert count(together, 4).predicted is not None


def test_the_prediction_follows_from_one_process_its_gradients_and_the_link():
    run = scaled(here=PROFILES["h100-sxm"])
    four = count(run, 4).predicted
    assert four is not None
    assert (four.gpus, four.link) == (4, "NVLink")
    assert four.compute_s == pytest.approx(0.1, rel=0.01)
    assert four.efficiency.value > 0.99


def test_a_prediction_needs_a_known_link_and_a_count_of_one():
    assert count(scaled(here=profile("cpu", compute_capability=None)), 4).predicted is None
    assert count(scaled(processes=(2, 4)), 4).predicted is None


def test_gradients_are_as_ddp_sends_them_else_those_of_the_model():
    fp16 = scaled(loop=lambda n: {"data_parallel": seen(gradient_bytes=GRADIENTS // 2)} if n > 1 else {})
    assert gradients_of(fp16) == GRADIENTS // 2
    unknown = scaled(loop=lambda n: {"data_parallel": None})
    assert gradients_of(unknown) == GRADIENTS
    assert gradients_of(scaled(loop=lambda n: {"data_parallel": None, "model": None})) is None


def test_the_learning_rate_follows_the_global_batch_with_the_warning_of_its_rule():
    run = scaled(options=ScaleOptions(processes=(1, 2, 4), base_lr=0.1, base_batch=8))
    four = count(run, 4)
    assert run.lr_rule is LearningRateRule.LINEAR
    assert four.lr_linear == pytest.approx(0.1 * 512 / 8)
    assert four.lr_sqrt == pytest.approx(0.1 * (512 / 8) ** 0.5)
    assert count(scaled(), 4).lr_linear == pytest.approx(0.4)
    assert count(scaled(), 4).warnings == ()
    large = scaled(processes=(1, 128))
    assert "beyond what the source of the linear rule shows" in count(large, 128).warnings[0]


def test_a_shared_global_batch_is_strong_scaling():
    own = config()
    trials = tuple(
        scaling_trial(number, n, of=config(batch_size=128 // n), baseline=own)
        for number, n in enumerate((1, 2, 4))
    )
    run = with_figures(bare_run(trials=trials), profile())
    assert run.mode is ScalingMode.STRONG
    four = count(run, 4)
    assert (four.batch_size, four.global_batch) == (32, 128)
    assert four.efficiency is not None
    step_s = 0.025 * (1 + 0.02 * expected_maximum(4)) + 0.015
    assert four.efficiency.value == pytest.approx(0.1 / 4 / step_s)


def test_nothing_measured_is_nothing_but_reasons():
    run = with_figures(bare_run(), profile())
    assert {one.why_missing for one in run.counts} == {"not run"}
    assert run.measured == ()
    assert (run.reference, run.largest) == (None, None)
