"""The log of experiments: an entry for each run, in few lines, that is replaced when its run changes."""

from collections.abc import Callable

import pytest
from build_reports import full_run
from outcomes import OUTCOMES

from tunekit.plan.from_run import plan_of_run
from tunekit.records.data_check import DataCheck, Sameness
from tunekit.records.run import Run
from tunekit.report.experiment_log import log_entry, with_entry


def entry(run: Run) -> str:
    return log_entry(run, plan_of_run(run), "reports/x")


def test_an_entry_is_added_once_for_each_run_and_replaced(golden: Callable[[str], object]):
    first = full_run(tunekit_version="0.9.0")
    log, is_new = with_entry("", first, entry(first))
    check = DataCheck(verdict=Sameness.SAME, indices_checked=50_000, samples_checked=256)
    tiers = tuple(one.changed(data_check=check) for one in first.recommendations)
    second = full_run(created_at="2026-01-03T00:00:00Z", recommendations=tiers)
    log, second_is_new = with_entry(log + "\nA note of mine.\n", second, entry(second))
    again = full_run()
    log, again_is_new = with_entry(log, again, entry(again))
    assert log == golden("experiment-log.md")
    assert (is_new, second_is_new, again_is_new) == (True, True, False)
    assert with_entry(log, again, entry(again)) == (log, False)
    assert with_entry(log.rstrip(), second, entry(second)) == (log, False)
    assert not with_entry(log.replace("\n", "\r\n"), second, entry(second))[1]


@pytest.mark.parametrize("of", OUTCOMES.values(), ids=OUTCOMES)
def test_an_entry_has_at_most_25_lines(of: Callable[[], Run]):
    assert len(entry(of()).splitlines()) <= 25
