"""Check what a search left behind: `python check_run.py FOLDER`."""

import json
import sys
from pathlib import Path

import yaml

TIERS = {"conservative", "balanced", "aggressive"}
KNOBS = {"batch_size", "num_workers", "prefetch_factor", "compile_model", "precision", "channels_last"}


def main(folder: Path) -> None:
    """Exit with a message unless the run is finished and each tier is there or explained."""
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["status"] == "finished", run["status"]
    there = {recommendation["tier"] for recommendation in run["recommendations"]}
    explained = {missing["tier"] for missing in run["missing_tiers"] if missing["reason"]}
    assert there | explained == TIERS and not there & explained, (there, explained)
    for tier in there:
        config = yaml.safe_load((folder / f"{tier}.yaml").read_text(encoding="utf-8"))
        assert config.keys() >= KNOBS and config["batch_size"] >= 1, config
    assert "balanced" in there, run["missing_tiers"]
    assert (folder / "scaling.csv").read_text(encoding="utf-8").startswith("tier,gpus,")


main(Path(sys.argv[1]))
