"""Faults of agent, keeper, files and /proc, one by one: told or passed over, and never the end of tunekit."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import _tunekit_agent
import pytest
from _tunekit_agent import events as agent_events
from _tunekit_agent.events import EventLog
from _tunekit_agent.events import Pulse as AgentPulse
from _tunekit_agent.process import Owner
from build_records import trial_record
from test_outcome import failed
from test_watch import Watched, progress_event

from tunekit.errors import RunFolderError, TargetError
from tunekit.records.target import Target
from tunekit.records.trial import OutcomeKind, TrialRole
from tunekit.session.folder import RunFolder
from tunekit.trial import launch
from tunekit.trial.events import EventReader, read_pulse
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


def test_the_parent_hears_why_an_event_could_not_be_written(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    monkeypatch.setattr(agent_events.os, "write", refused)
    log.emit("guard_error", message="one")
    assert fault_in(tmp_path) == "File too large"


def test_a_forked_rank_has_a_pulse_of_its_own(tmp_path: Path) -> None:
    pulse = AgentPulse(str(tmp_path))
    pulse.record(0, 3, 3)
    child = os.fork()
    if not child:
        pulse.record(1, 9, 9)
        os._exit(0)
    os.waitpid(child, 0)
    assert {path.name for path in tmp_path.glob("pulse-*")} == {
        f"pulse-{pid}" for pid in (os.getpid(), child)
    }
    pulse.record(0, 4, 4)
    found = read_pulse(tmp_path)
    assert found is not None and found.steps == 9


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
    "data", [b"", b"\x00" * 23, b"\xff" * 24, None], ids=["empty", "cut off", "too many", "gone"]
)
def test_a_pulse_that_is_damaged_is_none(data: bytes | None, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "pulse-1").write_bytes(data)
    assert read_pulse(tmp_path) is None


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
        (b"{}", 0, "failed with exit status 0"),
        (b'{"returncode": 0, "error": null, "left": 0}', 0, None),
    ],
    ids=["killed", "failed", "no fields", "as it should"],
)
def test_how_a_keeper_ended_is_known(said: bytes, returncode: int, told: str | None, tmp_path: Path) -> None:
    assert keeper_end_of(said, returncode, tmp_path) == told


# --- the watch ------------------------------------------------------------------------------


def waiting(folder: Path, trial_s: float, no_progress_s: float, *moved_at_s: float) -> Watched:
    """Return a watch whose loop moved at those times."""
    watched = Watched(folder, trial_s, steps=0, no_progress_s=no_progress_s)
    for step, at_s in enumerate(moved_at_s, 1):
        watched.now = at_s
        watched.take(progress_event(step, step))
    return watched


def test_an_agent_that_cannot_tell_ends_the_trial_at_once(tmp_path: Path) -> None:
    watched = waiting(tmp_path, 600.0, 900.0, 1.0)
    (tmp_path / "agent").mkdir()
    pulse = AgentPulse(str(tmp_path / "agent"))
    pulse.record(0, 40, 40)
    pulse.record_fault("No space left on device")
    assert not watched.is_over_limit(2.0)
    assert watched.is_over_limit(5.0)
    failure = failed(watched.evidence)
    assert failure.kind is OutcomeKind.AGENT_ABSENT
    assert failure.message.startswith("the agent could not report after 40 steps: No space left on device")


def test_a_trial_folder_that_is_gone_ends_the_trial(tmp_path: Path) -> None:
    folder = tmp_path / "0000"
    folder.mkdir()
    watched = waiting(folder, 600.0, 900.0, 1.0)
    folder.rmdir()
    assert watched.is_over_limit(5.0)
    assert "was removed or locked by the script" in failed(watched.evidence).message


def test_sampling_that_fails_costs_the_samples_alone(tmp_path: Path) -> None:
    watched = Watched(tmp_path, gpus=SimpleNamespace(sample=full))
    watched.watch.sample()
    watched.watch.sample()
    assert watched.evidence.faults == ["sampling ended: OSError: [Errno 28] No space left on device"]


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


def test_a_record_that_a_full_disk_refuses_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunekit.session.folder.write_json", full)
    with RunFolder(tmp_path) as folder, pytest.raises(RunFolderError, match="goes on with --resume"):
        folder.save_trial(trial_record())
