"""`tunekit plan --milestones`: a file that people write, the limits, and the verb."""

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from build_plans import plan_request
from build_records import baseline_record, interval, options, recommendation, run
from hypothesis import given
from hypothesis import strategies as st

from tunekit.cli.main import main
from tunekit.cli.milestones import UsualEpochs, limits_of, read_milestones
from tunekit.errors import UsageError
from tunekit.machine.profiles import load_profiles
from tunekit.records.codec import from_json, to_json
from tunekit.records.milestones import HardwareKind, Milestone, MilestonePlan
from tunekit.records.plan import ChoiceKind, PlanAssumptions

EXAMPLE = Path(__file__).with_name("milestones.yaml")
RATE = ("plan", "--rate", "180samples/s", "--batch", "256", "--samples", "1281167")
GPU = ("--gpu", "a10g", "--precision", "bf16", "--memory-gib", "18")
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def read(folder: Path, text: str) -> tuple[Milestone, ...]:
    path = folder / "m.yaml"
    path.write_text(text)
    return read_milestones(path, plan_request(), load_profiles(), UsualEpochs(90, "--epochs"))


def only(folder: Path, fields: str) -> Milestone:
    (one,) = read(folder, f"milestones:\n  - {{name: full, {fields}}}\n")
    return one


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> MilestonePlan:
    assert main([*words, "--json"]) == 0
    return from_json(capsys.readouterr().out, MilestonePlan)


def test_the_example_says_everything_a_milestone_can_have():
    pilot, ablations, full = read_milestones(EXAMPLE, plan_request(), load_profiles())
    assert (pilot.samples_per_epoch, pilot.epochs, pilot.runs) == (1_281_167, 10, 4)
    assert (ablations.samples_per_epoch, ablations.validation_share) == (4 * 1_281_167, 0.05)
    assert full.hardware is not None
    assert (full.hardware.kind, full.hardware.name) == (HardwareKind.GPU, "a100-sxm-80")
    assert full.hardware.typed == "a100-80"
    assert (full.data, full.gpus, full.checkpoint_every_s) == ("x20", 8, 1800.0)


def test_what_a_milestone_does_not_say_is_the_runs(tmp_path: Path):
    one = only(tmp_path, "runs: 1")
    assert (one.samples_per_epoch, one.epochs, one.data) == (1_281_167, 90, "x1")
    assert one.epochs_from == "--epochs"
    assert only(tmp_path, "epochs: 3").epochs_from is None
    assert (one.hardware, one.gpus, one.instances, one.checkpoint_every_s) == (None, None, None, None)


@pytest.mark.parametrize(
    ("fields", "samples"),
    [
        ("data: x4", 5_124_668),
        ("data: x0.5", 640_584),
        ("samples: 50k", 50_000),
        ("samples: 1.2M", 1_200_000),
        ("samples: 7", 7),
    ],
)
def test_data_is_a_multiple_or_a_number_of_samples(tmp_path: Path, fields: str, samples: int):
    assert only(tmp_path, fields).samples_per_epoch == samples


def test_a_validation_time_is_a_share_of_the_epoch_as_it_was_measured(tmp_path: Path):
    """An epoch of 18,000 samples takes 100 s at 180 samples/s."""
    assert only(tmp_path, "samples: 18000, validation: 5s").validation_share == pytest.approx(0.05)
    assert only(tmp_path, "validation: 0.1").validation_share == 0.1


