"""From trial records to a whole run: pure, so the same records give the same run."""

import pytest
from build_records import (
    MIB,
    baseline_record,
    config,
    confirm_records,
    device,
    failure,
    options,
    run,
    trial_lists,
    trial_record,
)
from hypothesis import given
from hypothesis import strategies as st

from tunekit.records.config import TrainConfig
from tunekit.records.recommendation import Tier
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind, TrialRecord, WrittenFile
from tunekit.session.assemble import assemble

own = config()
fast = config(batch_size=256)
faster = config(batch_size=512, num_workers=4)


def baselines(rates: list[float], first_number: int = 50) -> tuple[TrialRecord, ...]:
    return tuple(
        record.model_copy(update={"is_baseline_config": True})
        for record in confirm_records(list(rates), own, first_number=first_number)
    )


def assembled(*records: TrialRecord, **overrides) -> Run:
    return assemble(run(**({"trials": ()} | overrides)), records)


def walked(*more: TrialRecord) -> Run:
    """Baseline at 500, two configs found at 900 and 1000, three rounds of each at a little less."""
    return assembled(
        baseline_record(of=own),
        trial_record(1, 900.0, fast),
        trial_record(2, 1000.0, faster),
        *more,
        *baselines([500.0, 505.0, 495.0]),
        *confirm_records([880.0, 890.0, 870.0], fast, first_number=60),
        *confirm_records([980.0, 990.0, 970.0], faster, first_number=70),
    )


def by_tier(whole: Run) -> dict[Tier, TrainConfig]:
    return {recommendation.tier: recommendation.config for recommendation in whole.recommendations}


def test_each_tier_gets_its_pick_with_its_confirmation():
    whole = walked()
    assert by_tier(whole) == dict.fromkeys(Tier, faster)
    first = whole.recommendations[0]
    assert first.search_trial == 2
    assert first.confirm_trials == (70, 71, 72)
    assert first.speedup is not None
    assert first.speedup.value == pytest.approx(1.96, rel=0.01)
    assert [r.same_as for r in whole.recommendations] == [None, Tier.CONSERVATIVE, Tier.CONSERVATIVE]


def test_what_is_faster_and_was_not_confirmed_is_the_runs_candidate():
    records = (baseline_record(of=own), trial_record(1, 510.0, fast), *baselines([500.0, 505.0, 495.0]))
    whole = assembled(*records)
    assert whole.candidate is not None
    assert (whole.candidate.config, whole.candidate.trial) == (fast, 1)
    assert whole.candidate.factor == pytest.approx(1.02, abs=0.001)
    assert walked().candidate is None


def test_a_config_that_failed_again_gives_way_to_the_next():
    unfit = confirm_records([None], faster, first_number=90)
    whole = walked(*unfit)
    assert by_tier(whole) == dict.fromkeys(Tier, fast)


def test_a_pick_that_was_not_confirmed_is_missing_with_the_reason():
    whole = assembled(baseline_record(of=own), trial_record(1, 900.0, fast))
    assert whole.recommendations == ()
    assert {missing.tier for missing in whole.missing_tiers} == set(Tier)
    assert whole.missing_tiers[0].reason == "its pick (trial 1) was not confirmed"


def test_what_was_given_up_is_neither_chosen_nor_called_unsteady():
    small = config(batch_size=64)
    given_up = trial_record(3, 970.0, small, stop_reason="abandoned")
    whole = walked(given_up, *confirm_records([2000.0], small, first_number=90))
    assert by_tier(whole) == dict.fromkeys(Tier, faster)
    assert "unsteady-machine" not in {finding.code for finding in whole.findings}
    assert whole.noise_floor == walked().noise_floor


def test_a_tier_whose_configs_all_failed_again_says_so():
    failed = confirm_records([None], own, first_number=90)
    given_up = trial_record(1, 100.0, fast, stop_reason="abandoned")
    whole = assembled(baseline_record(of=own), given_up, *failed, *confirm_records([1.0], faster))
    assert len(whole.missing_tiers) == len(Tier)


def test_a_tier_whose_limits_all_break_says_which_limit_most_often():
    greedy = config(num_workers=8)
    whole = assembled(baseline_record(of=greedy), trial_record(1, 900.0, greedy))
    (missing,) = [m for m in whole.missing_tiers if m.tier is Tier.CONSERVATIVE]
    assert missing.reason == "no measured config is within its limits; most often: num_workers 8, limit 4"


def test_without_a_measured_trial_every_tier_says_so():
    whole = assembled(baseline_record(rate=None))
    assert {m.tier for m in whole.missing_tiers} == set(Tier)
    assert "baseline-failed" in {note.code for note in whole.findings}


def test_a_baseline_that_failed_leaves_the_speed_up_unknown():
    whole = assembled(
        baseline_record(rate=None, overrides={"failure": failure(OutcomeKind.HOST_OOM, message="too much")}),
        trial_record(1, 900.0, fast),
        *confirm_records([880.0, 890.0, 870.0], fast, first_number=60),
    )
    assert all(recommendation.speedup is None for recommendation in whole.recommendations)
    assert "baseline-failed" in {note.code for note in whole.findings}


def test_a_device_held_to_the_memory_of_the_one_asked_for_is_noted():
    held = device("NVIDIA H200").model_copy(update={"memory_bytes": 22587 * MIB})
    notes = assembled(baseline_record(device=held), measured_on="h200").findings
    assert "other-device" in {note.code for note in notes}


def test_diverted_writes_are_counted_once_per_file():
    def wrote(number: int, *paths: str) -> TrialRecord:
        written = tuple(WrittenFile(path=path, action="diverted") for path in paths)
        return trial_record(number, overrides={"written": written})

    torchs = "/tmp/torchinductor_someone/precompiled_headers/locks/x.lock"
    notes = assembled(wrote(0, "a.pt", "b.pt"), wrote(1, "a.pt", torchs, "c.pt", "d.pt")).findings
    (note,) = [note for note in notes if note.code == "writes-diverted"]
    assert (note.value, note.evidence) == (4, "a.pt, b.pt, c.pt and 1 more")


@given(trial_lists(), st.lists(st.floats(1, 1e5), max_size=4))
def test_any_list_of_trials_makes_a_run_whose_tiers_add_up(records: list[TrialRecord], rates: list[float]):
    known = dict.fromkeys(record.config for record in records if record.config)
    confirmations = [
        confirmed
        for index, knobs in enumerate(known, start=1)
        for confirmed in confirm_records(list(rates), knobs, first_number=100 * index)
    ]
    whole = assembled(*records, *confirmations, options=options(epochs=3))
    tiers = [r.tier for r in whole.recommendations] + [m.tier for m in whole.missing_tiers]
    assert sorted(tiers) == sorted(Tier)
    measured = {record.config for record in records if record.measurement}
    assert {recommendation.config for recommendation in whole.recommendations} <= measured
    for recommendation in whole.recommendations:
        assert len(recommendation.confirm_trials) == len(rates)
