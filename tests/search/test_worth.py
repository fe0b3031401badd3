"""A search ends when no trial is worth its time, and says so."""

from dataclasses import replace
from pathlib import Path

import pytest
from build_records import baseline_record, config, options, trial_record
from scripted_search import RecordingListener, search_in, searched, smooth_rate

from tunekit.recommend.recommendation import answer_of
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.recommendation import NoiseFloor
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.records.trials import Trials, without_superseded
from tunekit.search.guided import Proposal, Terms
from tunekit.search.worth import Stop, disturbed_trial, expectation, least_gain, next_trial
from tunekit.trial.executor import TrialSpec

BF16 = config(precision=Precision.BF16)

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


def disturbed(number: int, rate: float, of=BF16, half_width: float = 2.2) -> TrialRecord:
    return trial_record(number, rate, of, rate_interval_relative=half_width)


BASELINE = baseline_record(rate=500.0)


@pytest.mark.parametrize(
    ("records", "number"),
    [
        ((disturbed(1, 300.0),), 1),
        ((disturbed(1, 300.0, half_width=0.3),), None),  # below the best, whatever it is
        ((disturbed(1, 480.0, half_width=0.3),), None),  # known well enough
        ((disturbed(1, 10.0),), None),
        ((disturbed(1, 300.0, half_width=0.6),), None),
        ((disturbed(1, 300.0), trial_record(2, 400.0, config(batch_size=64))), None),  # not the last
        ((disturbed(1, 300.0), disturbed(2, 310.0)), None),  # twice is enough
        ((disturbed(1, 300.0).model_copy(update={"role": TrialRole.CONFIRM}),), None),
        ((trial_record(1, 300.0, BF16, rate_interval_relative=2.2, stop_reason="abandoned"),), None),
        ((), None),
    ],
)
def test_a_trial_that_hardly_tells_anything_is_run_again_where_it_may_be_the_best(records, number):
    found = disturbed_trial(Trials((BASELINE, *records)))
    assert (found.number if found else None) == number


def test_a_loop_whose_every_trial_is_wide_is_run_again_twice_in_all():
    sizes = (64, 128, 256)
    twice = [
        disturbed(2 * place + again, 300.0, config(batch_size=size, precision=Precision.BF16))
        for place, size in enumerate(sizes)
        for again in (1, 2)
    ]
    assert disturbed_trial(Trials((BASELINE, *twice[:3]))) is not None
    assert disturbed_trial(Trials((BASELINE, *twice[:5]))) is None


def test_the_surer_run_of_a_config_stands_for_it_whatever_their_order():
    wide, sure = disturbed(1, 300.0), trial_record(2, 900.0, BF16)
    assert without_superseded([BASELINE, wide, sure]) == [BASELINE, sure]
    assert without_superseded([BASELINE, sure, wide]) == [BASELINE, sure]
    assert Trials((BASELINE, wide, sure)).candidates == (BASELINE, sure)
    given_up = trial_record(1, 300.0, BF16, rate_interval_relative=0.001, stop_reason="abandoned")
    assert without_superseded([given_up, sure]) == [sure]
    confirms = [one.model_copy(update={"role": TrialRole.CONFIRM, "round": 0}) for one in (wide, sure)]
    assert without_superseded([sure, *confirms]) == [sure, *confirms]


def test_what_is_best_is_found_though_its_first_trial_was_disturbed(tmp_path: Path):
    """By that trial alone compiling would be slower than not, and not be tried again."""
    disturbed_trials: list[int] = []

    def measured(knobs: TrainConfig) -> dict[str, float]:
        return {"rate_interval_relative": 2.2} if knobs.compile and not disturbed_trials else {}

    def noise(knobs: TrainConfig, spec: TrialSpec) -> float:
        if knobs.compile and not disturbed_trials:
            disturbed_trials.append(spec.number)
            return 0.4
        return 1.0

    listener = RecordingListener()
    whole, executor = search_in(
        tmp_path / "run",
        listener=listener,
        executor_options={
            "rate": lambda knobs: smooth_rate(knobs) * (1.4 if knobs.compile else 1.0),
            "noise": noise,
            "measured": measured,
        },
    )
    (first,) = disturbed_trials
    again = executor.specs[first + 1]
    assert again.config == executor.specs[first].config
    purposes = [told[1] for what, told in listener.told if what == "started"]
    assert purposes[first + 1].startswith("again: disturbed, ")
    assert purposes[first + 1].endswith(" samples/s within 220%")
    answer = answer_of(whole.recommendations)
    assert answer is not None and answer.config.compile
    assert len({record.config for record in searched(whole.trials)}) == len(searched(whole.trials)) - 1
