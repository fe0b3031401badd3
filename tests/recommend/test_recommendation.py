from dataclasses import replace
from typing import Any

import pytest
from build_records import (
    GIB,
    baseline_record,
    config,
    configs,
    confirm_records,
    discovery,
    host,
    options,
    trial_record,
)
from hypothesis import given
from hypothesis import strategies as st

from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.recommendation import Comparison, recommend, settle
from tunekit.recommend.tiers import violations
from tunekit.records.details import Details, LargestSamples
from tunekit.records.recommendation import NoiseFloor, Recommendation, Tier
from tunekit.records.run import Objective
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord

tuned = config(batch_size=256, num_workers=4)
own = config(batch_size=64)


def comparison(baseline_rates=(500.0, 510.0, 490.0), **overrides):
    values = {
        "host": host(),
        "options": options(),
        "noise": NoiseFloor(relative=0.04, pairs=2, processes=3),
        "discovery": discovery("SGD", 0.1),
        "baseline": baseline_record(of=own),
        "baseline_confirm": confirm_records(list(baseline_rates), own, first_number=200),
    }
    return Comparison(**(values | overrides))


def tier_of(rates, against=None, tier=Tier.BALANCED, search_rate=9999.0, **more):
    pick = trial_record(7, search_rate, tuned)
    return recommend(tier, pick, confirm_records(rates, tuned, **more), against or comparison())


def test_figures_come_from_the_confirming_processes_alone():
    found = tier_of([1000.0, 1020.0, 980.0])
    assert found.search_trial == 7
    assert found.confirm_trials == (100, 101, 102)
    assert found.rate_samples_per_s.value == pytest.approx((1000 * 1020 * 980) ** (1 / 3), rel=1e-12)
    assert found.rate_samples_per_s.high < 1100
    assert found.it_per_s.value == pytest.approx(found.rate_samples_per_s.value / 256, rel=1e-12)
    assert found.speedup.value == pytest.approx(2.0, rel=1e-12)
    assert found.speedup.low == pytest.approx(2.0, rel=1e-12)
    assert found.epoch_time_s == pytest.approx(50_000 / found.rate_samples_per_s.value, rel=1e-12)
    assert found.buffer_bytes == 4 * 2 * 256 * 1000
    assert found.base_ram_bytes == GIB
    assert found.peak_reserved_bytes == 5 * GIB
    assert found.device_memory_bytes == 22 * GIB
    assert found.learning_rate.value == pytest.approx(0.4, rel=1e-12)
    assert not found.is_baseline


def looked(record: TrialRecord, **seen: Any) -> TrialRecord:
    """A process that trained on the data set's largest samples too."""
    assert record.measurement is not None
    largest = LargestSamples(varies=True, is_given=True, survived=True, **seen)
    measured = record.measurement.model_copy(update={"details": Details(largest=largest)})
    return record.model_copy(update={"measurement": measured})


def test_memory_counts_the_largest_samples():
    first, *rest = confirm_records([1000.0, 1010.0], tuned)
    usual = recommend(Tier.BALANCED, trial_record(7, 1.0, tuned), [first, *rest], comparison())
    seen = looked(first, batch_bytes=10 * 256 * 1000, usual_batch_bytes=1, peak_reserved_bytes=15 * GIB)
    found = recommend(Tier.BALANCED, trial_record(7, 1.0, tuned), [seen, *rest], comparison())
    assert isinstance(usual, Recommendation) and isinstance(found, Recommendation)
    assert (usual.peak_reserved_bytes, found.peak_reserved_bytes) == (5 * GIB, 15 * GIB)
    assert found.buffer_bytes == 10 * usual.buffer_bytes
    assert usual.largest is None
    assert found.largest is not None
    assert found.rate_samples_per_s == usual.rate_samples_per_s


def test_a_baseline_that_ran_out_on_the_largest_samples_takes_no_tiers_place():
    ran_out = Failure(kind=OutcomeKind.DEVICE_OOM, message="out", largest=LargestSamples(varies=True))
    first, *rest = confirm_records([None, 510.0, 490.0], own, first_number=200)
    failed = first.model_copy(update={"failure": ran_out})
    slower = tier_of([300.0, 310.0, 290.0])
    assert isinstance(slower, Recommendation)
    assert settle(slower, comparison()).is_baseline
    assert not settle(slower, comparison(baseline_confirm=(failed, *rest))).is_baseline


def test_the_round_of_a_failed_confirmation_is_left_out():
    found = tier_of([1000.0, None, 980.0], tier=Tier.AGGRESSIVE)
    assert found.confirm_trials == (100, 102)
    assert found.speedup.value == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("baseline_rates", [(), (None, None, None)])
def test_a_baseline_that_can_not_run_leaves_the_speedup_open(baseline_rates):
    against = comparison(baseline_rates, noise=None, baseline=baseline_record(rate=None, of=own))
    found = tier_of([1000.0, 1020.0, 980.0], against)
    assert found.speedup is None
    assert found.learning_rate.base_batch == 64
    assert settle(found, against) == found


@pytest.mark.parametrize(("rates", "is_known"), [((None, 5.0, None, 5.0), False), ((5.0, None, 5.0), True)])
def test_a_speedup_rests_on_two_rounds_that_both_have(rates, is_known):
    found = tier_of([1000.0, None, 1000.0, None], comparison(rates))
    assert (found.speedup is not None) == is_known


def test_one_confirming_round_recommends_nothing_unless_one_was_asked_for():
    assert tier_of([1000.0, None]) is tier_of([]) is None
    assert tier_of([1000.0], comparison(options=options(confirm_rounds=1))).speedup is not None


