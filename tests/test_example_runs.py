"""The example runs: their figures, worked out again, stay as they are. Recorded grids can be read."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tunekit.export.files import EXPORTS, scaling_csv, tier_files
from tunekit.plan.from_run import plan_of_run
from tunekit.records.host import Host
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.session.assemble import assemble
from tunekit.session.folder import load_run

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "reports"
WORKED_OUT = """noise_floor recommendations missing_tiers candidate outcome scaling knob_gains model
prediction budget_s search_time_s baseline_figures bottlenecks loss_checks longer_budget_s"""
PLANNED = "rate_samples_per_s hours hours_per_week usd_on_demand usd_spot gpu_busy compute_units fits"
WORDS = {"doubts", "note", "path", "reason"}


def flat(value: Any, place: str) -> Iterator[str]:
    """A line for each value of a tree that is a number, a switch or a name."""
    if isinstance(value, dict | list):
        below = value.items() if isinstance(value, dict) else enumerate(value)
        for name, one in below:
            yield from flat(one, f"{place}.{name}") if name not in WORDS else ()
    else:
        yield f"{place}: {value:.6g}" if isinstance(value, float) else f"{place}: {value}"


def figures(run: Run) -> dict[str, Any]:
    plan = plan_of_run(run)
    assert plan is not None
    return {
        **json.loads(run.model_dump_json(include=set(WORKED_OUT.split()))),
        "findings": {one.code: [one.severity.value, one.value, one.gain] for one in run.findings},
        "plan": {
            f"{row.profile_id}/{row.provider}/{row.instance}/{row.region}/{row.gpus}": json.loads(
                row.model_dump_json(include=set(PLANNED.split()))
            )
            for row in plan.rows
        },
        "csv": scaling_csv(run).splitlines(),
        "yaml": {name: yaml.safe_load(text) for name, text in tier_files(run).items()},
    }


@pytest.mark.parametrize("name", ["example-images", "example-clicks"])
def test_the_figures_of_an_example_run_follow_from_its_trials(name: str, golden, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # no prices of the user's own
    saved = load_run(REPORTS / name)
    run = assemble(saved, saved.trials)
    assert ("\n".join(sorted(flat(figures(run), "run"))) + "\n") == golden(f"{name}.txt")


@pytest.mark.parametrize("name", ["example-images", "example-clicks"])
def test_the_exported_files_of_an_example_run_are_those_beside_it(name: str):
    run = load_run(REPORTS / name)
    for export in EXPORTS:
        for file, text in export(run).items():
            assert text == (REPORTS / name / file).read_text(encoding="utf-8"), file


@pytest.mark.parametrize("path", sorted(ROOT.glob("benchmarks/grids/*.gz")), ids=lambda path: path.stem)
def test_a_recorded_grid_can_be_read(path: Path) -> None:
    header, *trials = gzip.decompress(path.read_bytes()).splitlines()
    Host.model_validate(json.loads(header)["host"])
    assert all(TrialRecord.model_validate_json(trial) for trial in trials)
