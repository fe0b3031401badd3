"""What a killed keeper leaves running is ended: by tunekit, or by the next one if it was killed too."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real_trials import is_alive

from tunekit.trial.keeper import children_of
from tunekit.trial.processes import KEEPER, OWNER_VARIABLE, Orphans, Owner, end_leftovers, stat_of, this_owner

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


def start_kept(
    folder: Path, environment: dict[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], int]:
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
        env={**os.environ, **(environment or {})},
    )
    assert wait_until(told.exists)
    return kept, int(told.read_text())


def let_go(kept: subprocess.Popen[bytes]) -> None:
    kept.communicate(timeout=60)


@pytest.fixture
def dead_owner() -> str:
    """Return the word of a tunekit that is dead."""
    with subprocess.Popen(["true"]) as process:
        ended = Owner(process.pid, 1, this_owner().pid_namespace)
    return ended.text()


@pytest.fixture
def marked() -> Iterator[Callable[[str], int]]:
    """Start processes that carry an owner's word; return their pids."""
    started: list[subprocess.Popen[bytes]] = []

    def start(owner: str) -> int:
        started.append(subprocess.Popen(["sleep", "600"], env={**os.environ, OWNER_VARIABLE: owner}))
        assert wait_until(
            lambda: OWNER_VARIABLE.encode() in Path(f"/proc/{started[-1].pid}/environ").read_bytes()
        )
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait()


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
    let_go(kept)
    assert kept.returncode == 0
    assert not is_alive(daemon)


def test_leftovers_of_a_dead_tunekit_and_its_dead_keeper_end(tmp_path: Path, dead_owner: str) -> None:
    kept, daemon = start_kept(tmp_path, {OWNER_VARIABLE: dead_owner})
    kept.kill()
    kept.communicate()
    end_leftovers()
    assert wait_until(lambda: not is_alive(daemon))


def test_a_keeper_that_is_about_to_end_its_tree_is_left_to_it(tmp_path: Path, dead_owner: str) -> None:
    kept, daemon = start_kept(tmp_path, {OWNER_VARIABLE: dead_owner})
    end_leftovers()
    assert (kept.poll(), is_alive(daemon)) == (None, True)
    let_go(kept)
    assert not is_alive(daemon)


@pytest.mark.parametrize(
    "owner",
    [
        this_owner().text(),
        f"{os.getpid()}:{this_owner().started_ticks}:1",
        "2147483646:1:1",
        "no owner at all",
        "",
    ],
    ids=["alive", "of another namespace", "dead elsewhere", "words", "empty"],
)
def test_what_belongs_to_somebody_else_is_left_alone(owner: str, marked: Callable[[str], int]) -> None:
    pid = marked(owner)
    end_leftovers()
    assert is_alive(pid)


def test_a_pid_that_another_process_has_by_now_is_no_owner(marked: Callable[[str], int]) -> None:
    here = this_owner()
    pid = marked(Owner(here.pid, here.started_ticks + 1, here.pid_namespace).text())
    end_leftovers()
    assert wait_until(lambda: not is_alive(pid))


def test_an_owner_that_is_dead_and_not_yet_collected_is_dead(marked: Callable[[str], int]) -> None:
    with subprocess.Popen(["sleep", "600"]) as owner:
        told = Owner(owner.pid, int(stat_of(owner.pid)[19]), this_owner().pid_namespace).text()
        pid = marked(told)
        end_leftovers()
        assert is_alive(pid)
        os.kill(owner.pid, signal.SIGKILL)
        os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
        end_leftovers()
        assert wait_until(lambda: not is_alive(pid))
