"""Check what a search left behind: `python check_run.py FOLDER`."""

import json
import sys
from pathlib import Path

import yaml

TIERS = {"conservative", "balanced", "aggressive"}
KNOBS = {"batch_size", "num_workers", "prefetch_factor", "compile_model", "precision", "channels_last"}


def main(folder: Path) -> None:
    """Exit with a message unless the run is finished, each tier is there or explained, and reports exist."""
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["status"] == "finished", run["status"]
    there = {recommendation["tier"] for recommendation in run["recommendations"]}
    explained = {missing["tier"] for missing in run["missing_tiers"] if missing["reason"]}
    assert there | explained == TIERS and not there & explained, (there, explained)
    for tier in there:
        config = yaml.safe_load((folder / f"{tier}.yaml").read_text(encoding="utf-8"))
        assert config.keys() >= KNOBS and config["batch_size"] >= 1, config
    assert "balanced" in there, run["missing_tiers"]
    fits = run["prediction"]["fits"]
    assert {fit["profile_id"] for fit in fits} == {"a10g"} and all(fit["largest"]["low"] for fit in fits), (
        fits
    )
    begun = yaml.safe_load((folder / "a10g.predicted.yaml").read_text(encoding="utf-8"))
    assert begun["batch_size"] <= max(fit["largest"]["low"] for fit in fits), begun
    assert (folder / "scaling.csv").read_text(encoding="utf-8").startswith("tier,gpus,")
    assert (folder / "report.md").read_text(encoding="utf-8").startswith("## tunekit: ")
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


main(Path(sys.argv[1]))
