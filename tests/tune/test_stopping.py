"""A search ends when no trial is worth its time, a trial when no tier could still choose its config."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from build_records import (
    baseline_record,
    config,
    confirm_records,
    host,
    options,
    trial_lists,
    trial_record,
)
from hypothesis import given
from hypothesis import strategies as st
from scripted_search import search_in
from simulated_losses import curve, decreasing

from tunekit.recommend.tiers import pick_tiers
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.recommendation import NoiseFloor, Tier
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.records.trials import Trials, without_superseded
from tunekit.tune.acquisition import Criteria, Proposal, min_gain
from tunekit.tune.stopping import Stop, expectation, next_trial, rate_to_beat

BF16 = config(precision=Precision.BF16)

GOOD = Proposal(config(), 20.0, 1200.0, 0.1)


class ScriptedStudy:
    """Has one proposal, if there is time for it."""

    def __init__(self, proposal: Proposal | None, whole: Proposal | None = None) -> None:
        self._proposal, self._whole = proposal, whole or proposal

    def propose(self, criteria: Criteria, pending: Sequence[TrainConfig] = ()) -> Proposal | None:
        return self._proposal if criteria.max_s < 1e9 else self._whole


CRITERIA = Criteria(max_s=100.0)


def test_what_is_worth_its_trial_is_tried():
    assert next_trial(ScriptedStudy(GOOD), CRITERIA, 9) is GOOD


def test_a_search_ends_where_little_is_expected_but_not_before_four_trials():
    poor = replace(GOOD, gain=0.004)
    told = Stop("no untried config is expected to be more than 0.5% faster")
    assert next_trial(ScriptedStudy(poor), CRITERIA, 4) == told
    assert next_trial(ScriptedStudy(poor), CRITERIA, 3) is poor


def test_before_anything_was_measured_nothing_is_known_to_be_worthless():
    unknown = Proposal(config(), 20.0, None, None)
    assert next_trial(ScriptedStudy(unknown), CRITERIA, 9) is unknown


def test_what_does_not_pay_over_the_planned_run_is_not_tried():
    stop = next_trial(ScriptedStudy(replace(GOOD, pays=False)), CRITERIA, 4)
    assert isinstance(stop, Stop)
    assert stop.why == "no untried config is expected to save the planned run more time than its trial costs"


def test_no_gain_above_the_noise_floor_is_passed_over():
    def floor(relative: float) -> NoiseFloor:
        return NoiseFloor(relative=relative, pairs=2, processes=3)

    assert min_gain(None) == min_gain(floor(0.03)) == 0.005
    assert min_gain(floor(0.002)) == 0.002


def test_a_trial_says_what_is_expected_of_it():
    assert expectation(1210.0, 1, 1025.0) == "model: 1,210 samples/s expected (+18%)"


def disturbed(number: int, rate: float, of=BF16, half_width: float = 2.2) -> TrialRecord:
    return trial_record(number, rate, of, rate_interval_relative=half_width)


BASELINE = baseline_record(rate=500.0)


def test_the_surer_run_of_a_config_stands_for_it_whatever_their_order():
    wide, sure = disturbed(1, 300.0), trial_record(2, 900.0, BF16)
    assert without_superseded([BASELINE, wide, sure]) == [BASELINE, sure]
    assert without_superseded([BASELINE, sure, wide]) == [BASELINE, sure]
    assert Trials((BASELINE, wide, sure)).candidates == (BASELINE, sure)
    given_up = trial_record(1, 300.0, BF16, rate_interval_relative=0.001, stop_reason="abandoned")
    assert without_superseded([given_up, sure]) == [sure]
    confirms = [one.model_copy(update={"role": TrialRole.CONFIRM, "round": 0}) for one in (wide, sure)]
    assert without_superseded([sure, *confirms]) == [sure, *confirms]


# --- the rate to beat ----------------------------------------------------------------------

OWN = config()
LOSSES = tuple(curve(decreasing, 64, 1, noise=0.1))


def beat(*records: TrialRecord, **more) -> float | None:
    return rate_to_beat(records, host(), options(), **more)


def test_it_is_the_lowest_pick_less_interval_floor_and_tolerance():
    # One pick for all tiers; Balanced gives up most: 10% while the noise floor is unknown.
    assert beat(baseline_record(rate=500.0)) == pytest.approx(500.0 * 0.99 / 1.1 * 0.9)
    assert beat(baseline_record(rate=500.0, rate_interval_relative=0.2)) == pytest.approx(
        500 * 0.8 / 1.1 * 0.9
    )


def test_without_a_baseline_or_a_pick_for_every_tier_there_is_none():
    assert beat() is None
    assert beat(trial_record(0, 500.0)) is None
    assert beat(baseline_record(rate=None)) is None
    greedy = baseline_record(of=config(num_workers=8))
    assert beat(greedy) is None, "Conservative has no pick"
    assert beat(greedy, trial_record(1, 100.0)) is not None
    assert beat(baseline_record(rate_interval_relative=None)) is None


def test_a_known_noise_floor_takes_the_place_of_the_assumed_one():
    def with_noise(*rates: float) -> float:
        confirmed = (
            record.model_copy(update={"is_baseline_config": True})
            for record in confirm_records(list(rates), OWN)
        )
        return beat(baseline_record(rate=500.0), *confirmed)

    quiet, loud = with_noise(*[500.0, 501.0] * 3), with_noise(*[500.0, 800.0] * 3)
    assert loud < beat(baseline_record(rate=500.0)) < quiet < 500.0 * 0.97


def test_a_costly_boundary_lowers_it_and_one_that_saved_time_lowers_it_too():
    plain = beat(baseline_record(rate=500.0))
    # 50,000 samples at 500/s take 100 s.
    assert beat(baseline_record(rate=500.0, boundary_s=100.0)) == pytest.approx(plain / 2)
    slow_but_saving = trial_record(1, 50.0, config(batch_size=64), boundary_s=-500.0)
    assert slow_but_saving.rate_samples_per_s == pytest.approx(100.0)
    assert beat(baseline_record(rate=500.0), slow_but_saving) == pytest.approx(plain / 2)


def test_a_pick_whose_losses_may_yet_bar_it_counts_for_its_like_only():
    fast = config(precision=Precision.BF16, batch_size=256)
    records = (baseline_record(rate=500.0, losses=LOSSES), trial_record(1, 2000.0, fast))
    of_own = beat(baseline_record(rate=500.0))
    assert beat(*records) == beat(*records, config=config(batch_size=64)) == of_own
    assert beat(*records, config=BF16) == pytest.approx(4 * of_own)
    guard = trial_record(2, 1900.0, BF16, role=TrialRole.NUMERICS, losses=LOSSES)
    assert beat(*records, guard) == pytest.approx(4 * of_own), "they agree: no reason is left to bar it"


def test_a_small_pick_that_may_stay_leaves_conservative_its_slow_baseline():
    """Beside a compiled batch of 1, Conservative may have no batch of 63: it keeps the script's own."""
    compiled = trial_record(1, 3.0, config(batch_size=1, num_workers=0, compile=True))
    larger = trial_record(2, 3.0, config(batch_size=63, num_workers=0))
    assert beat(baseline_record(rate=1.0), compiled, larger) < 1.0


