"""`tunekit monitor` and `run --record`: real trainings, watched from outside."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from json_schemas import valid
from test_real_run import SCRIPT, config, searched, tuned  # noqa: F401

from tunekit.cli.main import main
from tunekit.session.recording import load_recording
from tunekit.trial.recording import HOST_FILE, LOOP_FILES

pytestmark = pytest.mark.real

TRAINING = """
import os, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(400, 8)), batch_size=8)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
epoch = 0
while epoch < 4 or (len(sys.argv) > 1 and not os.path.exists(sys.argv[1])):
    for (x,) in loader:
        model(x).sum().backward(); optimizer.step(); time.sleep(0.002)
    torch.save(model.state_dict(), "model.pt"); time.sleep(0.2); epoch += 1
    print("epoch", epoch, flush=True)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ten.py").write_text(TRAINING)
    return tmp_path / "ten.py"


def monitor(*words: str) -> subprocess.Popen[str]:
    started = [sys.executable, "-m", "tunekit", "monitor", *words]
    return subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kept(recording_folder: Path) -> bool:
    """Return whether agent and watcher have written."""
    return any(recording_folder.glob(LOOP_FILES)) and (recording_folder / HOST_FILE).exists()


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return iter(process.stdout.readline, "")


def test_a_command_is_recorded_watched_and_its_stall_named(script: Path) -> None:
    process = monitor("--price", "3600", "--", sys.executable, str(script))
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    (folder,) = (script.parent / "reports").iterdir()
    recording = load_recording(folder)
    assert recording.ended_at_s is not None
    figures = recording.figures
    assert (figures.steps, figures.checkpoints) == (200, 3)
    assert figures.checkpoint_s >= 3 * 0.15
    assert [one.code for one in recording.findings] == ["checkpoint-stall"]
    assert figures.usd == pytest.approx(figures.elapsed_s)
    assert "warning checkpoint-stall" in output
    assert "\x1b" not in output
    assert (folder / "output.log").read_text().splitlines()[-1] == "epoch 4"


def test_its_exit_code_is_the_commands_and_ctrl_c_ends_it(script: Path) -> None:
    failing = monitor("--json", "--", sys.executable, "-c", "import sys; sys.exit(5)")
    last = failing.communicate(timeout=120)[0].splitlines()[-1]
    valid("monitor", last)
    assert failing.returncode == 5
    process = monitor("--json", "--", sys.executable, str(script), "never")
    readings = map(json.loads, lines(process))
    pid = next(one["pid"] for one in readings if one["figures"]["steps"])
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT
    assert not psutil.pid_exists(pid)


def test_a_process_is_watched_from_outside_and_left_alone(script: Path) -> None:
    words = [sys.executable, str(script), "stop"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as training:
        next(lines(training))
        process = monitor(str(training.pid))
        first = next(lines(process))
        assert "started without tunekit" in first
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 130
        assert "the training goes on" in errors
        assert training.poll() is None
        Path("stop").touch()
        assert training.communicate(timeout=120) and training.returncode == 0
    ended = monitor(str(training.pid))
    assert "no process" in ended.communicate(timeout=60)[1]
    with subprocess.Popen(["true"]) as uncollected:
        os.waitid(os.P_PID, uncollected.pid, os.WEXITED | os.WNOWAIT)
        assert main(["monitor", str(uncollected.pid)]) == 4


def test_run_records_what_can_be_watched_and_read_after_a_kill(tuned: Path, tmp_path: Path) -> None:  # noqa: F811
    loading = config(tuned, "num_workers: 1\nprefetch_factor: 2\n")
    words = [sys.executable, "-m", "tunekit", "run", str(loading), "--record", "--"]
    words += [sys.executable, SCRIPT, "--epochs", "100000"]
    training = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert any("epoch 0 " in line for line in lines(training))
    (folder,) = (tuned / "applied").iterdir()
    watcher = monitor("--json", str(training.pid))
    watching = lines(watcher)
    assert any(kept(folder) for _ in lines(training))
    assert json.loads(next(watching))["pid"] == training.pid
    os.kill(training.pid, signal.SIGKILL)
    training.communicate(timeout=60)
    watcher.communicate(timeout=60)  # it ends with the training
    assert watcher.returncode == 0
    recording = load_recording(folder)
    assert recording.epochs == 100_000
    assert recording.figures.steps > 0
    assert recording.loop[-1].samples == 32 * recording.loop[-1].batches
    assert recording.host[-1].pss_bytes > 0
    with (folder / HOST_FILE).open("a") as stream:
        stream.write('{"at_s": 1')  # cut off
    assert load_recording(folder).host == recording.host
    assert main(["report", str(folder), "--html", "--markdown"]) == 0
    assert "goodput" in (folder / "report.md").read_text()
