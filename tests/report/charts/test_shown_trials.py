"""A chart has room for so many trials: which of them it shows."""

from build_records import trial_lists, trial_record
from hypothesis import given
from hypothesis import strategies as st

from tunekit.records.trial import TrialRecord
from tunekit.report.charts.trials import evenly, shown_trials


def trials(measured: int, failed: int = 0) -> list[TrialRecord]:
    """The fastest is the last but one; failures come last."""
    rates = [100.0 + number for number in range(measured)]
    if measured > 1:
        rates[-2] = 9000.0
    records = [trial_record(number, rate) for number, rate in enumerate(rates)]
    return records + [trial_record(measured + number, None) for number in range(failed)]


def test_the_best_is_shown_even_where_every_second_is_left_out():
    shown = shown_trials(trials(100), most_measured=10)
    assert len(shown.measured) == 10
    assert max(one.rate_samples_per_s for one in shown.measured) == 9000.0
    assert shown.measured[0].number == 0
    assert shown.left_out == " Not drawn, to keep the chart readable: 90 of 100 measured trials."


@given(trial_lists(), st.integers(2, 6), st.integers(2, 6))
def test_whatever_ran_the_best_is_there_in_order_and_within_the_limits(records, most, most_failed):
    shown = shown_trials(records, most, most_failed)
    measured = [one for one in records if one.measurement]
    assert len(shown.measured) == min(most, len(measured))
    assert len(shown.failed) == min(most_failed, len(records) - len(measured))
    assert [one.number for one in shown.measured] == sorted({one.number for one in shown.measured})
    rates = [one.rate_samples_per_s for one in measured]
    if rates:
        assert max(rates) in [one.rate_samples_per_s for one in shown.measured]


@given(st.lists(st.integers(), unique=True), st.integers(2, 9))
def test_what_is_kept_is_spread_from_the_first_to_the_last(items, most):
    kept = evenly(items, most)
    assert len(kept) == min(most, len(items))
    assert [one for one in items if one in kept] == kept
    if items:
        assert (kept[0], kept[-1]) == (items[0], items[-1])
