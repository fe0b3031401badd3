"""The search trial by trial, and the best so far."""

import pytest
from build_records import baseline_record, config, confirm_records, run, trial_lists, trial_record, unhurried
from hypothesis import given

from tunekit.report.blocks import Basis
from tunekit.report.charts.history import best_so_far, history_chart


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
        "confirming": [(4, pytest.approx(1200.0))],
        "failed": [(2, 0.0)],
    }
    assert chart.series[0].mark == "steps"
    assert chart.series[-1].mark == "failures"
    assert all(one.basis is Basis.MEASURED for one in chart.series)
    assert "5 trials; the best of the search's own: 900 samples/s" in chart.summary


def test_a_rate_that_was_given_up_early_is_no_best():
    trials = (baseline_record(0, 500.0), trial_record(1, 900.0, stop_reason="abandoned"))
    assert [point.y for point in best_so_far(trials)] == [500.0, 500.0]


@unhurried
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
