"""One trial of a command that is no training: where its files go, and what is left of it."""

from pathlib import Path

import pytest

from tunekit.records.target import Target
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.watch import Limits


def run_shell(script: str, trials: Path, working_dir: Path) -> TrialRecord:
    """Run a line of shell as a trial; it ends by itself."""
    command = ("sh", "-c", script)
    target = Target(name="sh", command=command, working_dir=str(working_dir), script=None, script_sha256=None)
    executor = ProcessExecutor(target, trials, Limits(trial_s=60, no_progress_s=60, ram_bytes=1 << 30), 0.1)
    return executor.run(TrialSpec(0, TrialRole.BASELINE, None), None, lambda progress: None)


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
