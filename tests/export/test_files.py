"""All exports of a run, written side by side."""

from pathlib import Path

from build_records import recommendation, run

from tunekit.export.files import write_exports
from tunekit.export.scaling_csv import scaling_csv
from tunekit.export.yaml_config import tier_yaml
from tunekit.records.recommendation import Tier


def test_each_tier_and_the_table_of_all_have_a_file(tmp_path: Path):
    tiers = (recommendation(Tier.CONSERVATIVE), recommendation(Tier.AGGRESSIVE))
    saved = run(recommendations=tiers)
    paths = write_exports(saved, tmp_path)
    assert [path.name for path in paths] == ["conservative.yaml", "aggressive.yaml", "scaling.csv"]
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    texts = [path.read_text(encoding="utf-8") for path in paths]
    assert texts == [*(tier_yaml(saved, tier) for tier in tiers), scaling_csv(saved)]


def test_what_has_nothing_to_tell_writes_nothing(tmp_path: Path):
    assert [path.name for path in write_exports(run(), tmp_path)] == ["scaling.csv"]
