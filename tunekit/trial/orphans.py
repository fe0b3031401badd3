"""Processes of trials whose keeper was killed: ended by tunekit, or by the next tunekit if it was killed too.

While a trial runs, tunekit adopts what its keeper's death leaves without a parent. Every process of a trial
also carries in its environment which tunekit owns it; where that one is dead and the process lives, its
keeper was killed as well.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tunekit.trial import keeper
from tunekit.trial.keeper import PR_SET_CHILD_SUBREAPER, children_of, descendants, end_all, libc
from tunekit.trial.processes import PROC, command_of, stat_of

KEEPER = str(Path(keeper.__file__))
"""The script that keepers run."""

OWNER_VARIABLE = "TUNEKIT_OWNER"
"""Which tunekit a trial belongs to: its pid, when it started, and where that pid holds."""

_START_TICKS = 19
"""Place of `starttime` among the fields of /proc/PID/stat that follow the program's name."""


@dataclass(frozen=True)
class Owner:
    """A tunekit process; no other one ever has all three."""

    pid: int
    started_ticks: int
    pid_namespace: str

    def text(self) -> str:
        """Return it as a word for an environment."""
        return f"{self.pid}:{self.started_ticks}:{self.pid_namespace}"


def this_owner() -> Owner:
    """Return this process as an owner.

    Raises:
        OSError: there is no /proc.
    """
    return Owner(os.getpid(), int(stat_of(os.getpid())[_START_TICKS]), _pid_namespace(os.getpid()))


def _pid_namespace(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink()).strip("pid:[]")


class Orphans:
    """Adopts what a killed keeper leaves behind, while it is entered."""

    def __init__(self) -> None:
        self._own: set[int] = set()

    def __enter__(self) -> Self:
        self._own = set(children_of(os.getpid()))
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return self

    def __exit__(self, *error: object) -> None:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def end(self) -> None:
        """End every process that was adopted, and everything below it."""

        def found() -> list[int]:
            adopted = [pid for pid in children_of(os.getpid()) if pid not in self._own]
            return [one for pid in adopted for one in (pid, *descendants(pid))]

        def collect() -> None:
            for pid in children_of(os.getpid()):
                if pid not in self._own:
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)

        end_all(found, collect)


def end_leftovers() -> None:
    """End what is left of trials whose tunekit and keeper were both killed."""
    try:
        here = this_owner().pid_namespace
    except (OSError, ValueError):
        return
    end_all(lambda: _left_over(here), lambda: None)


def _left_over(pid_namespace: str) -> list[int]:
    """Return the pids of processes whose trial's tunekit is dead, and that no keeper is about to end.

    A process or an owner of another pid namespace is another machine's, as far as can be told from here.
    """
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    abandoned = [pid for pid in pids if _is_abandoned(pid, pid_namespace)]
    keepers = [pid for pid in abandoned if KEEPER in command_of(pid)]
    kept = {*keepers, *(pid for each in keepers for pid in descendants(each))}
    return [pid for pid in abandoned if pid not in kept]


def _is_abandoned(pid: int, pid_namespace: str) -> bool:
    try:
        owner = _owner_of(pid)
        if owner is None or owner.pid_namespace != pid_namespace or _is_alive(owner):
            return False
        return _pid_namespace(pid) == pid_namespace
    except (OSError, ValueError):  # gone, somebody else's, or something else by that name
        return False


def _owner_of(pid: int) -> Owner | None:
    """Return the owner that a process carries.

    Raises:
        OSError: the process is gone, or somebody else's.
        ValueError: it carries something else by that name.
    """
    start = f"{OWNER_VARIABLE}=".encode()
    for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if word.startswith(start):
            owner, ticks, namespace = word[len(start) :].decode().split(":")
            return Owner(int(owner), int(ticks), namespace)
    return None


def _is_alive(owner: Owner) -> bool:
    """Return whether it runs; killed and not yet collected by its parent, it does not."""
    try:
        fields = stat_of(owner.pid)
        return int(fields[_START_TICKS]) == owner.started_ticks and fields[0] != "Z"
    except OSError:
        return False
