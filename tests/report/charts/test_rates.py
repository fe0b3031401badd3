"""Samples/s of trials: against batch size, and in their order beside the best so far."""

import pytest
from build_records import (
    baseline_record,
    config,
    confirm_records,
    failure,
    interval,
    recommendation,
    run,
    trial_lists,
    trial_record,
)
from hypothesis import given

from tunekit.records.details import ComputeSweep, ComputeSweepPoint, Details, IsolatedRates
from tunekit.records.recommendation import Limit, ModelSummary, PredictedLimits, Tier
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.report.blocks import Basis, Chart, Series
from tunekit.report.charts.rates import best_so_far, history_chart, throughput_chart

fast = config(batch_size=256, num_workers=4)
ISOLATED = IsolatedRates(loader_step_s=0.16, loader_batches=9, compute_step_s=0.2, compute_batches=9)


def with_details(record: TrialRecord, details: Details) -> TrialRecord:
    measured = record.measurement.model_copy(update={"details": details})
    return record.model_copy(update={"measurement": measured})


def finished(*more: TrialRecord, **overrides) -> Run:
    trials = (
        baseline_record(0, 500.0, config()),
        trial_record(1, 1000.0, fast),
        *confirm_records([1000.0, 1010.0, 990.0], fast),
        *more,
    )
    return run(**({"trials": trials, "recommendations": (recommendation(of=fast),)} | overrides))


def named(chart: Chart, name: str) -> Series:
    (found,) = [one for one in chart.series if one.name == name]
    return found


def test_every_trial_is_a_point_that_says_which_it_was():
    trials = named(throughput_chart(finished()), "trials")
    assert [(point.x, point.y) for point in trials.points][:2] == [(128, 500.0), (256, 1000.0)]
    assert trials.points[1].text == "1,000 samples/s"
    assert trials.points[1].note.startswith("trial 1, search: batch 256, workers 4")
    assert trials.points[2].note.startswith("trial 100, confirm 1: batch 256")


def test_the_baseline_and_the_tiers_stand_out_with_their_range():
    chart = throughput_chart(finished())
    tier, own = named(chart, "balanced"), named(chart, "baseline")
    assert tier.stands_out
    assert tier.basis is Basis.MEASURED
    (point,) = tier.points
    assert (point.low, point.y, point.high) == pytest.approx((970.0, 1000.0, 1030.0))
    assert own.points[0].low is None
    assert "balanced 1,000 samples/s (970 to 1,030) at batch 256" in chart.summary


def test_tiers_with_one_config_are_one_mark():
    tiers = (recommendation(Tier.CONSERVATIVE, fast), recommendation(Tier.BALANCED, fast))
    chart = throughput_chart(finished(recommendations=tiers))
    assert named(chart, "conservative = balanced").stands_out


def test_a_range_that_says_nothing_is_told_and_not_drawn():
    wide = interval(1000.0).model_copy(update={"low": 1.0, "high": 1e6})
    chart = throughput_chart(finished(recommendations=(recommendation(of=fast, rate_samples_per_s=wide),)))
    (point,) = named(chart, "balanced").points
    assert point.low is point.high is None
    assert "too wide" in point.text


def test_failed_trials_are_measured_crosses_and_refused_ones_predicted():
    refused = {"failure": failure(OutcomeKind.REFUSED, message="would need 30 GiB")}
    lost = {"failure": failure(OutcomeKind.SCRIPT_ERROR, message="x"), "config": None}
    chart = throughput_chart(
        finished(
            trial_record(7, None, config(batch_size=512)),
            trial_record(8, None, config(batch_size=1024), overrides=refused),
            trial_record(9, None, overrides=lost),
        )
    )
    failed, not_run = named(chart, "failed"), named(chart, "refused")
    assert [(one.x, one.y, one.text) for one in failed.points] == [
        (512, 0.0, "device_oom: CUDA out of memory")
    ]
    assert (failed.mark, failed.basis) == ("failures", Basis.MEASURED)
    assert [(one.x, one.text) for one in not_run.points] == [(1024, "refused: would need 30 GiB")]
    assert not_run.basis is Basis.PREDICTED
    assert "2 failed, 1 refused as too large" in chart.summary
    assert "1 trial failed before the batch size was known." in chart.summary


