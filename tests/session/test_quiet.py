"""Waiting for a quiet machine."""

from pathlib import Path

import pytest
from build_records import options
from scripted_search import RecordingListener, ScriptedClock, ScriptedExecutor, start_search

from tunekit.session.folder import RunFolder
from tunekit.session.quiet import QuietWait


class ScriptedLoad:
    """Shares of the CPUs that others use, a second each; the last holds for ever."""

    def __init__(self, clock: ScriptedClock, *shares: float) -> None:
        self._clock = clock
        self._shares = list(shares)

    def __call__(self) -> float:
        self._clock.now += 1.0
        return self._shares.pop(0) if len(self._shares) > 1 else self._shares[0]


def waited(most_s: float, *shares: float) -> tuple[float, list[str]]:
    """How long it waits on a machine with that load, and what it says."""
    clock, said = ScriptedClock(), list[str]()
    return QuietWait(most_s, ScriptedLoad(clock, *shares), clock).wait(said.append), said


def test_on_a_quiet_machine_it_looks_and_goes_on():
    assert waited(60.0, 0.02) == (1.0, [])


def test_what_ends_by_itself_at_once_is_not_worth_a_word():
    assert waited(60.0, 0.9, 0.02) == (2.0, [])


def test_it_waits_until_the_others_are_done_and_says_so():
    seconds, said = waited(60.0, *[0.73] * 9, 0.03)
    assert seconds == 10.0
    assert said == [
        "machine is busy: other programs use 73% of its CPUs; waiting up to 1m 00s",
        "machine is quiet after 10.0 s",
    ]


def test_it_goes_on_when_what_it_may_wait_is_used_up():
    seconds, said = waited(30.0, 0.5)
    assert seconds == 30.0
    assert said[-1] == "machine is still busy (50%) after 30.0 s: going on"


def test_what_may_be_waited_is_for_all_trials_together():
    clock, said = ScriptedClock(), list[str]()
    gate = QuietWait(30.0, ScriptedLoad(clock, 0.5), clock)
    assert gate.wait(said.append) == 30.0
    assert gate.wait(said.append) == 0.0
    assert len(said) == 2


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_a_search_waits_beside_its_budget(tmp_path: Path, share: float):
    listener = RecordingListener()
    with RunFolder(tmp_path / "run") as folder:
        executor = ScriptedExecutor(folder.trials_folder)
        gate = QuietWait(7200.0, ScriptedLoad(executor.clock, share), executor.clock)
        whole = start_search(folder, executor, options(max_trials=4), listener, quiet=gate).run()
    assert whole.recommendations
    assert whole.search_time_s == pytest.approx(sum(record.duration_s for record in whole.trials))
    assert any("machine is busy" in said for said in listener.heard("said")) == (share > 0.1)
