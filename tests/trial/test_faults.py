"""Faults of agent, keeper, files and /proc, one by one: told or passed over, and never the end of tunekit."""

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import _tunekit_agent
import pytest
from _tunekit_agent import events as agent_events
from _tunekit_agent.events import EventLog
from _tunekit_agent.events import Pulse as AgentPulse
from _tunekit_agent.measure import errors
from _tunekit_agent.process import Owner
from test_outcome import ended, failed
from test_watch import Watched, done

from tunekit.errors import RunFolderError, TargetError
from tunekit.machine.telemetry.tree import TreeMeter
from tunekit.records.agent_messages import ExitEvent, ProgressEvent, StartEvent
from tunekit.records.target import Target
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.session.folder import RunFolder
from tunekit.trial import executor, keeper, launch
from tunekit.trial.events import EventReader, last_lines, read_pulse
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.watch import Limits

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full(*_: object, **__: object) -> Any:
    raise FULL


# --- the agent: its request -----------------------------------------------------------------


@pytest.mark.parametrize(
    "request_text",
    [None, b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"mode": "observe"}'],
    ids=["missing", "empty", "cut off", "a list", "null", "no fields", "no text", "too deep", "few fields"],
)
def test_a_request_that_is_none_keeps_the_agent_out(request_text: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    if request_text is not None:
        path.write_bytes(request_text)
    _tunekit_agent.start(str(path))
    assert EventReader(tmp_path).read_new() == []


def test_a_request_that_is_a_folder_keeps_the_agent_out(tmp_path: Path) -> None:
    _tunekit_agent.start(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


# --- the agent: its events ------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    made = EventLog(str(tmp_path), Owner())
    made.pulse = AgentPulse(str(tmp_path))
    return made


def events_of(folder: Path) -> Path:
    return folder / f"events-{os.getpid()}.jsonl"


def fault_in(folder: Path) -> str | None:
    pulse = read_pulse(folder)
    assert pulse is not None
    return pulse.fault


def test_a_full_disk_is_told_by_the_pulse_until_there_is_room(log: EventLog, tmp_path: Path) -> None:
    events_of(tmp_path).symlink_to("/dev/full")
    log.emit("guard_error", message="one")
    assert fault_in(tmp_path) == "No space left on device"
    events_of(tmp_path).unlink()
    log.emit("guard_error", message="two")
    assert fault_in(tmp_path) is None
    assert len(EventReader(tmp_path).read_new()) == 1


def test_a_folder_by_the_name_of_the_events_is_told_by_the_pulse(log: EventLog, tmp_path: Path) -> None:
    events_of(tmp_path).mkdir()
    log.emit("guard_error", message="one")
    assert fault_in(tmp_path) == "Is a directory"


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EFBIG, "File too large (RLIMIT_FSIZE of {fsize} bytes)"),
        (errno.EMFILE, "Too many open files (RLIMIT_NOFILE of {nofile} files)"),
        (errno.EROFS, "Read-only file system"),
        (errno.EDQUOT, "Disk quota exceeded"),
        (errno.EIO, "Input/output error"),
    ],
    ids=["EFBIG", "EMFILE", "EROFS", "EDQUOT", "EIO"],
)
def test_why_an_event_could_not_be_written_names_the_limit(
    number: int, told: str, log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(agent_events.os, "write", refused)
    log.emit("guard_error", message="one")
    limits = {
        name: resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[0]
        for name in ("fsize", "nofile")
    }
    assert fault_in(tmp_path) == told.format(**limits)


def test_an_event_that_is_written_in_parts_arrives_whole(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_events.os, "write", lambda handle, data: os.write(handle, data[:7]))
    log.emit("start", pid=7, python="3.11")
    (event,) = EventReader(tmp_path).read_new()
    assert isinstance(event, StartEvent)


def test_a_limit_that_is_really_set_is_told(tmp_path: Path) -> None:
    script = (
        "import resource, sys\n"
        "from _tunekit_agent.events import EventLog, Pulse\n"
        "from _tunekit_agent.process import Owner\n"
        "log = EventLog(sys.argv[1], Owner()); log.pulse = Pulse(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))\n"
        "log.emit('guard_error', message='x' * 100)\n"
    )
    site = str(Path(_tunekit_agent.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": site}
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment, check=True)
    assert fault_in(tmp_path) == "File too large (RLIMIT_FSIZE of 50 bytes)"


def test_a_forked_rank_has_a_pulse_of_its_own(tmp_path: Path) -> None:
    pulse = AgentPulse(str(tmp_path))
    pulse.tell(0, 3, 3)
    child = os.fork()
    if not child:
        pulse.tell(1, 9, 9)
        os._exit(0)
    os.waitpid(child, 0)
    assert {path.name for path in tmp_path.glob("pulse-*")} == {
        f"pulse-{pid}" for pid in (os.getpid(), child)
    }
    pulse.tell(0, 4, 4)
    found = read_pulse(tmp_path)
    assert found is not None and found.steps == 9


def test_an_exception_that_cannot_be_shown_is_told_by_its_type() -> None:
    class Odd(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise KeyError

    told = errors.error_facts(Odd())
    assert told is not None
    assert told["message"] == "<Odd whose str() failed>"


# --- the parent: what it reads --------------------------------------------------------------


def test_events_that_the_script_removed_go_on_from_their_new_beginning(log: EventLog, tmp_path: Path) -> None:
    reader = EventReader(tmp_path)
    log.emit("guard_error", message="a longer one than the next")
    assert len(reader.read_new()) == 1
    events_of(tmp_path).unlink()
    assert reader.read_new() == []
    log.emit("guard_error", message="two")
    assert len(reader.read_new()) == 1
    assert reader.rejected_lines == 0


@pytest.mark.parametrize(
    "line",
    [
        b"null",
        b"{}",
        b"[]",
        b"\x00" * 64,
        b'{"event": "done"}',
        b'{"event": "later", "time_s": 1}',
        b"{" * 9000,
        b'{"event": "start", "time_s": NaN, "pid": 1, "python": "3"}',
        b'{"event": "start", "time_s": 1, "pid": -1, "python": "3"}',
    ],
    ids=[
        "null",
        "no fields",
        "a list",
        "zeros",
        "few fields",
        "of a later tunekit",
        "deep",
        "no time",
        "no pid",
    ],
)
def test_a_line_that_is_no_event_is_counted_and_passed_over(line: bytes, tmp_path: Path) -> None:
    events_of(tmp_path).write_bytes(line + b"\n")
    reader = EventReader(tmp_path)
    assert (reader.read_new(), reader.rejected_lines) == ([], 1)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00" * 23, b"\xff" * 24, None],
    ids=["empty", "cut off", "too many", "gone"],
)
def test_a_pulse_that_is_damaged_is_none(data: bytes | None, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "pulse-1").write_bytes(data)
    assert read_pulse(tmp_path) is None


def test_a_fault_that_is_no_text_is_shown_as_far_as_it_is_one(tmp_path: Path) -> None:
    (tmp_path / "pulse-1").write_bytes(b"\x00" * 24 + b"full \xff disk" + b"\x00" * 9)
    assert fault_in(tmp_path) == "full \ufffd disk"


def test_a_log_that_the_script_removed_has_no_last_lines(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "output.log") == ()


# --- the keeper -----------------------------------------------------------------------------


class Kept:
    """A double for a keeper that ended, and what it said last."""

    pid = 1

    def __init__(self, said: bytes, returncode: int) -> None:
        self._said, self.returncode = said, returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, None]:
        return self._said, None


def keeper_end_of(said: bytes, returncode: int, folder: Path) -> str | None:
    watched = Watched(folder, keeper=Kept(said, returncode))
    orphans: Any = SimpleNamespace(end=lambda: None)
    watched.watch.end(orphans)
    return watched.evidence.keeper_end


@pytest.mark.parametrize(
    ("said", "returncode", "told"),
    [
        (b"", -9, "was killed (signal 9)"),
        (b"", 1, "failed with exit status 1"),
        (b"{", -11, "was killed (signal 11)"),
        (b"[]", 0, "failed with exit status 0"),
        (b"{}", 0, "failed with exit status 0"),
        (b"\xff\xfe", -6, "was killed (signal 6)"),
        (b'{"returncode": 0, "ended": false, "error": null, "left": 0}', 0, None),
    ],
    ids=["killed", "failed", "cut off", "a list", "no fields", "no text", "as it should"],
)
def test_how_a_keeper_ended_is_known(said: bytes, returncode: int, told: str | None, tmp_path: Path) -> None:
    assert keeper_end_of(said, returncode, tmp_path) == told


def test_a_killed_keeper_is_not_the_scripts_fault() -> None:
    failure = failed(ended(None, keeper_end="was killed (signal 9)"))
    assert failure.kind is OutcomeKind.KILLED
    assert failure.message.startswith("tunekit's keeper process was killed (signal 9) after 5 steps")
    assert "run it again" in (failure.remedy or "")


def test_a_keeper_that_the_kernel_killed_for_memory_is_out_of_memory() -> None:
    failure = failed(ended(None, keeper_end="was killed (signal 9)", oom_kills=1))
    assert failure.kind is OutcomeKind.HOST_OOM
    assert "keeper process was killed" in failure.message
    assert "the kernel killed 1 process" in failure.message


@pytest.mark.parametrize("gone", [keeper.children_of, keeper.descendants], ids=["children", "descendants"])
def test_a_process_that_is_gone_has_no_children(gone: Callable[[int], list[int]]) -> None:
    assert gone(2_147_483_646) == []


def test_a_process_that_is_gone_is_no_tracker() -> None:
    assert not keeper.is_tracker(2_147_483_646)


# --- the watch ------------------------------------------------------------------------------


def progress(steps: int) -> ProgressEvent:
    return ProgressEvent(
        event="progress", time_s=1.0, phase="warming", batches=steps, steps=steps, graphs=0, wait_s=0.0
    )


def waiting(folder: Path, trial_s: float, no_progress_s: float, *moved_at_s: float) -> Watched:
    """Return a watch whose loop moved at those times."""
    watched = Watched(folder, trial_s, steps=0, no_progress_s=no_progress_s)
    for step, at_s in enumerate(moved_at_s, 1):
        watched.now = at_s
        watched.take(progress(step))
    return watched


def test_a_hang_is_one_though_the_trials_limit_comes_first(tmp_path: Path) -> None:
    watched = waiting(tmp_path, 60.0, 90.0, *range(1, 9))
    assert watched.is_over_limit(60.5)
    assert watched.evidence.limit is OutcomeKind.HANG
    assert "no batch and no step for 52 s after 8 batches" in watched.evidence.limit_message
    assert "the trial's limit of 60 s ended it" in watched.evidence.limit_message
    assert watched.evidence.limit_remedy == "if it was only slow, raise the limit with --trial-limit"


@pytest.mark.parametrize(
    ("no_progress_s", "moved_at_s"),
    [
        (90.0, range(1, 55)),
        (90.0, (1, 2, 3, 8, 13, 18, 24, 30, 36)),
        (90.0, (1, 2)),
    ],
    ids=["still moving", "slow all along", "hardly begun"],
)
def test_what_moves_slowly_is_a_timeout(no_progress_s: float, moved_at_s: Any, tmp_path: Path) -> None:
    watched = waiting(tmp_path, 60.0, no_progress_s, *moved_at_s)
    assert watched.is_over_limit(60.5)
    assert watched.evidence.limit is OutcomeKind.TIMEOUT


def test_a_process_that_starts_itself_anew_for_ever_is_told(tmp_path: Path) -> None:
    watched = waiting(tmp_path, 60.0, 90.0)
    for _ in range(20):
        watched.take(StartEvent(event="start", time_s=1.0, pid=7, python="3.11"))
    assert not watched.is_over_limit(1.0)
    watched.take(StartEvent(event="start", time_s=1.0, pid=7, python="3.11"))
    assert watched.is_over_limit(1.0)
    failure = failed(watched.evidence)
    assert failure.kind is OutcomeKind.SCRIPT_ERROR
    assert "process 7 started Python anew 20 times in its own place (os.exec)" in failure.message


def test_many_processes_that_each_start_once_are_none(tmp_path: Path) -> None:
    watched = waiting(tmp_path, 60.0, 90.0)
    watched.take(*(StartEvent(event="start", time_s=1.0, pid=pid, python="3.11") for pid in range(99)))
    assert not watched.is_over_limit(1.0)


def test_an_agent_that_cannot_tell_ends_the_trial_at_once(tmp_path: Path) -> None:
    watched = waiting(tmp_path, 600.0, 900.0, 1.0)
    pulse = AgentPulse(str(tmp_path))
    pulse.tell(0, 40, 40)
    pulse.tell_fault("No space left on device")
    assert not watched.is_over_limit(2.0)
    assert watched.is_over_limit(5.0)
    failure = failed(watched.evidence)
    assert failure.kind is OutcomeKind.AGENT_ABSENT
    assert failure.message.startswith("the agent could not report after 40 steps: No space left on device")


def test_a_helper_that_cannot_tell_ends_nothing(tmp_path: Path) -> None:
    watched = waiting(tmp_path, 600.0, 900.0)
    AgentPulse(str(tmp_path)).tell_fault("File too large (RLIMIT_FSIZE of 0 bytes)")
    assert not watched.is_over_limit(60.0)


def test_a_trial_folder_that_is_gone_ends_the_trial(tmp_path: Path) -> None:
    folder = tmp_path / "0000"
    folder.mkdir()
    watched = waiting(folder, 600.0, 900.0, 1.0)
    folder.rmdir()
    assert watched.is_over_limit(5.0)
    assert "was removed by the script" in failed(watched.evidence).message


def test_sampling_that_fails_costs_the_samples_alone(tmp_path: Path) -> None:
    watched = Watched(tmp_path, gpus=SimpleNamespace(sample=full))
    watched.watch.sample()
    watched.watch.sample()
    assert watched.evidence.faults == ["sampling ended: OSError: [Errno 28] No space left on device"]


def test_what_a_measured_script_is_missing_names_who_ended_it(tmp_path: Path) -> None:
    watched = Watched(tmp_path, trial_s=30.0)
    watched.take(done())
    assert watched.is_over_limit(31.0)
    assert watched.evidence.limit is OutcomeKind.TIMEOUT
    assert watched.evidence.limit_message.startswith("still looking closer")


def test_a_training_that_went_on_in_the_background_is_told() -> None:
    evidence = ended(
        0, left_running=2, exit=ExitEvent(event="exit", time_s=1.0, steps=0, batches=0, error=None)
    )
    evidence.started, evidence.steps, evidence.batches = True, 0, 0
    failure = failed(evidence)
    assert failure.kind is OutcomeKind.NO_TRAINING_LOOP
    assert "left 2 processes running in the background" in failure.message


def test_processes_that_vanish_while_they_are_read_cost_nothing() -> None:
    with subprocess.Popen(["sleep", "600"]) as one:
        meter = TreeMeter(os.getpid(), lambda: [one.pid, 2_147_483_646])
        assert meter.sample() > 0
        one.kill()
    assert meter.sample() == 0


# --- a full disk, at each write of tunekit's own ----------------------------------------------


def target(folder: Path) -> Target:
    return Target(name="x", command=("true",), working_dir=str(folder), script=None, script_sha256=None)


@pytest.mark.parametrize("where", ["write_text", "subprocess.Popen"], ids=["the request", "the keeper"])
def test_a_trial_that_a_full_disk_keeps_from_starting_says_so(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, attribute = where.partition(".")
    holder: Any = getattr(launch, name) if attribute else launch
    monkeypatch.setattr(holder, attribute or name, full)
    trials = ProcessExecutor(target(tmp_path), tmp_path / "trials", Limits(9, 9, 1 << 30), 1.0)
    with pytest.raises(TargetError, match=r"No space left on device.*free some space"):
        trials.run(TrialSpec(0, TrialRole.BASELINE, None), None, lambda progress: None)


def test_time_series_that_a_full_disk_loses_are_a_fault_of_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "save_series", full)
    limits = Limits(60, 60, 1 << 30)
    trials = ProcessExecutor(
        target(tmp_path), tmp_path / "trials", limits, 1.0, telemetry_store=tmp_path / "t"
    )
    record = trials.run(TrialSpec(0, TrialRole.BASELINE, None), None, lambda progress: None)
    assert record.faults == ("the time series are lost: OSError: [Errno 28] No space left on device",)


def test_a_record_that_a_full_disk_refuses_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = failed(ended(1))
    record = TrialRecord(
        number=0,
        role=TrialRole.BASELINE,
        config=None,
        is_baseline_config=True,
        started_at="x",
        duration_s=1.0,
        failure=failure,
    )
    monkeypatch.setattr("tunekit.session.folder.write_json", full)
    with RunFolder(tmp_path) as folder, pytest.raises(RunFolderError, match="go on with --resume"):
        folder.save_trial(record)


def test_a_log_that_a_full_disk_refuses_costs_the_log_alone(tmp_path: Path) -> None:
    (tmp_path / "output.log").symlink_to("/dev/full")
    words = [str(tmp_path / "output.log"), str(tmp_path / "scratch"), "--", "echo", "lost"]
    command = [sys.executable, "-I", "-S", keeper.__file__, *words]
    ended_so = subprocess.run(command, input=b"", capture_output=True, check=True)
    assert json.loads(ended_so.stdout)["error"] is None
