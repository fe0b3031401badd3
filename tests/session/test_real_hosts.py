"""Hosts of a shared search as real processes: one is killed, one is stopped until its job is lost."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real_postgres import PostgresServer
from scripted_search import searched
from shared_hosts import FEW

from tunekit.records.codec import read_json
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import TrialRecord
from tunekit.session.folder import load_run

pytestmark = pytest.mark.real

TESTS = Path(__file__).parent.parent
Start = Callable[[str, int], subprocess.Popen[str]]


@pytest.fixture(params=["folder", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the hosts meet."""
    if request.param == "folder":
        return str(tmp_path / "shared")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def start(place: str, tmp_path: Path) -> Iterator[Start]:
    """Start a host of a name, which waits in its so-manieth search trial; 0 for none."""
    started: list[subprocess.Popen[str]] = []
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), str(TESTS.parent / "tunekit/agent/site")])

    def one(name: str, waits_at: int) -> subprocess.Popen[str]:
        words = [place, name, str(tmp_path / name), str(waits_at)]
        child = subprocess.Popen(
            [sys.executable, TESTS / "shared_hosts.py", *words],
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


def answer_of(*hosts: subprocess.Popen[str], folder: Path) -> Run:
    """Wait for hosts to end, and return the run in a folder, which is whole."""
    for host in hosts:
        said, _ = host.communicate("\n")
        assert host.returncode == 0, said
    whole = load_run(folder)
    assert whole.status is RunStatus.FINISHED
    return whole


def test_a_killed_host_costs_its_own_trial_which_another_measures(start: Start, tmp_path: Path):
    killed = start("killed", 2)
    number, config = begun(killed)
    other = start("other", 0)
    killed.send_signal(signal.SIGKILL)
    whole = answer_of(other, folder=tmp_path / "other")
    assert [one.number for one in whole.trials if one.host_name == "killed"] == list(range(number))
    assert [one.host_name for one in searched(whole.trials) if str(one.config) == config] == ["other"]
    assert len(searched(whole.trials)) + 1 == FEW.max_trials


@pytest.mark.slow
def test_a_host_stopped_until_its_job_is_lost_leaves_a_second_measurement(start: Start, tmp_path: Path):
    stopped = start("stopped", 2)
    number, config = begun(stopped)
    stopped.send_signal(signal.SIGSTOP)
    whole = answer_of(start("other", 0), folder=tmp_path / "other")
    assert [one.host_name for one in searched(whole.trials) if str(one.config) == config] == ["other"]
    stopped.send_signal(signal.SIGCONT)
    assert answer_of(stopped, folder=tmp_path / "stopped") == whole
    late = read_json(tmp_path / "stopped" / "trials" / f"{number:04d}" / "trial.json", TrialRecord)
    assert (str(late.config), late.failure) == (config, None)
