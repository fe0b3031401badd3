"""The whole command on a real script: tuned unmodified, killed, resumed, interrupted."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from real_trials import ZOO, is_alive, leaked_shared_memory, processes_with

from tunekit.records.codec import read_json
from tunekit.records.run import Run, RunStatus

pytestmark = pytest.mark.real

QUICK = (
    *("--window", "0.3", "--confirm", "1", "--budget", "10m"),
    *("--fix", "compile=false", "--fix", "precision=fp32"),
)


def search(*words: str, cwd: Path = ZOO, temporary: str | None = None) -> subprocess.Popen[str]:
    """Start `tunekit search` on the plain script of the zoo, its temporary files in a folder."""
    command = [sys.executable, "-m", "tunekit", "search", *words]
    command += ["--", sys.executable, "plain_with_validation.py"]
    env = {**os.environ, "TMPDIR": temporary} if temporary else None
    return subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Return whether the condition came true within the limit."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A search that was killed in its second trial, left nothing and was resumed: its folder and output."""
    folder = tmp_path_factory.mktemp("search") / "run"
    first = folder / "trials" / "0000" / "trial.json"
    shm_before = set(Path("/dev/shm").iterdir())
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:  # short enough for sockets
        words = ("--trials", "2", "--fix", "num_workers=2", "--out", str(folder), *QUICK)
        process = search(*words, temporary=temporary)
        in_second_trial = folder / "trials" / "0001" / "output.log"
        assert wait_until(lambda: in_second_trial.exists() and "STEP 2 " in in_second_trial.read_text(), 60)
        assert processes_with(str(folder / "trials"))
        process.kill()
        process.communicate()
        assert wait_until(lambda: not processes_with(str(folder / "trials")), 2.0)
        assert wait_until(lambda: not list(Path(temporary).glob("tunekit-*")), 10.0)
        assert leaked_shared_memory(shm_before) == []
        kept = first.read_bytes()
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        resumed = search("--resume", folder.name, cwd=folder.parent, temporary=temporary)
        output, _ = resumed.communicate(timeout=240)
        assert resumed.returncode == 0, output
        assert list(Path(temporary).iterdir()) == []
    assert first.read_bytes() == kept
    return folder, output


def test_a_plain_script_gets_three_tiers(finished: tuple[Path, str]) -> None:
    folder, output = finished
    run = read_json(folder / "run.json", Run)
    assert run.status is RunStatus.FINISHED
    assert len(run.recommendations) + len(run.missing_tiers) == 3
    assert run.recommendations
    assert "baseline" in output
    for recommendation in run.recommendations:
        written = yaml.safe_load((folder / f"{recommendation.tier.value}.yaml").read_text())
        assert written["batch_size"] == recommendation.config.batch_size


class Terminal:
    """A terminal that a program is started on, as by ssh, until the connection is lost."""

    def __init__(self, *command: str) -> None:
        self._hold, terminal = pty.openpty()
        self.process = subprocess.Popen(
            command,
            cwd=ZOO,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(terminal)
        self._reading = True
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        os.set_blocking(self._hold, False)
        while self._reading:
            try:
                os.read(self._hold, 1 << 16)
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:
                return

    def lose(self) -> int:
        """Lose the connection; return the program's exit code."""
        self._reading = False
        self._reader.join()
        os.close(self._hold)
        return self.process.wait(timeout=120)


@pytest.mark.slow
def test_a_lost_connection_is_like_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "tunekit", "search", "--trials", "5", "--out", str(folder), *QUICK]
    terminal = Terminal(*command, "--", sys.executable, "plain_with_validation.py")
    begun = wait_until((folder / "trials" / "0001" / "output.log").exists, 120)
    assert terminal.lose() == 130
    assert begun
    assert "(status: interrupted)" in (folder / "report.md").read_text()
    assert (folder / "report.html").exists()
    assert read_json(folder / "run.json", Run).status is RunStatus.INTERRUPTED
    assert not processes_with(str(folder / "trials"))


def test_ctrl_c_saves_the_run_and_says_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = search("--trials", "5", "--out", str(folder), *QUICK)
    assert wait_until((folder / "trials" / "0001" / "output.log").exists, 60)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"tunekit search --resume {folder}" in output.replace("\n", "")
    assert f"Report so far: {folder}/report.html" in output
    assert "(status: interrupted)" in (folder / "report.md").read_text()
    assert read_json(folder / "run.json", Run).status is RunStatus.INTERRUPTED
    assert not processes_with(str(folder / "trials"))
    assert not is_alive(process.pid)
