"""The first confirming process of each config looks at its samples; what differs reaches no tier."""

from pathlib import Path
from typing import Any

from build_records import config, options
from scripted_search import confirming, search_in, searched

from tunekit.records.config import TrainConfig
from tunekit.records.data_check import Sameness
from tunekit.records.details import DataSeen, Detail, Details, IndicesSeen, SamplesSeen
from tunekit.records.run import FixedKnob, Run
from tunekit.trial.executor import TrialSpec

OWN = config(num_workers=0)
MAX_WORKERS = 2
"""More repeat each other's samples."""
KEPT = {"batch_size": OWN.batch_size, "precision": "fp32", "compile": False, "channels_last": False}


def repeats_beyond(workers: int) -> Any:
    def looked(knobs: TrainConfig, spec: TrialSpec) -> Details:
        count = 10_000 * max(1, knobs.num_workers) if knobs.num_workers > workers else 10_000
        if Detail.DATA not in spec.details:
            return Details()
        return Details(data=DataSeen(samples=SamplesSeen(whole_epochs=1, count=count, distinct=10_000)))

    return looked


def search(folder: Path, **asked: Any) -> tuple[Run, list[TrialSpec]]:
    looks = {"baseline": OWN, "looked": repeats_beyond(MAX_WORKERS)}
    fixed = tuple(FixedKnob(knob=knob, value=value) for knob, value in KEPT.items())
    asked |= {"max_trials": 12, "budget_s": 3_000.0, "fixed": fixed}
    whole, executor = search_in(folder, options(**asked), None, looks)
    return whole, executor.specs


def test_what_differs_reaches_no_tier_and_the_next_best_is_confirmed(tmp_path: Path) -> None:
    whole, specs = search(tmp_path / "run")
    best = max(searched(whole.trials), key=lambda one: one.rate_samples_per_s or 0.0)
    assert best.config is not None and best.config.num_workers > MAX_WORKERS
    assert all(one.config.num_workers <= MAX_WORKERS for one in whole.recommendations)
    tuned = [one for one in whole.recommendations if not one.is_baseline]
    assert tuned and all(one.data_check and one.data_check.verdict is Sameness.SAME for one in tuned)
    assert "other-training" in {one.code for one in whole.findings}
    wasted = [one for one in confirming(whole.trials) if one.config and one.config.num_workers > MAX_WORKERS]
    assert len(wasted) == len({one.config for one in wasted}) <= 3
    looks = [spec.config for spec in specs if Detail.DATA in spec.details]
    assert looks.count(None) == 2 and len(looks) == len(set(looks)) + 1


def test_a_search_that_skips_the_check_says_so(tmp_path: Path) -> None:
    whole, specs = search(tmp_path / "run", skip_data_check=True)
    assert not any(Detail.DATA in spec.details for spec in specs)
    tuned = [one for one in whole.recommendations if not one.is_baseline]
    assert tuned and {one.config.num_workers > MAX_WORKERS for one in tuned} == {True}
    assert {one.data_check.verdict for one in tuned if one.data_check} == {Sameness.NOT_CHECKED}


def test_persistent_workers_are_left_off_where_the_data_set_changes(tmp_path: Path) -> None:
    data = DataSeen(indices=IndicesSeen(is_whole=True, draws=9, distinct=9, digest="a"), changing=("epoch",))
    looks = {"baseline": OWN, "looked": Details(data=data)}
    whole, _ = search_in(tmp_path / "run", options(max_trials=3), None, looks)
    (entry,) = (one for one in whole.space if one.knob == "persistent_workers")
    assert (entry.values, entry.is_searched) == ((False,), False)
    assert "epoch" in (entry.why_fixed or "")
