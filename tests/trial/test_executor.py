"""One trial of a command that is no training: where its files go, and what is left of it."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from tunekit.records.target import Target
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.trial import executor
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.watch import Limits


def run_shell(script: str, trials: Path, working_dir: Path) -> TrialRecord:
    """Run a line of shell as a trial; it ends by itself."""
    command = ("sh", "-c", script)
    target = Target(name="sh", command=command, working_dir=str(working_dir), script=None, script_sha256=None)
    runs = ProcessExecutor(target, trials, Limits(trial_s=60, no_progress_s=60, ram_bytes=1 << 30), 0.1)
    return runs.run(TrialSpec(0, TrialRole.BASELINE, None), None, lambda progress: None)


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
    monkeypatch.setattr(executor, "_LONGEST_SOCKET_PARENT", 1000)
    run_shell(script, tmp_path / "trials", elsewhere)
    assert list(temporary.iterdir()) == []


def test_copies_of_a_trial_are_kept_up_to_a_size_and_the_largest_are_listed(tmp_path: Path, elsewhere: Path):
    make = "mkdir -p diverted/sub && cd diverted && head -c 1000 /dev/zero > small"
    make += " && head -c 50000000 /dev/zero > sub/old.pt && head -c 60000000 /dev/zero > best.pt"
    record = run_shell(f"cd $(dirname $TUNEKIT_REQUEST) && {make}; exit 3", tmp_path / "trials", elsewhere)
    copies = tmp_path / "trials/0000/diverted"
    kept = sorted(str(path.relative_to(copies)) for path in copies.rglob("*") if path.is_file())
    assert kept == ["small", "sub/old.pt"]
    assert [fault for fault in record.faults if "best.pt (57.2 MiB)" in fault]


def test_a_trial_without_copies_has_no_folder_for_them(tmp_path: Path, elsewhere: Path):
    run_shell("mkdir $(dirname $TUNEKIT_REQUEST)/diverted; exit 3", tmp_path / "trials", elsewhere)
    assert not (tmp_path / "trials/0000/diverted").exists()
