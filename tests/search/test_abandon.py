"""The rate to beat is below whatever a tier could still choose."""

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
    unhurried,
)
from hypothesis import given
from hypothesis import strategies as st
from scripted_search import search_in
from simulated_losses import curve, decreasing

from tunekit.records.config import Precision
from tunekit.records.recommendation import Tier
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.records.trials import Trials
from tunekit.search.abandon import rate_to_beat
from tunekit.search.assemble import pick_tiers

OWN = config()
BF16 = config(precision=Precision.BF16)
LOSSES = tuple(curve(decreasing, 64, 1, noise=0.1))


def beat(*records: TrialRecord, **more) -> float | None:
    return rate_to_beat(records, host(), options(), **more)


def test_it_is_the_lowest_pick_less_interval_floor_and_tolerance():
    # One pick for all tiers; Balanced gives up most: 10% while the noise floor is unknown.
    assert beat(baseline_record(rate=500.0)) == pytest.approx(500.0 * 0.99 / 1.1 * 0.9)
    assert beat(baseline_record(rate=500.0, rate_interval_relative=0.2)) == pytest.approx(
        500 * 0.8 / 1.1 * 0.9
    )


def test_a_faster_pick_raises_it_and_a_slower_trial_does_not():
    before = beat(baseline_record(rate=500.0))
    assert beat(baseline_record(rate=500.0), trial_record(1, 1000.0)) == pytest.approx(2 * before)
    assert beat(baseline_record(rate=500.0), trial_record(1, 100.0, config(batch_size=64))) == before


def test_the_slowest_tier_decides():
    aggressive_only = trial_record(1, 5000.0, config(num_workers=8))
    assert beat(baseline_record(rate=500.0), aggressive_only) == beat(baseline_record(rate=500.0))


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


def test_it_is_of_one_rank():
    single = beat(baseline_record(rate=500.0))
    several = beat(baseline_record(rate=500.0, world_size=4), trial_record(1, 400.0, world_size=4))
    assert several == single


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


@unhurried
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
    whole, executor = search_in(tmp_path / "run")
    told = {spec.number for spec in executor.specs if spec.rate_to_beat is not None}
    by_role = {role: {r.number for r in whole.trials if r.role is role} for role in TrialRole}
    assert told
    assert told <= by_role[TrialRole.SEARCH]
    given_up = {record.number for record in whole.trials if record.is_abandoned}
    assert given_up <= told
    assert len(whole.recommendations) == len(Tier)
    chosen = {one.search_trial for one in whole.recommendations}
    assert not chosen & given_up
