"""`tunekit scale`: which counts it measures, and what it leaves on disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from build_records import host
from build_scaling import ScalingExecutor, Step
from json_schemas import valid
from real_trials import ZOO, run_tunekit

from tunekit.cli import scale as verb
from tunekit.cli.main import main
from tunekit.records.codec import from_json
from tunekit.records.data_parallel import DataParallelKind
from tunekit.records.run import RunStatus
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScalingRun
from tunekit.session.folder import load_saved

TRAIN = ("--", sys.executable, "train.py")


@pytest.fixture
def scripted(project: Path, monkeypatch: pytest.MonkeyPatch) -> ScalingExecutor:
    """What runs the trials in place of processes, on a machine with four GPUs."""
    executor = ScalingExecutor(Step())
    monkeypatch.setattr(verb, "host_here", lambda command: host(accelerators=host().accelerators * 4))
    monkeypatch.setattr("tunekit.cli.trials.executor_for", lambda *_: executor)
    return executor


@pytest.mark.parametrize(("gpus", "counts"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4)), (8, (1, 2, 4, 8))])
def test_counts_are_powers_of_two_up_to_the_gpus(gpus: int, counts: tuple[int, ...]):
    assert verb.usual_counts(host(accelerators=host().accelerators * gpus), "auto") == counts


def test_without_a_gpu_or_with_gpu_cpu_counts_go_up_to_the_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verb, "cpu_cores", lambda: 3)
    assert verb.usual_counts(host(accelerators=()), "auto") == (1, 2)
    assert verb.usual_counts(host(), "cpu") == (1, 2)


def test_every_round_is_run_and_shown_and_saved(
    project: Path, scripted: ScalingExecutor, capsys: pytest.CaptureFixture[str]
):
    assert main(["scale", "--rounds", "2", "--out", "scaled", *TRAIN]) == 0
    shown = capsys.readouterr().out
    assert "4 processes, without summing gradients, round 2 of 2" in shown
    assert "Speedup of 4 processes over 1: 3.42x" in shown
    saved = load_saved(project / "scaled")
    assert (saved.status, saved.options.processes) == (RunStatus.FINISHED, (1, 2, 4))
    assert saved.largest is not None and saved.largest.efficiency is not None
    assert saved.largest.efficiency.value == pytest.approx(0.8543, abs=1e-3)
    assert len(scripted.specs) == 10


def test_json_is_the_record_and_progress_goes_to_stderr(
    project: Path, scripted: ScalingExecutor, capsys: pytest.CaptureFixture[str]
):
    words = ("--json", "--strong", "--processes", "2,1,2", "--rounds", "1", "--lr", "0.2", "--out", "scaled")
    assert main(["scale", *words, *TRAIN]) == 0
    captured = capsys.readouterr()
    whole = from_json(valid("scale", captured.out), ScalingRun)
    assert whole == load_saved(project / "scaled")
    assert whole.options.processes == (1, 2)
    assert whole.mode is ScalingMode.STRONG
    assert [one.lr_linear for one in whole.measured] == [0.2, 0.2]
    assert "2 processes" in captured.err and "Speedup" not in captured.err


def test_a_saved_scaling_is_shown_again_and_not_written_over(
    project: Path, scripted: ScalingExecutor, capsys: pytest.CaptureFixture[str]
):
    assert main(["scale", "--rounds", "1", "--out", "scaled", *TRAIN]) == 0
    shown = capsys.readouterr().out
    assert main(["report", "scaled"]) == 0
    again = capsys.readouterr().out
    assert "Speedup of 4 processes" in again and shown.endswith(again)
    assert main(["scale", "--out", "scaled", *TRAIN]) == 2
    assert "already holds trials; give another folder with --out" in capsys.readouterr().err
    assert main(["fits", "scaled", "--ram", "8", "--cpus", "2"]) == 8
    assert "holds a measured scaling" in capsys.readouterr().err


def test_ctrl_c_says_where_the_finished_trials_are(
    project: Path, scripted: ScalingExecutor, capsys: pytest.CaptureFixture[str]
):
    scripted.fails = lambda spec: KeyboardInterrupt() if spec.number == 3 else None
    assert main(["scale", "--out", "scaled", *TRAIN]) == 130
    shown = capsys.readouterr().out
    assert "interrupted; 3 finished trials in scaled\nShow them with: tunekit report scaled" in shown
    assert main(["report", "scaled"]) == 0
    assert "Speedup of 2 processes" in capsys.readouterr().out


# --- real processes --------------------------------------------------------------------------


def scale_for_real(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    usual = ("--processes", "1,2", "--rounds", "1", "--window", "0.3", "--out", "scaled", "--json")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return run_tunekit(folder, "scale", *usual, *words, PATH=path)


@pytest.mark.real
@pytest.mark.slow
def test_two_gloo_processes_are_measured_beside_one_and_each_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    script = str(ZOO / "ddp_gloo.py")
    done = scale_for_real(tmp_path, "--", sys.executable, script, "--output", "out")
    assert done.returncode == 0, done.stderr
    whole = from_json(done.stdout, ScalingRun)
    assert [one.processes for one in whole.measured] == [1, 2]
    assert [one.batch_size for one in whole.measured] == [16, 16]
    two = whole.measured[1]
    assert two.step is not None and two.step.exposed_s is not None and two.step.straggler_s is not None
    assert two.epoch_samples == 32_000
    seen = [
        one.measurement.loop.data_parallel for one in whole.trials if one.measurement and one.processes == 2
    ]
    assert {one.kind for one in seen if one} == {DataParallelKind.DDP}
    assert {one.backend for one in seen if one} == {"gloo"}
    assert two.lr_linear == pytest.approx(0.04)
    loops = [one.measurement.loop for one in whole.trials if one.measurement]
    assert {one.threads.variables["OMP_NUM_THREADS"] for one in loops if one.threads} == {"1"}


@pytest.mark.real
@pytest.mark.slow
def test_a_hugging_face_trainer_shares_a_global_batch_by_its_own_flag(tmp_path: Path) -> None:
    binding = ("--strong", "--bind", "batch_size=--batch-size {}")
    script = str(ZOO / "hf_trainer.py")
    done = scale_for_real(tmp_path, *binding, "--", sys.executable, script, "--output", "out")
    assert done.returncode == 0, done.stderr
    whole = from_json(done.stdout, ScalingRun)
    assert whole.mode is ScalingMode.STRONG
    assert [(one.batch_size, one.global_batch) for one in whole.measured] == [(8, 8), (4, 8)]


@pytest.mark.real
@pytest.mark.slow
def test_processes_that_train_each_alone_are_refused(tmp_path: Path) -> None:
    done = scale_for_real(tmp_path, "--", sys.executable, str(ZOO / "plain_with_validation.py"))
    assert done.returncode == 4
    assert "they join no process group: each trains on its own" in done.stderr
    assert load_saved(tmp_path / "scaled").status is RunStatus.FAILED
