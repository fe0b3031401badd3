"""One trial of a command that is no training: where its files go, and what is left of it."""

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tunekit.errors import TargetError
from tunekit.records.target import Target
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.trial import executor
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.watch import Limits


def run_shell(script: str, trials: Path, working_dir: Path, gpus: int = 0, **asked: Any) -> TrialRecord:
    """Run a line of shell as a trial; it ends by itself."""
    command = ("sh", "-c", script)
    target = Target(name="sh", command=command, working_dir=str(working_dir), script=None, script_sha256=None)
    runs = ProcessExecutor(target, trials, Limits(trial_s=60, no_progress_s=60, ram_bytes=1 << 30), 0.1)
    runs.gpus = tuple(range(gpus))
    return runs.run(TrialSpec(0, TrialRole.BASELINE, None, **asked), None, lambda progress: None)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def test_a_relative_folder_means_the_same_to_a_command_that_runs_in_another(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    record = run_shell("pwd; echo $TUNEKIT_REQUEST; exit 3", Path("run/trials"), elsewhere)
    assert record.failure is not None
    assert record.failure.returncode == 3
    trial = tmp_path / "run/trials/0000"
    assert (trial / "output.log").read_text() == f"{elsewhere}\n{trial}/request.json\n"
    assert list(elsewhere.iterdir()) == []


def test_files_have_the_permissions_of_the_users_umask_and_the_command_has_it_too(
    tmp_path: Path, elsewhere: Path
):
    before = os.umask(0o027)
    try:
        run_shell("umask; exit 3", tmp_path / "trials", elsewhere)
    finally:
        os.umask(before)
    trial = tmp_path / "trials/0000"
    assert (trial / "output.log").read_text() == "0027\n"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in trial.iterdir() if path.is_file()}
    assert modes == {"output.log": 0o640, "request.json": 0o640}


@pytest.mark.parametrize("script", ["true", "exit 3", "kill -9 $PPID; sleep 60"])
def test_a_trials_temporary_folder_goes_however_it_ends(
    script: str, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(executor, "_MAX_SOCKET_PARENT", 1000)
    run_shell(script, tmp_path / "trials", elsewhere)
    assert list(temporary.iterdir()) == []


STARTED = "echo {processes}:$OMP_NUM_THREADS:$CUDA_VISIBLE_DEVICES; exit 3"


@pytest.mark.parametrize(
    ("processes", "environment", "gpus", "printed"),
    [
        (1, {}, 0, "1:1:"),
        (2, {}, 0, "2:1:"),
        (2, {"OMP_NUM_THREADS": "6"}, 4, "2:6:0,1"),
        (4, {}, 4, "4:1:"),  # each has a GPU: nothing is hidden
        (2, {"CUDA_VISIBLE_DEVICES": "5,GPU-a,1"}, 3, "2:1:5,GPU-a"),
        (3, {"CUDA_VISIBLE_DEVICES": "5,7"}, 2, "3:1:5,7"),
    ],
)
def test_a_number_of_processes_reaches_the_command_with_a_thread_and_a_gpu_for_each(
    processes: int,
    environment: dict[str, str],
    gpus: int,
    printed: str,
    tmp_path: Path,
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    record = run_shell(STARTED, tmp_path / "trials", elsewhere, gpus, processes=processes, no_sync=True)
    assert (tmp_path / "trials/0000/output.log").read_text() == f"{printed}\n"
    assert (record.processes, record.no_sync) == (processes, True)


def test_a_command_that_has_no_known_number_is_refused_before_anything_is_written(
    tmp_path: Path, elsewhere: Path
):
    with pytest.raises(TargetError, match=r"\{processes\}"):
        run_shell("exit 3", tmp_path / "trials", elsewhere, processes=2)
    assert not (tmp_path / "trials").exists()
