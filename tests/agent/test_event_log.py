"""What the agent writes must reach the parent whatever the script does to files and descriptors."""

import os
from pathlib import Path

from _tunekit_agent.events import EventLog
from _tunekit_agent.process import Owner

from tunekit.records.agent_messages import AgentErrorEvent
from tunekit.trial.events import EventReader


def reported(folder: Path) -> list[str]:
    return [event.message for event in EventReader(folder).read_new() if isinstance(event, AgentErrorEvent)]


def close_what_is_open_on(path: Path) -> int:
    """Close this process's descriptor of a file, as a script that closes all of them does; return it."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        if entry.resolve() == path:
            os.close(int(entry.name))
            return int(entry.name)
    raise AssertionError("not open")


def test_a_descriptor_that_the_script_closed_is_opened_again(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path), Owner())
    log.emit("agent_error", message="one")
    close_what_is_open_on(next(tmp_path.glob("events-*")))
    log.emit("agent_error", message="two")
    assert reported(tmp_path) == ["one", "two"]


def test_a_descriptor_that_is_the_scripts_own_by_now_is_not_written_to(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path), Owner())
    log.emit("agent_error", message="one")
    handle = close_what_is_open_on(next(tmp_path.glob("events-*")))
    own = os.open(tmp_path / "model.pt", os.O_WRONLY | os.O_CREAT)
    os.dup2(own, handle)
    log.emit("agent_error", message="two")
    assert (tmp_path / "model.pt").read_bytes() == b""
    assert reported(tmp_path) == ["one", "two"]
    for descriptor in {own, handle}:
        os.close(descriptor)
