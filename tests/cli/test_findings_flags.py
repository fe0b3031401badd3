"""`--ignore` and `--codes`, on every verb that shows findings."""

import json
from pathlib import Path

import pytest
from build_comparisons import searched
from build_loops import gpu, telemetry
from build_records import baseline_record, host

from tunekit.cli import machine
from tunekit.cli.main import main
from tunekit.diagnose.registry import CODES
from tunekit.records.codec import to_json
from tunekit.records.finding import Finding, Severity

VERBS = ("doctor", "search", "profile", "fits", "scale", "plan", "compare", "report")
RATE = ["plan", "--rate", "180", "--samples", "1281167", "--epochs", "90", "--gpu", "a10g", "--json"]
BUSY = Finding(code="busy-cpus", severity=Severity.WARNING, message="the CPUs are at work")


def codes_of(findings: list[dict[str, str]]) -> list[str]:
    return [one["code"] for one in findings]


@pytest.mark.parametrize("verb", VERBS)
def test_every_code_is_listed(verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit) as stop:
        main([verb, "--codes"])
    assert stop.value.code == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == sorted(CODES)


def test_a_plan_leaves_out_what_is_ignored(capsys: pytest.CaptureFixture[str]):
    assert main(RATE) == 0
    codes = codes_of(json.loads(capsys.readouterr().out)["findings"])
    assert "memory-unknown" in codes
    assert main([*RATE, "--ignore", "memory-unknown"]) == 0
    shown = codes_of(json.loads(capsys.readouterr().out)["findings"])
    assert shown == [code for code in codes if code != "memory-unknown"]


def test_why_no_machine_is_left_can_not_be_ignored(capsys: pytest.CaptureFixture[str]):
    assert main([*RATE, "--max-hours", "0.01", "--ignore", "too-slow", "--ignore", "memory-unknown"]) == 0
    assert codes_of(json.loads(capsys.readouterr().out)["findings"])[0] == "too-slow"


def test_a_comparison_leaves_out_what_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(to_json(searched()), encoding="utf-8")
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json", "--ignore", "same-run"]) == 0
    assert json.loads(capsys.readouterr().out)["against"][0]["findings"] == []


def test_a_report_leaves_out_what_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = searched().model_copy(update={"findings": (BUSY,)})
    (tmp_path / "run.json").write_text(to_json(run), encoding="utf-8")
    assert main(["report", str(tmp_path), "--full"]) == 0
    assert "busy-cpus" in capsys.readouterr().out
    assert main(["report", str(tmp_path), "--full", "--ignore", "busy-cpus"]) == 0
    assert "busy-cpus" not in capsys.readouterr().out


def test_a_search_warns_of_the_gpus_that_it_computed_on():
    first, second = (BUSY.changed(gpu=index) for index in (0, 1))
    trial = baseline_record(overrides={"telemetry": telemetry(None, gpu())})
    whole = searched().changed(machine_findings=(first, second, BUSY))
    assert whole.changed(trials=()).machine_warnings == (first, second, BUSY)
    assert whole.changed(trials=(trial,)).machine_warnings == (first, BUSY)


def test_the_machine_is_looked_over_but_for_what_is_ignored():
    here = host(load_average=100.0)
    all_of_it = {finding.code for finding in machine.warnings_of(here, "auto")}
    assert "busy-cpus" in all_of_it
    shown = {finding.code for finding in machine.warnings_of(here, "auto", ["busy-cpus"])}
    assert shown == all_of_it - {"busy-cpus"}
