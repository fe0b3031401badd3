"""Knobs that the script itself sets: by a key in its config file, a flag, a variable."""

import shutil
import sys
from pathlib import Path

import pytest
from real_trials import ZOO, run_tunekit

from tunekit.records.codec import read_json
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.trial.binding_syntax import binding_text

pytestmark = pytest.mark.real

CONFIG = """\
# what we train with
data:
  batch_size: 32  # per GPU
optim: {lr: 0.05}
epochs: 1000
"""
QUICK = ("--window", "0.3", "--confirm", "1", "--budget", "10m")
QUICK += ("--fix", "compile=false", "--fix", "precision=fp32", "--fix", "num_workers=0", "--out", "run")
SCRIPT = str(ZOO / "configured.py")


def tunekit(folder: Path, *words: str, command: tuple[str, ...], script: str = SCRIPT) -> str:
    """Run one verb on a script and return what it printed."""
    process = run_tunekit(folder, *words, "--", sys.executable, script, *command)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a config file."""
    (tmp_path / "train.yaml").write_text(CONFIG)
    return tmp_path


def measured(run: Run) -> list[TrialRecord]:
    return [trial for trial in run.trials if trial.measurement]


@pytest.mark.slow
def test_init_finds_the_users_own_places_and_search_uses_them(project: Path) -> None:
    (project / "pyproject.toml").write_text('[project]\nname = "mine"  # ours\n')
    command = ("--config", "train.yaml", "--accumulate", "2")
    shown = tunekit(project, "init", command=command)
    assert "train.yaml:data.batch_size" in shown
    written = (project / "pyproject.toml").read_text()
    assert written.startswith('[project]\nname = "mine"  # ours\n')
    assert 'batch_size = "train.yaml:data.batch_size"' in written
    assert 'lr = "train.yaml:optim.lr"' in written
    assert 'accumulate_grad_batches = "--accumulate {}"' in written
    words = ("--trials", "2", "--global-batch", "64", "--range", "batch_size=16..64")
    tunekit(project, "search", *words, *QUICK, command=command)
    trials = measured(read_json(project / "run" / "run.json", Run))
    assert len({trial.config for trial in trials}) > 1
    for trial in trials:
        assert trial.config is not None
        assert trial.config.batch_size * trial.config.accumulate_grad_batches == 64
        said = (project / f"run/trials/{trial.number:04d}/output.log").read_text()
        assert f"batch {trial.config.batch_size} " in said


def test_init_writes_what_the_loop_followed_and_says_why_not_the_rest(tmp_path: Path) -> None:
    script = shutil.copy(ZOO / "scales_lr.py", tmp_path)
    shown = " ".join(tunekit(tmp_path, "init", command=(), script=script).split())
    written = '[script."scales_lr.py".bind]\nbatch_size = "--batch-size {}"\n'
    assert (tmp_path / "tunekit.toml").read_text() == written
    assert "batch_size=--batch-size {} 16 yes" in shown
    assert "num_workers=--workers {} 1 not written" in shown
    assert "sk-planted" not in shown


def searched_by_itself(folder: Path, *command: str) -> Run:
    """Search the schedule of planned steps in a folder; nothing is bound by the user."""
    for name in ("planned_steps.py", "plain_loop.py"):
        shutil.copy(ZOO / name, folder)
    words = ("--trials", "3", "--range", "batch_size=32..64")
    tunekit(folder, "search", *QUICK, *words, command=command, script="planned_steps.py")
    return read_json(folder / "run" / "run.json", Run)


@pytest.mark.slow
def test_search_uses_the_scripts_own_flag_and_run_makes_all_planned_steps(tmp_path: Path) -> None:
    run = searched_by_itself(tmp_path)
    assert [binding_text(one) for one in run.target.bindings] == ["batch_size=--batch-size {}"]
    assert [trial.failure for trial in run.trials if trial.failure] == []
    (tmp_path / "run" / "mine.yaml").write_text("batch_size: 64\n")
    words = ("run", "run/mine.yaml", "--keep-lr")
    trained = tunekit(tmp_path, *words, command=("--epochs", "4"), script="planned_steps.py")
    assert trained.split("\n")[-2] == "made 100 of 100 steps"
    shutil.copy(ZOO / "scales_lr.py", tmp_path)
    refused = run_tunekit(tmp_path, *words, "--", sys.executable, "scales_lr.py")
    assert refused.returncode == 2
    assert f"{tmp_path}/planned_steps.py, and the command trains {tmp_path}/scales_lr.py" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("word", ["--ignore", "--flagless"])
def test_a_script_without_a_flag_that_works_has_its_loader_set(tmp_path: Path, word: str) -> None:
    run = searched_by_itself(tmp_path, word)
    assert run.target.bindings == ()
    kinds = [trial.failure.kind for trial in run.trials if trial.failure]
    assert kinds == ([OutcomeKind.KNOB_NOT_APPLIED] if word == "--ignore" else [])
    assert any(trial.config and trial.config.batch_size in (32, 64) for trial in measured(run))