def test_a_tier_confirmed_slower_gives_way_to_the_baseline():
    against = comparison()
    found = settle(tier_of([400.0, 408.0, 392.0], against), against)
    assert found.config == own
    assert found.is_baseline
    assert found.confirm_trials == (200, 201, 202)
    assert found.speedup.value == 1.0


def settled_pick(tier: Tier, batch_size: int, rates: list[float]) -> Recommendation:
    """What comes of a pick of that batch size, whose own rate is about 500."""
    pick, against = own.changed(batch_size=batch_size), comparison()
    found = recommend(tier, trial_record(7, 500.0, pick), confirm_records(rates, pick), against)
    assert isinstance(found, Recommendation)
    return settle(found, against)


@pytest.mark.parametrize("tier", Tier)
def test_a_gain_that_is_not_shown_leaves_the_baseline_but_for_aggressive(tier: Tier):
    settled = settled_pick(tier, own.batch_size * 2, [450.0, 570.0, 500.0])
    assert settled.is_baseline == (tier is not Tier.AGGRESSIVE)
    if settled.is_baseline:
        assert settled.set_aside is not None
        assert settled.set_aside.config.batch_size == own.batch_size * 2
        assert settled.set_aside.speedup.low < 1 < settled.set_aside.speedup.high


@pytest.mark.parametrize(
    ("rates", "stays"),
    [([500.0, 512.0, 489.0], True), ([400.0, 600.0, 500.0], False)],
    ids=["as-fast", "open"],
)
def test_a_smaller_pick_stays_where_it_is_shown_to_be_as_fast(rates: list[float], stays: bool):
    assert settled_pick(Tier.BALANCED, own.batch_size // 2, rates).is_baseline != stays


@pytest.mark.parametrize("rates", [[450.0, 570.0, 500.0], [850.0, 860.0, 840.0]], ids=["open", "slower"])
@pytest.mark.parametrize("tier", [Tier.BALANCED, Tier.AGGRESSIVE])
def test_a_smaller_tiers_confirmed_gain_takes_the_place_of_one_that_is_not_larger(
    tier: Tier, rates: list[float]
):
    against, smaller = comparison(), own.changed(batch_size=32)
    pick = recommend(
        Tier.CONSERVATIVE,
        trial_record(6, 900.0, smaller),
        confirm_records([900.0, 910.0, 890.0], smaller),
        against,
    )
    assert isinstance(pick, Recommendation)
    found = settle(tier_of(rates, against, tier), against, earlier=(settle(pick, against),))
    assert (found.config, found.tier, found.same_as) == (smaller, tier, Tier.CONSERVATIVE)
    assert found.speedup is not None
    assert found.speedup.low > 1
    assert found.set_aside is not None


def test_the_baseline_takes_no_tier_whose_limits_it_breaks():
    greedy = config(batch_size=64, num_workers=8)
    against = comparison(
        baseline=baseline_record(of=greedy),
        baseline_confirm=confirm_records([500.0, 510.0, 490.0], greedy, first_number=200),
    )
    slower = tier_of([400.0, 408.0, 392.0], against, tier=Tier.CONSERVATIVE)
    assert settle(slower, against) == slower


@given(
    knobs=configs(),
    tier=st.sampled_from(Tier),
    rates=st.lists(st.none() | st.floats(1, 1e5), max_size=6),
    baseline_rates=st.lists(st.none() | st.floats(1, 1e5), max_size=6),
    noise=st.none()
    | st.builds(NoiseFloor, relative=st.floats(0, 1), pairs=st.integers(1, 9), processes=st.just(10)),
)
def test_any_mix_of_failures_gives_a_recommendation_or_says_why_not(
    knobs, tier, rates, baseline_rates, noise
):
    against = comparison(baseline_rates, noise=noise)
    found = recommend(tier, trial_record(7, 800.0, knobs), confirm_records(rates, knobs), against)
    measured = [rate for rate in rates if rate is not None]
    if len(measured) < (1 if knobs == own else 2):
        assert found is None
        return
    assert isinstance(found, Recommendation)
    assert len(found.confirm_trials) == len(measured)
    assert min(measured) * (1 - 1e-9) <= found.rate_samples_per_s.value <= max(measured) * (1 + 1e-9)
    if not any(baseline_rates):
        assert found.speedup is None
    settled = settle(found, against)
    assert settled.config in (knobs, own)
    if settled.config != knobs:
        assert violations(against.baseline, tier, against.host) == ()


def test_where_the_finish_counts_a_speed_up_is_of_the_whole_training():
    """100,000 samples: 200 s and 10 s to start, or 100 s and 50 s with the compiling of the first trial."""
    start = {"startup_s": 6.0, "first_batch_s": 1.0, "boundary_s": 0.0}
    compiled = tuned.model_copy(update={"compile": True})
    slow = confirm_records([500.0, 500.0], own, first_number=200, first_step_s=3.0, **start)
    quick = confirm_records([1000.0, 1000.0], compiled, first_step_s=3.0, **start)
    pick = trial_record(7, 1000.0, compiled, first_step_s=43.0, **start)
    asked = options(planned_steps=1, objective=Objective.FINISH_TIME)
    known = replace(planned_training(asked, [baseline_record(of=own), pick]), samples=100_000.0)
    against = comparison(baseline_confirm=slow, planned=known)
    found = recommend(Tier.AGGRESSIVE, pick, quick, against)
    assert found.finish_time_s == pytest.approx(150.0)
    assert found.speedup.value == pytest.approx(210 / 150)
    by_rate = recommend(
        Tier.AGGRESSIVE, pick, quick, replace(against, planned=replace(known, judged_by_finish=False))
    )
    assert by_rate.speedup.value == pytest.approx(2.0)
    assert by_rate.finish_time_s == pytest.approx(150.0)
    assert recommend(Tier.AGGRESSIVE, pick, quick, comparison()).finish_time_s is None