def test_training_alone_is_a_line_for_each_arithmetic_and_of_all_ranks():
    sizes = ComputeSweep(
        sizes=tuple(ComputeSweepPoint(batch_size=size, step_s=size / 2000, batches=9) for size in (256, 64))
    )
    bf16 = config(precision="bf16", channels_last=True)
    chart = throughput_chart(
        run(
            trials=(
                with_details(baseline_record(0, 1000.0, config(), world_size=2), Details(floors=ISOLATED)),
                with_details(trial_record(1, 1000.0, bf16, world_size=2), Details(sizes=sizes)),
            )
        )
    )
    own, other = named(chart, "training alone fp32"), named(chart, "training alone bf16 channels_last")
    assert (own.mark, own.basis) == ("line", Basis.MEASURED)
    assert [(point.x, point.y) for point in own.points] == [(128, pytest.approx(2 * 128 / 0.2))]
    assert [(point.x, point.y) for point in other.points] == [
        (64, pytest.approx(4000.0)),
        (256, pytest.approx(4000.0)),
    ]
    assert named(chart, "loader alone").points[0].y == pytest.approx(2 * 128 / 0.16)


def limits(tier: Tier | None, loader: float) -> PredictedLimits:
    return PredictedLimits(
        tier=tier,
        loader_samples_per_s=loader,
        training_samples_per_s=900.0,
        cores_samples_per_s=None,
        limit=Limit.LOADER,
        rate_samples_per_s=interval(900.0),
        measured_samples_per_s=900.0,
    )


def test_loader_ceilings_are_predicted_points_and_those_far_above_are_only_told():
    model = ModelSummary(
        limits=(limits(None, 950.0), limits(Tier.BALANCED, 90_000.0)),
        missed_relative=None,
        checked_configs=None,
    )
    chart = throughput_chart(finished(model=model))
    ceiling = named(chart, "loader ceiling")
    assert ceiling.basis is Basis.PREDICTED
    assert [(point.x, point.y, point.note) for point in ceiling.points] == [(128, 950.0, "of baseline")]
    assert (
        "Far above and not drawn: loader ceiling (predicted) 90,000 samples/s at batch 256." in chart.summary
    )


def test_a_ceiling_below_what_was_measured_is_not_drawn():
    model = ModelSummary(limits=(limits(None, 899.0),), missed_relative=None, checked_configs=None)
    assert "loader ceiling" not in {one.name for one in throughput_chart(finished(model=model)).series}


def test_what_was_given_up_early_is_told_apart():
    chart = throughput_chart(finished(trial_record(5, 40.0, config(), stop_reason="abandoned")))
    (point,) = named(chart, "abandoned").points
    assert point.y == pytest.approx(40.0)
    assert "given up early as too slow" in point.note


def test_losses_were_measured_too():
    guard = trial_record(50, 300.0, config(compile=True), role=TrialRole.NUMERICS)
    last = named(throughput_chart(finished(guard)), "trials").points[-1]
    assert last.y == pytest.approx(300.0)
    assert last.note.startswith("trial 50, numerics")


# --- trial by trial --------------------------------------------------------------------------


def test_trials_are_in_order_by_what_they_were_run_for():
    trials = (
        baseline_record(0, 500.0),
        trial_record(1, 900.0),
        trial_record(2, None, config(batch_size=512)),
        trial_record(3, 800.0),
        *confirm_records([1200.0], first_number=4),
    )
    chart = history_chart(run(trials=trials))
    by_name = {one.name: [(point.x, point.y) for point in one.points] for one in chart.series}
    assert by_name == {
        "best so far": [(0, 500.0), (1, 900.0), (4, 900.0)],
        "baseline": [(0, 500.0)],
        "search": [(1, 900.0), (3, pytest.approx(800.0))],
        "confirmation": [(4, pytest.approx(1200.0))],
        "failed": [(2, 0.0)],
    }
    assert chart.series[0].mark == "steps"
    assert chart.series[-1].mark == "failures"
    assert all(one.basis is Basis.MEASURED for one in chart.series)
    assert "5 trials; best of the search: 900 samples/s" in chart.summary


def test_a_rate_that_was_given_up_early_is_no_best():
    trials = (baseline_record(0, 500.0), trial_record(1, 900.0, stop_reason="abandoned"))
    assert [point.y for point in best_so_far(trials)] == [500.0, 500.0]


@given(trial_lists())
def test_the_best_never_falls_and_ends_at_the_last_trial(records):
    points = best_so_far(records)
    rates = [point.y for point in points]
    assert rates == sorted(rates)
    measured = [one.rate_samples_per_s for one in records if one.measurement]
    assert bool(points) == bool(measured)
    if points:
        assert rates[-1] == max(measured)
        assert points[-1].x == records[-1].number
