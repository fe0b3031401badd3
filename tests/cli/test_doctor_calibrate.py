"""`tunekit doctor --calibrate`: what it asks, what it shows and keeps, and its exit codes."""

import sys
from pathlib import Path

import pytest
from build_calibrations import calibration

from tunekit.cli.main import main
from tunekit.errors import TargetError, UsageError
from tunekit.machine.gpu import calibrate as room
from tunekit.machine.gpu.calibrate import load_calibrations
from tunekit.records.prediction import Calibration, OpCost, OpTime

MEASURED = calibration(op_times=(OpTime(OpCost("mm", "bfloat16", 1e9, 1e5), 1e-4),), host_op_s=1.25e-5)

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Pythons that were asked to calibrate, on a machine with an H200."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("TUNEKIT_CALIBRATIONS", raising=False)
    pythons: list[str] = []

    def calibrate(python: str, gpus: object, nvml: object) -> Calibration:
        pythons.append(python)
        return MEASURED

    monkeypatch.setattr(room, "calibrate", calibrate)
    return pythons


def test_what_was_measured_is_shown_and_kept(tmp_path: Path, capsys: Captured, asked: list[str]):
    assert main(["doctor", "--calibrate"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "CUDA context and libraries 500.0 MiB" in shown
    assert "mm bfloat16 100.0 10.0 1" in shown
    assert "Host: 12.5 us per op of a training step." in shown
    assert f"Saved in {tmp_path}/.cache/tunekit/calibration/nvidia-h200-torch-2.13.0-cu130.json" in shown
    assert load_calibrations() == (MEASURED,)
    assert asked == [sys.executable]


def test_the_python_of_the_training_command_is_asked(asked: list[str]):
    assert main(["doctor", "--calibrate", "--", sys.executable, "train.py"]) == 0
    assert asked == [sys.executable]


def test_a_command_whose_python_is_unknown_is_refused(capsys: Captured, asked: list[str]):
    assert main(["doctor", "--calibrate", "--", "uv", "run", "train.py"]) == UsageError.exit_code
    said = capsys.readouterr().err
    assert "can't tell which Python 'uv' runs" in said
    assert asked == []


def test_a_folder_that_can_not_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: Captured, asked: list[str]
):
    (tmp_path / ".cache").write_text("no folder")
    assert main(["doctor", "--calibrate"]) == UsageError.exit_code
    said = " ".join(capsys.readouterr().err.split())
    assert f"can't be saved in '{tmp_path}/.cache/tunekit/calibration' (Not a directory); make it" in said
    assert "or name another folder in TUNEKIT_CALIBRATIONS" in said
    assert asked == []


@pytest.mark.parametrize("error", [UsageError("no CUDA GPU to calibrate"), TargetError("torch is broken")])
def test_what_can_not_be_measured_ends_with_its_own_code_and_keeps_nothing(
    error: UsageError | TargetError, monkeypatch: pytest.MonkeyPatch, capsys: Captured
):
    def calibrate(*arguments: object) -> Calibration:
        raise error

    monkeypatch.setattr(room, "calibrate", calibrate)
    assert main(["doctor", "--calibrate"]) == error.exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert str(error) in captured.err
    assert load_calibrations() == ()
