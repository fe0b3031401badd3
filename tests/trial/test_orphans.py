"""What a killed keeper leaves running is ended by tunekit."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from real_trials import is_alive

from tunekit.trial.keeper import children_of
from tunekit.trial.processes import KEEPER, Orphans

_DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0), os.dup2(null, 1), os.dup2(null, 2)
        with open(sys.argv[1] + ".part", "w") as stream:
            stream.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".part", sys.argv[1])
        os.execvp("sleep", ["sleep", "600"])
    os._exit(0)
os.wait()
os.execvp("sleep", ["sleep", "600"])
"""


def wait_until(holds: Callable[[], bool], limit_s: float = 60.0) -> bool:
    """Wait for a process; how long that takes is no part of any claim."""
    end = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def start_kept(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a keeper whose command leaves a daemon; return the keeper and the daemon's pid."""
    told = folder / "daemon"
    words = [
        str(folder / "output.log"),
        str(folder / "scratch"),
        "--",
        sys.executable,
        "-c",
        _DAEMON,
        str(told),
    ]
    kept = subprocess.Popen(
        [sys.executable, "-I", "-S", KEEPER, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert wait_until(told.exists)
    return kept, int(told.read_text())


def test_daemons_of_a_killed_keeper_end(tmp_path: Path) -> None:
    before = set(children_of(os.getpid()))
    kept, daemon = start_kept(tmp_path)
    with Orphans() as adopted:
        kept.kill()
        kept.communicate()
        assert wait_until(lambda: daemon in children_of(os.getpid()))
        adopted.end()
        assert not is_alive(daemon)
    assert set(children_of(os.getpid())) == before


def test_a_child_of_tunekits_own_is_left_alone(tmp_path: Path) -> None:
    own = subprocess.Popen(["sleep", "600"])
    try:
        with Orphans() as adopted:
            adopted.end()
            assert own.poll() is None
    finally:
        own.kill()
        own.wait()


def test_a_keeper_whose_parent_is_gone_says_nothing(tmp_path: Path) -> None:
    """Nobody reads its last line, nor its errors."""
    told, said = os.pipe(), tmp_path / "errors"
    leash, hold = os.pipe()
    words = [str(tmp_path / "output.log"), str(tmp_path / "scratch"), "--", "sleep", "600"]
    with said.open("wb") as errors:
        kept = subprocess.Popen(
            [sys.executable, "-I", "-S", KEEPER, *words], stdin=leash, stdout=told[1], stderr=errors
        )
    for end in (*told, leash):
        os.close(end)
    assert wait_until(lambda: bool(children_of(kept.pid)))
    os.close(hold)
    assert kept.wait(timeout=60) == 0
    assert said.read_bytes() == b""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_keeper_outlives_signals_that_ask_for_the_end(number: signal.Signals, tmp_path: Path) -> None:
    kept, daemon = start_kept(tmp_path)
    kept.send_signal(number)
    kept.communicate(timeout=60)
    assert kept.returncode == 0
    assert not is_alive(daemon)
