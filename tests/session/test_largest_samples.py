"""The first confirming process of each config trains on the data set's largest samples."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from build_records import (
    GIB,
    baseline_record,
    config,
    confirm_records,
    failure,
    host,
    largest_seen,
    options,
    trial_record,
)
from scripted_search import ScriptedExecutor, confirming, search_in

from tunekit.recommend.tiers import pick_tiers
from tunekit.records.config import TrainConfig
from tunekit.records.details import Detail, Details, LargestSamples
from tunekit.records.recommendation import Tier
from tunekit.records.run import Run
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord
from tunekit.records.trials import Trials
from tunekit.trial.executor import TrialSpec
from tunekit.tune.confirm import details_to_confirm

VARIED = largest_seen()
OUT_OF_MEMORY = failure(OutcomeKind.DEVICE_OOM, largest=VARIED.model_copy(update={"survived": False}))


def looked(record: TrialRecord, largest: LargestSamples | None) -> TrialRecord:
    assert record.measurement is not None
    measured = record.measurement.model_copy(update={"details": Details(largest=largest)})
    return record.model_copy(update={"measurement": measured})


def own_process(largest: LargestSamples | None) -> TrialRecord:
    (record,) = confirm_records([500.0])
    return looked(record.model_copy(update={"is_baseline_config": True}), largest)


fast = config(batch_size=256)


def test_the_first_process_of_each_config_looks():
    known = [baseline_record(), trial_record(1, 900.0, fast)]
    assert details_to_confirm(known, None) == (Detail.LARGEST,)
    known.append(own_process(VARIED))
    assert details_to_confirm(known, None) == ()
    assert details_to_confirm(known, fast) == (Detail.LARGEST,)
    known += confirm_records([900.0], fast, first_number=110)
    assert details_to_confirm(known, fast) == ()


@pytest.mark.parametrize(
    ("seen", "is_asked"),
    [
        (VARIED, True),
        (None, False),
        (LargestSamples(samples_read=16, data_set_samples=500, varies=False), False),
        (LargestSamples(why_ended="an IterableDataset has no samples to choose from"), False),
    ],
    ids=["varied", "not seen", "equal", "missing"],
)
def test_nobody_looks_again_where_sizes_do_not_vary_or_can_not_be_told(
    seen: LargestSamples | None, is_asked: bool
):
    assert bool(details_to_confirm([own_process(seen)], fast)) is is_asked


def too_much(above: int) -> Callable[[TrainConfig, TrialSpec], Failure | None]:
    """A device that holds usual batches of any size, and the largest samples up to a size."""
    return lambda knobs, spec: (
        OUT_OF_MEMORY if Detail.LARGEST in spec.details and knobs.batch_size > above else None
    )


def walked(folder: Path, above: int, **more: Any) -> tuple[Run, ScriptedExecutor]:
    scripted = {"failing": too_much(above), "looked": Details(largest=VARIED)} | more
    return search_in(folder / "run", options(max_trials=8), executor_options=scripted)


def test_what_ran_out_on_the_largest_gives_way_to_what_did_not(tmp_path: Path):
    whole, executor = walked(tmp_path, above=200)
    failed = [record for record in confirming(whole.trials) if record.failure]
    assert failed
    assert whole.recommendations
    for one in whole.recommendations:
        assert one.config.batch_size <= 200
        assert one.speedup is not None or one.is_baseline
        assert one.largest == VARIED
    assert {spec.role for spec in executor.specs if Detail.LARGEST in spec.details} == {"confirm"}
    assert "largest-samples" in {note.code for note in whole.findings}


def test_a_baseline_that_ran_out_on_the_largest_still_gives_the_speed_up(tmp_path: Path):
    whole, _ = walked(tmp_path, above=100)
    own = [record for record in confirming(whole.trials) if record.is_baseline_config]
    assert [record.failure is not None for record in own] == [True, *[False] * (len(own) - 1)]
    assert len(own) >= 2
    assert "largest-samples" in {note.code for note in whole.findings}
    for one in whole.recommendations:
        assert not one.is_baseline
        assert one.config.batch_size <= 100
        assert one.speedup is not None


def test_equal_sizes_are_looked_at_once(tmp_path: Path):
    equal = Details(largest=LargestSamples(samples_read=16, data_set_samples=50_000, varies=False))
    whole, executor = walked(tmp_path, above=10_000, looked=equal)
    assert sum(Detail.LARGEST in spec.details for spec in executor.specs) == 1
    assert all(one.largest is None for one in whole.recommendations)


def test_a_tier_does_not_take_what_broke_its_limit_on_the_largest_samples():
    """Three quarters of the device are Conservative's; the usual batches of the fastest stay below."""
    slow = config(batch_size=64)
    records = [
        baseline_record(of=slow),
        trial_record(1, 900.0, fast, peak_reserved_bytes=12 * GIB),
        own_process(VARIED),
    ]
    before = pick_tiers(Trials(tuple(records)), host(), options())
    assert before[Tier.CONSERVATIVE].config == before[Tier.AGGRESSIVE].config == fast
    (confirming_fast,) = confirm_records([900.0], fast, first_number=110, peak_reserved_bytes=12 * GIB)
    seen = VARIED.model_copy(update={"peak_reserved_bytes": int(0.9 * 22 * GIB)})
    after = pick_tiers(Trials((*records, looked(confirming_fast, seen))), host(), options())
    assert after[Tier.CONSERVATIVE].config == slow
    assert after[Tier.AGGRESSIVE].config == fast