@pytest.mark.parametrize(
    ("written", "kind", "name"),
    [
        ("here", HardwareKind.MEASURED, "a10g"),
        ("A100-80", HardwareKind.GPU, "a100-sxm-80"),
        ("G5.xlarge", HardwareKind.INSTANCE, "g5.xlarge"),
        ("Lambda", HardwareKind.PROVIDER, "lambda"),
    ],
)
def test_hardware_is_a_gpu_an_instance_a_provider_or_here(
    tmp_path: Path, written: str, kind: HardwareKind, name: str
):
    hardware = only(tmp_path, f"hardware: {written}").hardware
    assert hardware is not None
    assert (hardware.kind, hardware.name) == (kind, name)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("epoch: 3", "no key 'epoch'; did you mean epochs?"),
        ("zzz: 3", "no key 'zzz'; there are: name, data"),
        ("epochs: 0", "epochs must be a whole number of at least 1, such as 8, got 0"),
        ("epochs: true", "epochs must be a whole number of at least 1, such as 8, got True"),
        ("epochs: ", "epochs is empty; write a number, such as 90, or drop the key"),
        ("hardware: ", "hardware is empty; write a GPU, an instance, a provider or here, such as a10g, or"),
        ("data: null", "data is empty; write a multiple of the data set, such as x4, or drop the key"),
        ("samples: many", "samples must be a whole number of at least 1, such as 50k or 1.2M, got 'many'"),
        ("data: 4", "data must be a multiple of the data set's 1,281,167 samples, such as x4, got 4"),
        ("data: x0", "data must be a multiple"),
        ("data: x4, samples: 9", "data 'x4' and samples 9; keep one of them"),
        ("hardware: a100-81", "hardware 'a100-81' is no GPU, instance or provider; did you mean a100"),
        ("hardware: 8", "hardware must name a GPU, an instance or a provider, such as a10g, got 8"),
        ("validation: 7", "validation must be a share or a time for each epoch, such as 5% or 2m, got 7"),
        ("validation: 150%", "validation must be a share from 0% to below 100%"),
        ("validation: 2x", "validation must be a share from 0% to below 100%"),
        ("checkpoint_every: 30", "checkpoint_every must be a time with its unit, such as 30m, got 30"),
        ("checkpoint_every: often", "checkpoint_every: not a duration: 'often'"),
        ("runs: 2, instances: 4", "4 instances have only 2 runs to share; give fewer"),
    ],
)
def test_what_is_no_milestones_is_refused_with_its_place_and_a_remedy(tmp_path: Path, fields: str, says: str):
    with pytest.raises(UsageError) as refused:
        only(tmp_path, fields)
    assert f"m.yaml: milestone 1 (full): {says}" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no list of milestones; begin it with milestones:"),
        ("- name: a", "has no list of milestones"),
        ("milestones: []", "has no list of milestones"),
        (
            "milestones: [{name: a}]\nrate: 3",
            "no key 'rate' beside milestones; the file has milestones: alone",
        ),
        ("milestones: [a]", "milestone 1: 'a' is no mapping"),
        ("milestones: [{epochs: 3}]", "milestone 1: name must be a text; every milestone has one"),
        ("milestones: [{name: }]", "milestone 1: name is empty; write a text, such as pilot"),
        ("milestones:\n  -\n", "milestone 1: it is empty; write name:, epochs: and what else it has"),
        ("milestones: [{name: a}, {name: a}]", "two milestones are named 'a'"),
        ("milestones: [" + "{name: a}," * 13 + "]", "has 13 milestones, where 12 is the most"),
        ("milestones: [", "is not YAML"),
        ("milestones: &a [*a]", "holds itself"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, says: str):
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert says in str(refused.value)
    assert "m.yaml" in str(refused.value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9), st.lists))
