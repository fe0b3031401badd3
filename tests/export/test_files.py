"""All exports of a run, written side by side."""

import csv
from pathlib import Path

from build_records import (
    GIB,
    baseline_record,
    config,
    confirm_records,
    discovery,
    interval,
    recommendation,
    run,
    trial_record,
)

from tunekit.export.files import scaling_csv, write_exports
from tunekit.export.tuned import read_tuned
from tunekit.export.yaml_config import tier_yaml
from tunekit.recommend.learning_rate import BaseLearningRate
from tunekit.recommend.scaling import scaling_rows
from tunekit.records.interval import Interval
from tunekit.records.recommendation import (
    LearningRate,
    LearningRateRule,
    NoiseFloor,
    Recommendation,
    SetAside,
    Tier,
)
from tunekit.records.run import Run

FAST = config(batch_size=256, num_workers=4)
UNCLEAR = Interval(value=1.08, low=0.98, high=1.19)


def test_each_tier_and_the_table_of_all_have_a_file(tmp_path: Path):
    tiers = (recommendation(Tier.CONSERVATIVE), recommendation(Tier.AGGRESSIVE))
    saved = run(recommendations=tiers)
    paths = write_exports(saved, tmp_path)
    assert [path.name for path in paths] == ["conservative.yaml", "aggressive.yaml", "scaling.csv"]
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    texts = [path.read_text(encoding="utf-8") for path in paths]
    assert texts == [*(tier_yaml(saved, tier) for tier in tiers), scaling_csv(saved)]


def left_open(*tiers: Recommendation, ratio: Interval = UNCLEAR) -> Run:
    """A run that keeps the baseline's config in place of one whose gain is left open."""
    aside = SetAside(config=FAST, search_trial=1, confirm_trials=(100, 101), speedup=ratio)
    own = recommendation(Tier.BALANCED, config(), is_baseline=True, speedup=interval(1.0), set_aside=aside)
    trials = (
        baseline_record(of=config()),
        trial_record(1, 540.0, FAST),
        *confirm_records([540.0, 550.0], FAST),
    )
    noise = NoiseFloor(relative=0.02, pairs=4, processes=5)
    return run(recommendations=(own, *tiers), trials=trials, noise_floor=noise)


def test_a_config_whose_gain_is_left_open_has_a_file_that_reads_back(tmp_path: Path, golden):
    saved = left_open()
    names = [path.name for path in write_exports(saved, tmp_path)]
    assert names == ["balanced.yaml", "candidate.yaml", "scaling.csv"]
    text = (tmp_path / "candidate.yaml").read_text(encoding="utf-8")
    assert text == golden("candidate.yaml")
    read = read_tuned(tmp_path / "candidate.yaml", saved)
    assert (read.config, read.lr) == (FAST, 0.2)


def test_a_config_that_a_tier_has_needs_no_file_of_its_own(tmp_path: Path):
    saved = left_open(recommendation(Tier.AGGRESSIVE, FAST, speedup=UNCLEAR))
    names = [path.name for path in write_exports(saved, tmp_path)]
    assert names == ["balanced.yaml", "aggressive.yaml", "scaling.csv"]


def test_a_gain_that_is_excluded_leaves_no_candidate(tmp_path: Path):
    saved = left_open(ratio=Interval(value=1.01, low=0.99, high=1.03))
    assert "candidate.yaml" not in [path.name for path in write_exports(saved, tmp_path)]


def test_what_has_nothing_to_tell_writes_nothing(tmp_path: Path):
    own = run(trials=(baseline_record(),))
    assert [path.name for path in write_exports(own, tmp_path)] == ["scaling.csv"]


def rows(tier, lr=0.1):
    return scaling_rows(recommendation(tier), BaseLearningRate(lr, 64, "flags") if lr else None)


def test_every_tier_and_gpu_count_has_a_row():
    text = scaling_csv(run(scaling=rows(Tier.CONSERVATIVE) + rows(Tier.AGGRESSIVE)))
    lines = text.splitlines()
    assert lines[0] == (
        "tier,gpus,total_batch,total_workers,ram_buffer_bytes,ram_needed_bytes,"
        "lr_linear,lr_sqrt,recommended_rule"
    )
    assert lines[1] == f"conservative,1,128,2,512000,{GIB + 512_000},0.2,{0.1 * 2**0.5},linear"
    read = list(csv.DictReader(lines))
    assert [(row["tier"], row["gpus"]) for row in read] == [
        (tier, gpus) for tier in ("conservative", "aggressive") for gpus in ("1", "2", "4", "8")
    ]
    assert float(read[3]["lr_linear"]) == 1.6


def test_what_is_unknown_stays_empty():
    baseline = baseline_record(overrides={"discovery": discovery("LAMB", None)})
    text = scaling_csv(run(trials=(baseline,), scaling=rows(Tier.BALANCED, None)[:1]))
    assert text.splitlines()[1] == f"balanced,1,128,2,512000,{GIB + 512_000},,,"


def test_the_rule_of_the_recommendation_comes_first():
    rate = LearningRate(value=0.2, rule=LearningRateRule.SQRT, base_lr=0.1, base_batch=64, source="flags")
    text = scaling_csv(
        run(
            scaling=rows(Tier.BALANCED)[:1],
            recommendations=(recommendation(Tier.BALANCED, learning_rate=rate),),
        )
    )
    assert text.splitlines()[1].endswith(",sqrt")


def test_a_run_without_recommendations_has_a_header_only():
    assert scaling_csv(run(trials=())).count("\n") == 1
