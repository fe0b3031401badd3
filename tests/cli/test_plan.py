"""`tunekit plan`: from a run or a rate on the command line to hours and dollars."""

import json
from pathlib import Path
from typing import Any

import pytest
from build_checkups import torch_of
from build_records import baseline_record, host, interval, options, recommendation, run

from tunekit.cli.main import main
from tunekit.machine import detect
from tunekit.machine.host import torch_build as torch_room
from tunekit.records.codec import from_json, to_json
from tunekit.records.host import Host, TorchBuild
from tunekit.records.plan import Plan, RateSource

RATE = ["plan", "--rate", "180", "--samples", "1281167", "--epochs", "90", "--gpu", "a10g"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A finished run on an A10G: 180 samples/s over a data set of ImageNet's size."""
    finished = run(
        recommendations=(recommendation(rate_samples_per_s=interval(180.0)),),
        trials=(baseline_record(epoch_samples=1_281_167),),
        options=options(epochs=90),
    )
    (tmp_path / "run.json").write_text(to_json(finished))
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> Plan:
    assert main([*words, "--json"]) == 0
    return from_json(capsys.readouterr().out, Plan)


def test_a_rate_becomes_hours_and_dollars(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    words = [*RATE, "--only", "a10g", "--provider", "aws"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "Measured on 1x a10g: 178 h, 1.98 h an epoch, $179 on aws g5.xlarge" in " ".join(shown.split())
    assert "at 180 samples/s in fp32, assumed (--rate 180)" in " ".join(shown.split())
    assert "(--precision)" not in shown
    assert len(shown.splitlines()) <= 24
    assert main([*words, "--full"]) == 0
    full = capsys.readouterr().out
    assert "the rate was measured in fp32 (--precision)" in full
    assert max(len(line) for line in (shown + full).splitlines()) <= 80


def test_a_rate_may_be_iterations_of_a_batch(capsys: pytest.CaptureFixture[str]):
    words = ["plan", "--rate", "1.5it/s", "--batch", "120", *RATE[3:]]
    asked = planned(capsys, *words).request
    assert asked.rate_samples_per_s.value == pytest.approx(180.0)
    assert (asked.samples_per_step, asked.source) == (120, "--rate 1.5it/s --batch 120")
    slow = planned(capsys, "plan", "--rate", "2s/it", "--batch", "360", *RATE[3:]).request
    assert slow.rate_samples_per_s.value == pytest.approx(180.0)


def test_no_gpus_are_chosen_that_the_loader_can_not_feed(capsys: pytest.CaptureFixture[str]):
    words = ("--samples", "50k", "--epochs", "10", "--gpu", "t4", "--precision", "fp16")
    paid = [word for name in ("aws", "gcp", "azure", "lambda", "colab") for word in ("--provider", name)]
    plan = planned(capsys, "plan", "--rate", "282", *words, *paid)
    chosen = [plan.rows[one.row] for one in plan.choices]
    assert len(chosen) == 3
    assert {row.profile_id for row in chosen}.isdisjoint({"b200", "h200", "h100-sxm"})
    assert all(row.gpus == 1 and not row.is_mostly_idle for row in chosen)
    assert all(row.is_mostly_idle for row in plan.rows if row.instance == "p6-b200.48xlarge")


def test_what_kaggle_does_for_nothing_within_an_hour_is_every_choice(capsys: pytest.CaptureFixture[str]):
    words = ("--samples", "50k", "--epochs", "10", "--gpu", "t4", "--precision", "fp16")
    plan = planned(capsys, "plan", "--rate", "282", *words)
    assert {plan.rows[one.row].instance for one in plan.choices} == {"T4 x2"}


def test_a_saved_run_is_planned(saved: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["plan", str(saved), "--full"]) == 0
    shown = capsys.readouterr().out
    assert f"tunekit run {saved}/balanced.yaml" in shown
    assert "90 epochs of 1,281,167 samples, at 180 samples/s (175 to 185) in" in " ".join(shown.split())
    assert "5.0 GiB of memory" in shown


def test_a_run_and_a_rate_give_the_same_hours(saved: Path, capsys: pytest.CaptureFixture[str]):
    of_run = planned(capsys, "plan", str(saved)).rows[0].hours
    of_rate = planned(capsys, *RATE).rows[0].hours
    assert of_run is not None
    assert of_rate is not None
    assert of_run.value == pytest.approx(of_rate.value)


def test_json_alone_is_on_standard_output(capsys: pytest.CaptureFixture[str]):
    assert main([*RATE, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["schema_version"] == 1
    assert captured.err == ""


def test_its_report_is_written_as_a_page_and_as_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page, comment = tmp_path / "plan.html", tmp_path / "plan.md"
    assert main([*RATE, "--html", str(page), "--markdown", str(comment)]) == 0
    assert "90 epochs of 1,281,167 samples, at 180 samples/s" in " ".join(capsys.readouterr().out.split())
    assert "at 180 samples/s in fp32" in page.read_text()
    assert "at 180 samples/s in fp32, assumed" in comment.read_text()
    assert main([*RATE, "--html", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_every_flag_reaches_the_plan(capsys: pytest.CaptureFixture[str]):
    plan = planned(
        capsys,
        *RATE,
        *("--gpus", "2", "--precision", "bf16", "--max-session", "6h", "--checkpoint-cost", "1m"),
        *("--restart-cost", "2m", "--interrupted-every", "8h", "--scaling", "0.5..0.9", "--provider", "AWS"),
        *("--only", "A10G", "--only", "a100-80", "--max-hours", "1000", "--spot"),
    )
    asked = plan.request
    assumed = asked.assumptions
    assert (asked.measured_gpus, asked.precision, asked.precision_is_assumed) == (2, "bf16", False)
    assert (assumed.max_session_s, assumed.checkpoint_cost_s) == (6 * 3600, 60)
    assert (assumed.restart_cost_s, assumed.interrupted_every_s) == (120, 8 * 3600)
    assert (assumed.scaling_low, assumed.scaling_high, assumed.scaling_is_given) == (0.5, 0.9, True)
    assert (asked.providers, asked.only) == (("aws",), ("a10g", "a100-sxm-80"))
    assert (asked.max_hours, asked.may_use_spot) == (1000.0, True)
    assert {row.profile_id for row in plan.rows} == {"a10g", "a100-sxm-80"}


def test_the_memory_need_can_be_given(saved: Path, capsys: pytest.CaptureFixture[str]):
    plan = planned(capsys, *RATE, "--precision", "bf16", "--memory-gib", "18.5")
    assert plan.request.peak_reserved_bytes == 18.5 * 1024**3
    assert {row.fits for row in plan.rows if row.profile_id == "t4"} == {False}
    of_run = planned(capsys, "plan", str(saved), "--memory-gib", "18.5").request
    assert (of_run.peak_reserved_bytes, of_run.peak_is_given) == (plan.request.peak_reserved_bytes, True)


def test_without_it_no_smaller_gpu_is_chosen(capsys: pytest.CaptureFixture[str]):
    words = (*RATE, "--precision", "bf16", "--only", "t4", "--only", "a10g")
    plan = planned(capsys, *words)
    assert {plan.rows[one.row].profile_id for one in plan.choices} == {"a10g"}
    assert main([*words, "--full"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "1x t4?" in shown
    assert "? may not fit its memory" in shown
    assert "passing over" in shown


def test_samples_are_read_as_they_are_printed(capsys: pytest.CaptureFixture[str]):
    for text in ("1,281,167", "1281.167k"):
        assert planned(capsys, *RATE, "--samples", text).request.samples_per_epoch == 1_281_167


def test_too_slow_machines_are_the_reason_where_there_is_no_other(capsys: pytest.CaptureFixture[str]):
    assert main([*RATE, "--precision", "bf16", "--max-hours", "0.1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "No other machine is fast enough: 73 machines that need more than 0.1 h are left out" in shown


def test_the_runs_tier_samples_and_epochs_can_be_set(saved: Path, capsys: pytest.CaptureFixture[str]):
    words = ("--tier", "balanced", "--samples", "7", "--epochs", "3", "--no-checkpoints")
    asked = planned(capsys, "plan", str(saved), *words).request
    assert (asked.samples_per_epoch, asked.epochs) == (7, 3)
    assert asked.assumptions.checkpoint_cost_s is None


def test_a_rate_of_a_cpu_gives_the_hours_of_this_machine_alone(capsys: pytest.CaptureFixture[str]):
    plan = planned(capsys, *RATE[:-1], "cpu")
    assert plan.rows[0].hours is not None
    assert {row.how for row in plan.rows[1:]} == {None}
    assert main([*RATE[:-1], "cpu"]) == 0
    assert "measured on a CPU" in " ".join(capsys.readouterr().out.split())


def test_a_run_on_a_cpu_says_why_it_has_no_dollars(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    on_cpu = run(
        recommendations=(recommendation(rate_samples_per_s=interval(180.0)),),
        trials=(baseline_record(epoch_samples=50_000),),
        measured_on="cpu",
        host=host(accelerators=()),
    )
    (tmp_path / "run.json").write_text(to_json(on_cpu))
    assert main(["plan", str(tmp_path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Nothing is known of other machines: the rate was measured on a CPU" in shown
    assert "tunekit plan --rate R --samples 50000 --epochs 10 --gpu t4" in shown


def test_a_students_plan_on_colab_fits_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    words = ("--precision", "bf16", "--provider", "colab", "--max-session", "12h")
    assert main([*RATE, *words]) == 0
    shown = capsys.readouterr().out
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert "sessions of up to 12h 00m; a checkpoint every 26m 20s" in " ".join(shown.split())
    assert main([*RATE, *words, "--full"]) == 0
    full = capsys.readouterr().out
    assert max(len(line) for line in full.splitlines()) <= 80
    titles = full[full.index("Machines by") :].splitlines()[1:4]
    assert {"GPUs", "training", "range", "on", "demand", "units", "sessions"} <= set(
        " ".join(titles).replace(",", "").split()
    )


def test_without_gpu_the_one_that_is_here_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(detect, "detect_host", lambda **asked: host())
    plan = planned(capsys, *RATE[:-2])
    assert plan.request.measured_on == "a10g"
    assert plan.rows[0].how is RateSource.MEASURED


def test_without_gpu_and_without_one_here_it_has_to_be_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(detect, "detect_host", lambda **asked: host(accelerators=()))
    assert main(RATE[:-2]) == 2
    assert "say where the rate was measured: --gpu a10g, or --gpu cpu" in capsys.readouterr().err


def test_without_gpu_one_that_only_torch_sees_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def seen(torch: TorchBuild | None = None, **asked: Any) -> Host:
        return host() if torch else host(accelerators=())

    monkeypatch.setattr(detect, "detect_host", seen)
    monkeypatch.setattr(detect, "has_gpu_file", lambda: True)
    monkeypatch.setattr(torch_room, "torch_build", lambda python: torch_of(python=python))
    assert planned(capsys, *RATE[:-2]).request.measured_on == "a10g"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan"], "give a run folder, or --rate with --samples and --epochs"),
        (["plan", "--rate", "180"], "--rate 180 says nothing of the training; add --samples and --epochs"),
        (["plan", "--rate", "180", "--epochs", "1"], "add --samples"),
        (
            [*RATE[:1], "--rate", "2it/s", *RATE[3:]],
            "--rate 2it/s needs the samples of an iteration; add --batch",
        ),
        (
            [*RATE, "--batch", "256"],
            "--rate 180 with --batch 256 may be iterations or samples; write its unit: --rate 180it/s or "
            "--rate 180samples/s",
        ),
        (["plan", "here", "--batch", "8"], "--batch belongs to --rate"),
        ([*RATE, "--tier", "balanced"], "--tier balanced belongs to a run"),
        (["plan", "here", "--rate", "5"], "here has its own rate, so --rate 5 is one too many"),
        (["plan", "here", "--gpu", "t4", "--gpus", "2"], "--gpu, --gpus belong to --rate; here knows them"),
        (["plan", "here", "--gpu", "t4"], "--gpu belongs to --rate; here knows it, so drop it"),
        ([*RATE, "--memory-gib", "30"], "--memory-gib 30 is more than the 22.5 GiB of a10g"),
        ([*RATE, "--scaling", "0.9..0.8"], "write it as LO..HI with shares up to 1"),
        ([*RATE, "--scaling", "2"], "write it as LO..HI with shares up to 1"),
        ([*RATE, "--scaling", "most"], "write it as LO..HI with shares up to 1"),
        ([*RATE, "--scaling", "-1..2"], "--scaling -1..2: write it as LO..HI with shares up to 1"),
        ([*RATE, "--provider", "nowhere"], "no machine of provider 'nowhere' is known; known: aws"),
        ([*RATE, "--samples", "9" * 15, "--epochs", "9" * 15], "check rate, samples and epochs"),
        ([*RATE, "--", "python", "train.py"], "plan takes no training command"),
    ],
)
def test_what_can_not_be_planned_says_what_to_do(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "text", "said"),
    [
        *(
            ("--rate", text, "must be a positive rate such as 282 (samples/s), 1.1it/s or 0.9s/it")
            for text in ("0", "-5", "nan", "1e300", "fast")
        ),
        ("--samples", "0", "must be a whole number, at least 1, got '0'"),
        ("--epochs", "1.5", "must be a whole number, at least 1, got '1.5'"),
        ("--gpus", "-1", "must be a whole number, at least 1, got '-1'"),
        ("--max-hours", "inf", "must be a positive number of hours, got 'inf'"),
        ("--memory-gib", "-5GB", "must be a positive number of GiB, at most 1,000,000, got '-5GB'"),
        ("--max-session", "12", "12 is 12.0 s, less than 10m 00s; write 12h"),
        ("--max-session", "9m", "9m is 9m 00s, less than 10m 00s; write 9h if hours are meant"),
        ("--max-session", "-12h", "not a duration: '-12h'; write it as 90s, 15m or 1h30m"),
        ("--interrupted-every", "4", "4 is 4.0 s, less than 10m 00s; write 4h"),
        ("--interrupted-every", "0h", "a duration must be positive and finite, got '0h'"),
        ("--checkpoint-cost", "-1", "not a duration: '-1'; write it as 90s, 15m or 1h30m"),
        ("--restart-cost", "soon", "not a duration: 'soon'; write it as 90s, 15m or 1h30m"),
        ("--precision", "int8", "invalid choice"),
        ("--tier", "boldest", "invalid choice"),
    ],
)
def test_a_value_that_can_not_be_used_says_what_it_must_be(
    flag: str, text: str, said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as caught:
        main(["plan", flag, text])
    assert caught.value.code == 2
    assert f"argument {flag}: {said}" in capsys.readouterr().err


def test_an_unknown_gpu_lists_the_known_ones(capsys: pytest.CaptureFixture[str]):
    assert main([*RATE[:-1], "a10h"]) == 3
    assert "near: a10, a10g" in capsys.readouterr().err
    assert main([*RATE, "--only", "a10h"]) == 3


def test_a_folder_without_a_run_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["plan", str(tmp_path)]) == 8
    assert "no run in" in capsys.readouterr().err


def test_a_run_without_a_rate_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "run.json").write_text(to_json(run()))
    assert main(["plan", str(tmp_path)]) == 2
    assert "has no rate: it recommends nothing" in capsys.readouterr().err
