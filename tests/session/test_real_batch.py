"""Searches of loops that make their batches themselves: what one holds is bound, said or asked for."""

import subprocess
import sys
from pathlib import Path

import pytest
from real_trials import ZOO

from tunekit.records.codec import read_json
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import TrialRole

pytestmark = pytest.mark.real

QUICK = ("--window", "0.3", "--confirm", "1", "--budget", "10m", "--gpu", "cpu", "--fix", "compile=false")
SCRIPT = str(ZOO / "language_model.py")


def tunekit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tunekit", *words], cwd=folder, capture_output=True, text=True, timeout=400
    )


@pytest.mark.slow
def test_the_batch_of_a_seq_first_loop_is_searched_from_its_flags_default_on(tmp_path: Path) -> None:
    """The script has chunks of 35 tokens for each of 20 samples, and no word of its command says so."""
    bind = ("--bind", "batch_size=--batch_size {}", "--range", "batch_size=10..40", "--fix", "precision=fp32")
    words = ("search", *QUICK, *bind, "--trials", "3", "--out", "run", "--", sys.executable, SCRIPT)
    done = tunekit(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    run = read_json(tmp_path / "run" / "run.json", Run)
    assert run.status is RunStatus.FINISHED
    assert [trial.failure for trial in run.trials if trial.failure] == []
    assert run.baseline_config is not None
    assert run.baseline_config.batch_size == 20
    first = next(trial for trial in run.trials if trial.role is TrialRole.SEARCH)
    assert first.config == run.baseline_config.model_copy(update={"batch_size": 10})
    for trial in run.trials:
        assert trial.measurement is not None
        assert trial.config is not None
        loop = trial.measurement.loop
        assert loop.steady_samples == trial.config.batch_size * loop.steady_batches
    (tmp_path / "run" / "same.yaml").write_text("batch_size: 20\nnum_workers: 0\nprecision: fp32\n")
    same = tunekit(tmp_path, "run", "run/same.yaml", "--dry-run")
    assert "setting nothing" in same.stderr
    assert same.stdout.split() == [sys.executable, SCRIPT]


@pytest.mark.slow
def test_a_binding_that_is_not_the_batch_of_a_forward_pass_ends_the_search_early(tmp_path: Path) -> None:
    """The first chunk is as long as the batch, so that its size alone contradicts nothing."""
    command = (sys.executable, SCRIPT, "--micro_batches", "2", "--bptt", "20")
    bind = ("--bind", "batch_size=--batch_size {}", "--out", "run")
    done = tunekit(tmp_path, "search", *QUICK, *bind, "--", *command)
    assert done.returncode != 0
    run = read_json(tmp_path / "run" / "run.json", Run)
    assert [trial.role for trial in run.trials] == [TrialRole.BASELINE, TrialRole.SEARCH]


def test_a_constant_of_the_script_tells_the_samples_of_its_batches(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("BATCH_SIZE = 12\n" + (ZOO / "no_loader.py").read_text())
    words = ("search", *QUICK, "--trials", "1", "--out", "run", "--", sys.executable, "train.py")
    done = tunekit(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    run = read_json(tmp_path / "run" / "run.json", Run)
    assert run.baseline_config is not None and run.baseline_config.batch_size == 12


def test_samples_that_nothing_tells_are_asked_for(tmp_path: Path) -> None:
    words = ("--window", "0.3", "--gpu", "cpu", "--out", "run")
    done = tunekit(tmp_path, "search", *words, "--", sys.executable, str(ZOO / "no_loader.py"))
    assert done.returncode != 0
    assert "samples_unknown" in done.stderr
    assert "12 x 32" in done.stderr
    assert "--samples-per-step" in done.stderr
    assert "samples/s" not in done.stdout + done.stderr
