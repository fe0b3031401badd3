"""Hosts of a shared search as real processes: one is killed, one is stopped for longer than its lease."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripted_search import searched
from shared_hosts import FEW

from tunekit.records.run import Run, RunStatus
from tunekit.session.folder import load_run

pytestmark = pytest.mark.real

TESTS = Path(__file__).parent.parent
Start = Callable[[str, int], subprocess.Popen[str]]


@pytest.fixture
def start(place: str, tmp_path: Path) -> Iterator[Start]:
    """Start a host of a name, which waits in its so-manieth search trial; 0 for none."""
    started: list[subprocess.Popen[str]] = []
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), str(TESTS.parent / "tunekit/agent/site")])

    def one(name: str, waits_at: int) -> subprocess.Popen[str]:
        words = [place, name, str(tmp_path / name), str(waits_at)]
        child = subprocess.Popen(
            [sys.executable, TESTS / "one_shared_host.py", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        started.append(child)
        return child

    yield one
    for child in started:
        child.kill()
        child.communicate()


def begun(child: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait until a host is in the trial that it waits in, and return its number and its config as text."""
    assert child.stdout is not None
    line = next(line for line in child.stdout if line.startswith("begun "))
    _, number, config = line.rstrip("\n").split(" ", 2)
    return int(number), config


def finished(*folders: Path) -> Run:
    """Return the run of the host that finished it; each trial of it was measured once."""
    (whole,) = [run for run in map(load_run, folders) if run.status is RunStatus.FINISHED]
    times = Counter((record.role, record.config, record.round) for record in whole.trials)
    assert set(times.values()) == {1}
    assert len(searched(whole.trials)) + 1 == FEW.max_trials
    return whole


def test_what_a_killed_host_was_at_is_measured_again_once(start: Start, tmp_path: Path):
    killed = start("killed", 2)
    number, config = begun(killed)
    other = start("other", 0)
    killed.send_signal(signal.SIGKILL)
    said, _ = other.communicate()
    assert other.returncode == 0, said
    whole = finished(tmp_path / "other")
    assert number not in {record.number for record in whole.trials}
    assert {record.number for record in whole.trials if record.host_name == "killed"} == {0, 1}
    (again,) = [record for record in searched(whole.trials) if str(record.config) == config]
    assert again.host_name == "other"


def test_a_host_stopped_for_longer_than_its_lease_drops_its_late_trial(start: Start, tmp_path: Path):
    stopped = start("stopped", 2)
    number, config = begun(stopped)
    stopped.send_signal(signal.SIGSTOP)
    other = start("other", 0)
    said, _ = other.communicate()
    assert other.returncode == 0, said
    whole = finished(tmp_path / "other")
    stopped.send_signal(signal.SIGCONT)
    said, _ = stopped.communicate("\n")
    assert stopped.returncode == 0
    assert f"trial {number} is dropped: this host was not heard of" in said
    assert [r.host_name for r in searched(whole.trials) if str(r.config) == config] == ["other"]
    assert number not in {record.number for record in whole.trials}
    assert load_run(tmp_path / "stopped") == whole
    assert not (tmp_path / "stopped" / "trials" / f"{number:04d}" / "trial.json").exists()
