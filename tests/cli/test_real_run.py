"""`tunekit run`: the user's real training with tuned knobs, everything else its own."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from build_records import host
from build_records import run as of_search
from real_trials import ZOO, RealTrials

from tunekit.machine.profiles import load_profiles
from tunekit.records.codec import to_json
from tunekit.trial.binding_syntax import parse_binding
from tunekit.trial.target import resolve_target

pytestmark = pytest.mark.real

SCRIPT = str(ZOO / "trains_for_real.py")
TRAIN = (sys.executable, SCRIPT)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run in the script's own folder, with `lr` bound to its flag; it is run elsewhere."""
    folder = tmp_path_factory.mktemp("searched") / "run"
    target = resolve_target((*TRAIN, "--epochs", "1000"), ZOO)
    target = target.changed(bindings=(parse_binding("lr=--lr {}"),))
    baseline = RealTrials(target, folder / "trials").run_baseline()
    on_cpu = {"host": host(accelerators=()), "profile": load_profiles()["cpu"], "measured_on": "cpu"}
    (folder / "run.json").write_text(to_json(of_search(target=target, trials=(baseline,), **on_cpu)))
    return folder


@pytest.fixture(scope="module")
def bare_losses() -> list[str]:
    """What the command prints without tunekit."""
    bare = subprocess.run(TRAIN, input="hello\n", capture_output=True, text=True, check=True)
    return losses(bare.stdout)


@pytest.fixture
def tuned(searched: Path, tmp_path: Path) -> Path:
    """A folder with a copy of that run; configs are written beside its run.json."""
    shutil.copytree(searched, tmp_path / "run", ignore=shutil.ignore_patterns("trials", "applied"))
    return tmp_path / "run"


def start(config: Path, *options: str, script: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tunekit", "run", str(config), *options, "--", *TRAIN, *script],
        cwd=config.parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(config: Path, *options: str, script: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """Return exit status, standard output and standard error."""
    process = start(config, *options, script=script)
    output, errors = process.communicate("hello\n", timeout=120)
    return process.returncode, output, errors


def config(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def losses(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("loss")]


def test_losses_input_exit_status_and_checkpoints_are_the_scripts_own(
    tuned: Path, bare_losses: list[str]
) -> None:
    """Only loading changes."""
    checkpoint = tuned.parent / "model.pt"
    checkpoint.write_bytes(b"of last week")
    loading = config(tuned, "num_workers: 2\nprefetch_factor: 4\npersistent_workers: true\n")
    status, output, errors = run(loading, script=("--exit", "3", "--output", str(checkpoint)))
    assert status == 3, errors
    assert "workers 2" in output
    assert "read hello" in output
    assert len(losses(output)) == 128
    assert losses(output) == bare_losses
    assert checkpoint.stat().st_size > 1000


def test_signals_reach_the_script(tuned: Path) -> None:
    process = start(config(tuned, "num_workers: 1\nprefetch_factor: 2\n"), script=("--wait-for-signal",))
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("hello\n")
    process.stdin.flush()
    while process.stdout.readline().strip() != "waiting":
        assert process.poll() is None
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=60)
    assert process.returncode == 7


def test_another_global_batch_without_a_learning_rate_is_refused(tuned: Path) -> None:
    status, output, errors = run(config(tuned, "batch_size: 64\n"))
    assert status == 2
    assert "from 32 to 64" in errors
    assert losses(output) == []
    status, output, _ = run(config(tuned, "batch_size: 64\n"), "--keep-lr")
    assert status == 0
    assert all("of 64 lr 0.05" in line for line in losses(output))


def test_a_config_of_another_device_is_refused(tuned: Path) -> None:
    saved = (tuned / "run.json").read_text()
    (tuned / "run.json").write_text(saved.replace('"measured_on": "cpu"', '"measured_on": "h200"'))
    status, _, errors = run(config(tuned, "num_workers: 1\nprefetch_factor: 2\n"))
    assert status == 2
    assert "h200" in errors


@pytest.mark.slow
def test_a_command_that_replaces_pythonpath_is_tuned_all_the_same(tuned: Path) -> None:
    """The tuned `python` lies on PATH ahead of the script's own."""
    loading = str(config(tuned, "num_workers: 2\nprefetch_factor: 4\n"))
    words = ("bash", "-c", f"PYTHONPATH=src {Path(sys.executable).name} {SCRIPT}")
    ran = subprocess.run(
        [sys.executable, "-m", "tunekit", "run", loading, "--", *words],
        cwd=tuned.parent,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        input="hello\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert "workers 2" in ran.stdout, ran.stderr