def test_any_value_is_read_or_refused_in_a_sentence(value: object):
    for key in ("data", "samples", "hardware", "runs", "epochs", "validation", "checkpoint_every", "name"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.yaml"
            path.write_text(json.dumps({"milestones": [{"name": "full", key: value}]}))
            try:
                assert read_milestones(path, plan_request(), {}, UsualEpochs(90, "--epochs"))
            except UsageError as error:
                assert "m.yaml" in str(error)


def test_a_checkpoint_interval_contradicts_a_script_without_checkpoints(tmp_path: Path):
    path = tmp_path / "m.yaml"
    path.write_text("milestones: [{name: full, epochs: 9, checkpoint_every: 30m}]")
    asked = plan_request(assumptions=PlanAssumptions(checkpoint_cost_s=None))
    with pytest.raises(UsageError, match="'30m' contradicts --no-checkpoints"):
        read_milestones(path, asked, load_profiles())


@pytest.mark.parametrize(
    ("deadline", "hours"), [("3d", 72.0), ("36h", 36.0), ("2026-11-23", 12.0), ("2026-11-25", 60.0)]
)
def test_a_deadline_is_the_end_of_a_day_or_a_time_from_now(deadline: str, hours: float):
    assert limits_of(500.0, deadline, NOW).deadline_h == pytest.approx(hours, abs=1e-3)


@pytest.mark.parametrize("deadline", ["soon", "2026-13-40", "3", "0d", "", "9" * 12 + "d", "2026-11-22"])
def test_a_deadline_that_is_none_or_past_is_refused(deadline: str):
    with pytest.raises(UsageError, match="--deadline"):
        limits_of(None, deadline, NOW)


# --- the verb --------------------------------------------------------------------------------


def test_limits_without_milestones_are_refused(capsys: pytest.CaptureFixture[str]):
    assert main([*RATE, *GPU, "--max-cost", "500", "--deadline", "3d"]) == 2
    assert "--max-cost and --deadline without --milestones" in capsys.readouterr().err


def test_epochs_that_no_milestone_takes_are_refused(capsys: pytest.CaptureFixture[str]):
    assert main([*RATE, *GPU, "--epochs", "90", "--milestones", str(EXAMPLE)]) == 2
    assert "--epochs 90 would not be used: each milestone of" in capsys.readouterr().err


def test_a_milestone_without_epochs_takes_those_of_the_flag_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "m.yaml"
    path.write_text("milestones: [{name: pilot}, {name: full, epochs: 9}]")
    assert main([*RATE, *GPU, "--milestones", str(path)]) == 2
    said = capsys.readouterr().err
    assert "milestone 1 (pilot): it has no epochs; write epochs: 90, or give --epochs" in said
    plan = planned(capsys, *RATE, *GPU, "--epochs", "5", "--milestones", str(path))
    assert [(one.epochs, one.epochs_from) for one in plan.milestones] == [(5, "--epochs"), (9, None)]
    assert main([*RATE, *GPU, "--epochs", "5", "--milestones", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "Without epochs of its own: pilot; it takes 5 epochs (--epochs)." in " ".join(shown.split())
    path.write_text("milestones: [{name: pilot}, {name: full}]")
    assert main([*RATE, *GPU, "--epochs", "5", "--milestones", str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Without epochs of their own: pilot, full; they take 5 epochs (--epochs)." in shown


def test_what_the_measured_machine_costs_is_taken_from_the_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "m.yaml"
    path.write_text("milestones: [{name: own, epochs: 1, hardware: here}]")
    words = (*RATE, *GPU, "--milestones", str(path))
    assert [one.usd for one in planned(capsys, *words).choices] == [None]
    assert main([*words]) == 0
    assert "the machine of the rate has no price; say it with" in " ".join(capsys.readouterr().out.split())
    priced = planned(capsys, *words, "--here-cost-per-hour", "2").choices[0]
    assert priced.usd is not None
    assert priced.usd.value == pytest.approx(2 * 1_281_167 / 180 / 3600)


def test_milestones_from_a_rate_are_planned(capsys: pytest.CaptureFixture[str]):
    plan = planned(capsys, *RATE, *GPU, "--milestones", str(EXAMPLE))
    assert [one.kind for one in plan.choices] == list(ChoiceKind)
    one = plan.choices[0].options[0]
    assert (one.iterations_per_epoch, plan.drops_last, plan.tuning) == (5004, True, None)
    assert plan.gpu_break_evens


def test_findings_of_the_chosen_machines_are_kept_but_for_those_that_are_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "m.yaml"
    path.write_text("milestones: [{name: pilot, epochs: 10, runs: 4, hardware: t4}]")
    words = (*RATE, "--gpu", "a10g", "--precision", "bf16", "--milestones", str(path))
    codes = {one.code for one in planned(capsys, *words).findings}
    assert {"other-precision", "memory-unknown"} <= codes
    ignored = {one.code for one in planned(capsys, *words, "--ignore", "other-precision").findings}
    assert ignored == codes - {"other-precision"}


def test_a_rate_of_a_cpu_says_that_nothing_follows_from_it_on_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "m.yaml"
    path.write_text("milestones: [{name: pilot, epochs: 10}]")
    plan = planned(capsys, *RATE, "--gpu", "cpu", "--milestones", str(path))
    assert plan.choices[0].options[0].row.is_measured_machine
    assert "rates-unknown" in {one.code for one in plan.findings}
    assert main([*RATE, "--gpu", "cpu", "--milestones", str(path), "--provider", "aws"]) == 2
    assert "'pilot' can't be planned: the rate was measured on a CPU" in capsys.readouterr().err


def test_limits_reach_the_choices(capsys: pytest.CaptureFixture[str]):
    words = (*RATE, *GPU, "--milestones", str(EXAMPLE), "--max-cost", "1", "--deadline", "1h")
    plan = planned(capsys, *words)
    assert (plan.max_usd, plan.deadline, plan.deadline_h, plan.choices) == (1.0, "1h", 1.0, ())
    assert plan.nearest


def test_milestones_of_a_search_say_when_the_search_is_paid_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    found = run(
        recommendations=(recommendation(rate_samples_per_s=interval(180.0), speedup=interval(1.5)),),
        trials=(baseline_record(epoch_samples=1_281_167).changed(duration_s=7200.0),),
        options=options(epochs=90),
    )
    (tmp_path / "run.json").write_text(to_json(found))
    plan = planned(capsys, "plan", str(tmp_path), "--milestones", str(EXAMPLE))
    assert plan.tuning is not None
    assert (plan.tuning.search_hours, plan.tuning.speedup) == (2.0, interval(1.5))
    assert plan.tuning.epochs == pytest.approx(2 * 3600 / (1_281_167 / 180 * 0.5))


def test_its_report_is_written_as_a_page_and_as_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page, comment = tmp_path / "m.html", tmp_path / "m.md"
    files = ("--html", str(page), "--markdown", str(comment))
    assert main([*RATE, *GPU, "--milestones", str(EXAMPLE), *files]) == 0
    capsys.readouterr()
    for text in (page.read_text(), comment.read_text()):
        assert "drop_last" in text
        assert "ablations" in text


@pytest.mark.parametrize(
    "limits",
    [
        (),
        ("--max-cost", "800"),
        ("--max-cost", "800", "--deadline", "2d"),
        ("--max-cost", "5000", "--deadline", "30d"),
        ("--max-cost", "3600", "--deadline", "40d"),
        ("--max-cost", "5000", "--deadline", "30d", "--spot"),
    ],
)
def test_four_milestones_fit_one_screen(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[str, ...],
):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "m.yaml"
    fourth = "  - {name: folds, samples: 50k, epochs: 30, runs: 5, validation: 2m}\n"
    path.write_text(EXAMPLE.read_text() + fourth)
    assert main([*RATE, *GPU, "--milestones", str(path), *limits]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
