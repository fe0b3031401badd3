"""Samples/s of trials: against batch size, and in their order beside the best so far."""

from build_records import (
    baseline_record,
    trial_lists,
    trial_record,
)
from hypothesis import given

from tunekit.report.charts.rates import best_so_far


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
