"""`tunekit plan --milestones`: the file, the limits, and the view."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_schemas import valid

from tunekit.cli.main import main
from tunekit.cli.milestones import limits_of, read_milestones
from tunekit.errors import UsageError
from tunekit.machine.profiles import load_profiles
from tunekit.records.codec import from_json
from tunekit.records.milestones import Milestone, MilestonePlan

EXAMPLE = Path(__file__).with_name("milestones.yaml")
RATE = ("plan", "--rate", "180samples/s", "--batch-size", "256", "--samples", "1281167")
GPU = ("--gpu", "a10g", "--precision", "bf16", "--memory-gib", "18")
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def read(folder: Path, text: str) -> tuple[Milestone, ...]:
    path = folder / "m.yaml"
    path.write_text(text)
    return read_milestones(path, 1_281_167, 90, load_profiles())


def test_the_example():
    pilot, ablations, full = read_milestones(EXAMPLE, 1_281_167, None, load_profiles())
    assert (pilot.samples_per_epoch, pilot.epochs, pilot.runs) == (1_281_167, 10, 4)
    assert (ablations.samples_per_epoch, ablations.hardware) == (4 * 1_281_167, None)
    assert (full.hardware, full.gpus, full.runs) == ("a100-sxm-80", 8, 1)


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ("data: x0.5", {"samples_per_epoch": 640_584, "epochs": 90}),
        ("samples: 50k, epochs: 3", {"samples_per_epoch": 50_000, "epochs": 3}),
        ("hours: 30", {"hours": {"value": 30.0, "low": 30.0, "high": 30.0}, "epochs": 1}),
        ("hours: 23..38", {"hours": {"value": 30.5, "low": 23.0, "high": 38.0}, "epochs": 1}),
        ("hardware: here", {"hardware": "here"}),
        ("hardware: G5.xlarge", {"hardware": "g5.xlarge"}),
        ("hardware: Lambda", {"hardware": "lambda"}),
    ],
)
def test_a_field(tmp_path: Path, fields: str, known: dict[str, object]):
    (one,) = read(tmp_path, f"milestones:\n  - {{name: full, {fields}}}\n")
    assert one.model_dump().items() >= known.items()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must hold milestones: and below it a list"),
        ("milestones: []", "must hold milestones: and below it a list"),
        ("milestones: [{name: a}]\nrate: 3", "must hold milestones: and below it a list"),
        ("milestones: [", "is not YAML"),
        ("milestones: [a]", "milestone 1: 'a' is not a mapping"),
        ("milestones: [{epochs: 3}]", "milestone 1: name: "),
        ("milestones: [{name: a}, {name: b, epoch: 3}]", "milestone 2: no key 'epoch'; did you mean epochs?"),
        ("milestones: [{name: a, epochs: 0}]", "milestone 1: epochs: "),
        ("milestones: [{name: a, data: x0}]", "milestone 1: samples_per_epoch: "),
        ("milestones: [{name: a, data: 4}]", "data must be a multiple"),
        ("milestones: [{name: a, data: x4, samples: 9}]", "keep one of them"),
        ("milestones: [{name: a, data: x4, hours: 9}]", "keep one of them"),
        ("milestones: [{name: a, hours: 9..3}]", "hours must be written as 30 or 23..38"),
        ("milestones: [{name: a, hours: 0}]", "must be a positive number of hours"),
        ("milestones: [{name: a, hardware: a100-81}]", "'a100-81' is no GPU, instance or provider; did you"),
    ],
)
def test_what_can_not_be_used_is_refused_with_its_place(tmp_path: Path, text: str, said: str):
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert said in str(refused.value)
    assert "m.yaml" in str(refused.value)


@given(
    st.sampled_from(["data", "samples", "hardware", "runs", "epochs", "gpus", "name"]),
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9), st.lists),
)
def test_any_value_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, key: str, value: object):
    text = json.dumps({"milestones": [{"name": "full", key: value}]})
    try:
        assert read(tmp_path_factory.mktemp("any"), text)
    except UsageError as error:
        assert "m.yaml" in str(error)


@pytest.mark.parametrize(
    ("deadline", "hours"), [("2026-11-24", 36.0), ("2026-11-23", 12.0), ("36h", 36.0), ("3d", 72.0)]
)
def test_a_deadline_is_a_day_or_a_time_from_now(deadline: str, hours: float):
    assert limits_of(None, deadline, NOW).deadline_h == pytest.approx(hours, abs=0.01)


@pytest.mark.parametrize("deadline", ["2026-11-22", "2026-13-01", "36", "soon"])
def test_a_deadline_that_is_past_or_none_is_refused(deadline: str):
    with pytest.raises(UsageError, match=f"--deadline {deadline}: write a day to come"):
        limits_of(None, deadline, NOW)


def test_the_view_and_its_checks(
    golden: Callable[[str], object], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    words = (*RATE, *GPU, "--milestones", str(EXAMPLE), "--provider", "lambda", "--max-cost", "2000")
    assert main([*words, "--deadline", "90d"]) == 0
    assert capsys.readouterr().out == golden("milestones.txt")


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = (*RATE, *GPU, "--milestones", str(EXAMPLE))
    assert main([*words, "--json"]) == 0
    plan = from_json(valid("plan", capsys.readouterr().out), MilestonePlan)
    assert [one.milestone.name for one in plan.milestones] == ["pilot", "ablations", "full"]
    assert main([*words, "--html", str(tmp_path / "m.html"), "--markdown"]) == 0
    assert "| pilot" in capsys.readouterr().out
    assert "ablations" in (tmp_path / "m.html").read_text()
    (tmp_path / "m.yaml").write_text("milestones: [{name: a}]")
    assert main([*RATE, *GPU, "--milestones", str(tmp_path / "m.yaml")]) == 2
    assert "it has no epochs" in capsys.readouterr().err
