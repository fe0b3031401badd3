"""A search ends when no trial is worth its time, and says so."""

from dataclasses import replace
from pathlib import Path

import pytest
from build_records import config, options
from scripted_search import RecordingListener, search_in, searched

from tunekit.records.recommendation import NoiseFloor
from tunekit.search.guided import Proposal, Terms
from tunekit.search.worth import Stop, expectation, least_gain, next_trial

GOOD = Proposal(config(), 20.0, 1200.0, 0.1)


class ScriptedStudy:
    """Has one proposal, if there is time for it."""

    is_exhausted = False

    def __init__(self, proposal: Proposal | None, whole: Proposal | None = None) -> None:
        self._proposal, self._whole = proposal, whole or proposal

    def propose(self, terms: Terms) -> Proposal | None:
        return self._proposal if terms.most_s < 1e9 else self._whole


TERMS = Terms(most_s=100.0)


def test_what_is_worth_its_trial_is_tried():
    assert next_trial(ScriptedStudy(GOOD), TERMS, 9) is GOOD


def test_a_search_ends_where_little_is_expected_but_not_before_four_trials():
    poor = replace(GOOD, gain=0.004)
    told = Stop("no untried config is expected to be more than 0.5% faster")
    assert next_trial(ScriptedStudy(poor), TERMS, 4) == told
    assert next_trial(ScriptedStudy(poor), TERMS, 3) is poor


def test_before_anything_was_measured_nothing_is_known_to_be_worthless():
    unknown = Proposal(config(), 20.0, None, None)
    assert next_trial(ScriptedStudy(unknown), TERMS, 9) is unknown


def test_what_does_not_pay_over_the_planned_run_is_not_tried():
    stop = next_trial(ScriptedStudy(replace(GOOD, pays=False)), TERMS, 4)
    assert isinstance(stop, Stop)
    assert stop.why == "no untried config is expected to save the planned run more time than its trial costs"


def test_where_only_the_budget_is_in_the_way_nothing_is_claimed():
    assert next_trial(ScriptedStudy(None, GOOD), TERMS, 9) == Stop(None)
    assert next_trial(ScriptedStudy(replace(GOOD, gain=0.001), GOOD), TERMS, 9) == Stop(None)


def test_no_gain_above_the_noise_floor_is_passed_over():
    def floor(relative: float) -> NoiseFloor:
        return NoiseFloor(relative=relative, pairs=2, processes=3)

    assert least_gain(None) == least_gain(floor(0.03)) == 0.005
    assert least_gain(floor(0.002)) == 0.002


@pytest.mark.parametrize(
    ("rate", "told"),
    [
        (1210.0, "model: 1,210 samples/s expected, 18% more"),
        (1025.0, "model: 1,025 samples/s expected, as much as the best"),
        (900.0, "model: 900 samples/s expected, 12% less, but it may be more"),
    ],
)
def test_a_trial_says_what_is_expected_of_it(rate: float, told: str):
    assert expectation(replace(GOOD, expected_rate_samples_per_s=rate), 1, 1025.0) == told


def test_what_is_expected_is_of_all_ranks():
    assert expectation(replace(GOOD, expected_rate_samples_per_s=300.0), 4, 1000.0).endswith("20% more")


def test_a_short_run_ends_the_search_as_soon_as_the_model_was_put_to_the_test(tmp_path: Path):
    listener = RecordingListener()
    whole, _ = search_in(tmp_path / "run", options(planned_steps=20), listener)
    assert len(searched(whole.trials)) == 4
    assert "than its trial costs" in listener.heard("said")[0]