@given(trials=trial_lists(), share=st.floats(0.01, 0.999), small=st.booleans(), data=st.data())
def test_what_lies_below_it_would_be_no_tiers_choice(trials, share, small, data):
    baseline = baseline_record(100, data.draw(st.floats(1.0, 1e5)))
    records = [baseline, *trials]
    knobs = config(batch_size=1, num_workers=0) if small else data.draw(st.sampled_from(records)).config
    rate = rate_to_beat(records, host(), options(), knobs)
    if rate is None:
        return
    # Had it been measured to its end: its boundary costs nothing, and it is the smallest of all.
    whole = trial_record(101, share * rate, knobs, peak_reserved_bytes=0)
    chosen = pick_tiers(Trials((*records, whole)), host(), options())
    assert whole not in chosen.values()


def test_a_search_tells_its_search_trials_alone_and_chooses_the_same(tmp_path: Path):
    whole, executor = search_in(tmp_path / "run", options(max_trials=9))
    told = {spec.number for spec in executor.specs if spec.rate_to_beat is not None}
    by_role = {role: {r.number for r in whole.trials if r.role is role} for role in TrialRole}
    assert told
    assert told <= by_role[TrialRole.SEARCH]
    given_up = {record.number for record in whole.trials if record.is_abandoned}
    assert given_up <= told
    assert len(whole.recommendations) == len(Tier)
    chosen = {one.search_trial for one in whole.recommendations}
    assert not chosen & given_up
