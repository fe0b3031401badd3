"""What the watch keeps of a trial that is looked at closer, on a scripted clock."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from build_records import discovery, loop, untouched

from tunekit.machine.telemetry.tree import TreeActivity
from tunekit.records.agent_messages import (
    ByHandEvent,
    DoneEvent,
    LearntEvent,
    OptionsEvent,
    ProgressEvent,
    StartEvent,
)
from tunekit.records.details import Details
from tunekit.records.measurement import TreeMemory
from tunekit.records.target import ScriptOption
from tunekit.records.trial import OutcomeKind
from tunekit.trial.keeper import descendants
from tunekit.trial.processes import command_of
from tunekit.trial.watch import Limits, TrialWatch


class Tree:
    """A double for the meter of a process tree whose memory grows with each reading."""

    pids: frozenset[int] = frozenset()
    last_pss_bytes = 0
    cost_cpu_s = 0.0

    def __init__(self) -> None:
        self.readings = 3
        self.cpu_s = 0.0
        self.read_bytes = 0

    def anonymous_bytes(self) -> int:
        return 0

    def shm_growth_bytes(self) -> int:
        return 0

    def activity(self) -> TreeActivity:
        return TreeActivity(self.cpu_s, self.read_bytes, self.read_bytes, processes=1)

    def sample(self) -> int:
        self.readings += 1
        return self.readings

    def peaks(self) -> TreeMemory:
        size = 1000 * self.readings
        return TreeMemory(peak_pss_bytes=size, peak_shm_bytes=0, processes=1, samples=self.readings)

    def is_above(self, limit_bytes: int) -> bool:
        return 1000 * self.readings > limit_bytes


class Watched:
    """A watch whose events and clock are scripted."""

    def __init__(
        self,
        folder: Path,
        trial_s: float = 1000.0,
        steps: int = 1,
        no_progress_s: float = 1e6,
        start_s: float = 0.0,
        keeper: Any = None,
        gpus: Any = None,
    ) -> None:
        self.now = 0.0
        limits = Limits(trial_s, no_progress_s, 100_000, start_s)
        self.tree: Any = Tree()
        keeper = keeper or SimpleNamespace(pid=os.getpid())
        self.watch = TrialWatch(keeper, folder, limits, gpus, lambda _: None, lambda: self.now, self.tree)
        self.evidence = self.watch.evidence
        self.evidence.steps = steps
        self.take = self.watch.take

    def is_over_limit(self, at_s: float) -> bool:
        self.now = at_s
        return self.watch.is_over_limit()

    def ended_at(self, until_s: float, cores: float = 0.0, read_bytes_per_s: float = 0.0) -> float | None:
        """Go on second by second while the tree works that much; return when a limit ended it."""
        while self.now < until_s:
            self.tree.cpu_s += cores
            self.tree.read_bytes += int(read_bytes_per_s)
            if self.is_over_limit(self.now + 1):
                return self.now
        return None


def done(is_final: bool = False, next_within_s: float = 20.0, *faults: str) -> DoneEvent:
    return DoneEvent(
        event="done",
        time_s=1.0,
        loop=loop(),
        is_final=is_final,
        details=Details(faults=faults),
        next_within_s=next_within_s,
    )


def test_the_latest_that_was_told_is_kept(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.take(done(False, 20.0), done(False, 20.0, "queue: no"))
    assert watched.evidence.done is not None
    assert watched.evidence.done.details == Details(faults=("queue: no",))
    watched.take(done(True, 0.0, "queue: no", "peaks: no"))
    assert watched.evidence.done.is_final
    watched.take(done(False, 20.0))
    assert watched.evidence.done.is_final


def test_memory_is_what_the_tree_took_before_it_was_looked_at_closer(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.take(done())
    watched.tree.sample()
    watched.take(done(is_final=True))
    assert watched.evidence.memory is not None
    assert watched.evidence.memory.peak_pss_bytes == 3000


@pytest.mark.parametrize(("next_within_s", "limit_s"), [(20.0, 120.0), (200.0, 400.0)])
def test_looking_closer_is_ended_by_its_own_deadline_which_each_telling_restarts(
    tmp_path: Path, next_within_s: float, limit_s: float
) -> None:
    watched = Watched(tmp_path, trial_s=1e6)
    watched.take(done(False, next_within_s))
    assert not watched.is_over_limit(limit_s - 1)
    watched.take(done(False, next_within_s))
    assert not watched.is_over_limit(2 * limit_s - 2)
    assert watched.is_over_limit(2 * limit_s)
    assert watched.evidence.limit is OutcomeKind.TIMEOUT
    assert f"looking closer took over {limit_s:.0f} s" in watched.evidence.limit_message
    # With that window the agent's own deadline is as long as the limit was, and the limit twice as long.
    window = limit_s / 4
    assert watched.evidence.limit_remedy == f"that limit follows --window: give --window {window:g}"


def options_of(pid: int, value: int) -> OptionsEvent:
    option = ScriptOption(name="bs", form="flag", flags=("--bs",), value=value)
    return OptionsEvent(event="options", time_s=1.0, pid=pid, options=(option,))


def learnt_by(pid: int) -> LearntEvent:
    return LearntEvent(event="learnt", time_s=1.0, pid=pid, discovery=discovery(), applied=untouched())


@pytest.mark.parametrize(("trained_by", "value"), [(1, 16), (2, 32), (3, 32)])
def test_options_are_those_of_the_process_that_trains_or_of_the_last_that_parsed(
    tmp_path: Path, trained_by: int, value: int
) -> None:
    watched = Watched(tmp_path)
    watched.take(options_of(1, 8), options_of(1, 16), options_of(2, 32), learnt_by(trained_by))
    known = watched.evidence.discovery
    assert known is not None
    assert [option.value for option in known.options] == [value]


def test_an_update_by_hand_ends_the_trial_at_once(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert not watched.is_over_limit(1.0)
    watched.take(ByHandEvent(event="by_hand", time_s=1.0, passes=5, changes=3, seconds=0.1))
    assert watched.is_over_limit(1.1)


@pytest.fixture
def keeper_of_docker(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A process with one below it that is called as docker is."""
    program = tmp_path / "docker"
    program.symlink_to(shutil.which("cat") or "/bin/cat")
    command = ["sh", "-c", f"{program} - run; true"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        while not any(command_of(pid)[:1] == [str(program)] for pid in descendants(process.pid)):
            assert process.poll() is None
        yield SimpleNamespace(pid=process.pid)
        assert process.stdin is not None
        process.stdin.close()


def test_a_training_behind_another_program_ends_the_trial(
    tmp_path: Path, keeper_of_docker: SimpleNamespace
) -> None:
    watched = Watched(tmp_path, steps=0, keeper=keeper_of_docker)
    assert not watched.is_over_limit(1.0)
    assert not watched.is_over_limit(19.0)
    assert watched.is_over_limit(22.0)
    assert watched.evidence.external_launcher is not None
    assert watched.evidence.external_launcher.words == "docker run"


def progress_event(batches: int, steps: int, phase: str = "learning") -> ProgressEvent:
    return ProgressEvent(event="progress", time_s=1.0, phase=phase, batches=batches, steps=steps, wait_s=0.0)


def begun(folder: Path, *, started: bool = True, **limits: float) -> Watched:
    """Return a watch over a script that has done nothing yet."""
    watched = Watched(folder, steps=0, **{"no_progress_s": 90.0, **limits})  # type: ignore[arg-type]
    if started:
        watched.take(StartEvent(event="start", time_s=1.0, pid=1))
    return watched


@pytest.mark.parametrize(
    "work",
    [{"cores": 0.04}, {"read_bytes_per_s": 20e6}],
    ids=["lists a folder of the network", "maps a data set"],
)
@pytest.mark.parametrize(
    "loop",
    [
        (),
        (progress_event(0, 0, "fetching"),),
        (progress_event(1, 0),),
        (progress_event(40, 40), progress_event(41, 40)),
    ],
    ids=["before a loader", "its workers start", "its first step compiles", "a new shape compiles"],
)
def test_work_is_progress(work: dict[str, float], loop: tuple[ProgressEvent, ...], tmp_path: Path) -> None:
    watched = begun(tmp_path)
    watched.take(*loop)
    assert watched.ended_at(900.0, **work) is None
    assert watched.ended_at(1500.0) == pytest.approx(990.0, abs=3.0)


def test_what_a_process_did_before_its_parent_collected_it_counts_once(tmp_path: Path) -> None:
    watched = begun(tmp_path)
    assert watched.ended_at(100.0, cores=1.0) is None
    watched.tree.cpu_s -= 80.0
    assert watched.ended_at(120.0) is None
    watched.tree.cpu_s += 80.0
    assert watched.ended_at(500.0) == pytest.approx(190.0, abs=3.0)


def test_a_start_and_a_first_compile_are_left_out_of_the_trials_limit(tmp_path: Path) -> None:
    watched = begun(tmp_path, trial_s=300.0, start_s=300.0)
    assert watched.ended_at(260.0, cores=1.0) is None
    watched.take(progress_event(1, 1))
    assert watched.ended_at(1000.0, cores=1.0) == pytest.approx(560.0, abs=2.0)


@pytest.mark.parametrize(("max_s", "trial_s", "start_s"), [(900, 300, 300), (400, 300, 100), (50, 50, 0)])
def test_a_trial_takes_no_longer_than_it_may(max_s: float, trial_s: float, start_s: float) -> None:
    limits = Limits(trial_s=300.0, start_s=300.0, no_progress_s=90.0, ram_bytes=1).within(max_s)
    assert (limits.trial_s, limits.start_s) == (trial_s, start_s)


def test_loading_without_steps_is_no_training_loop_at_the_trials_limit(tmp_path: Path) -> None:
    watched = begun(tmp_path, trial_s=300.0, start_s=300.0)
    assert watched.ended_at(40.0, cores=1.0) is None
    watched.take(progress_event(16, 0))
    assert watched.ended_at(1000.0, cores=1.0) == pytest.approx(340.0, abs=2.0)
    assert watched.evidence.limit is OutcomeKind.NO_TRAINING_LOOP
    assert "16 batches loaded in 301 s without one optimizer step" in watched.evidence.limit_message


def test_a_program_that_works_without_the_agent_is_told_as_such(tmp_path: Path) -> None:
    watched = begun(tmp_path, started=False, trial_s=300.0)
    assert watched.ended_at(1000.0, cores=1.0) == pytest.approx(300.0, abs=2.0)
    assert watched.evidence.limit is OutcomeKind.AGENT_ABSENT
