"""The kernel's view of trials' processes: which train unguarded or elsewhere, are working, are orphans.

While a trial runs, tunekit adopts the processes that a killed keeper leaves without a parent. Every process
of a trial also names its tunekit in its environment. If that tunekit is dead but the process lives, its
keeper was killed as well, and the next tunekit ends the process.
"""

import contextlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tunekit.machine.telemetry.tree import TreeMeter
from tunekit.trial import keeper
from tunekit.trial.external_launchers import ExternalLauncher, launcher_in
from tunekit.trial.keeper import PR_SET_CHILD_SUBREAPER, children_of, descendants, end_all, libc

PROC = Path("/proc")
_STACK_START = 25
"""Index of `startstack` among the fields of /proc/PID/stat after the program's name."""
_MAX_COMMAND = 200

_LOOK_EVERY_S = 2.0
_CPU_SHARE = 0.02
"""Share of a core: a launcher waiting for its ranks uses a tenth of it, listing files on a network more."""
_READ_BYTES_PER_S = 256 << 10


def stat_of(pid: int, proc: Path = PROC) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on: the second, a name, may contain anything.

    Raises:
        OSError: there is no such process.
    """
    return (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()


def command_of(pid: int, proc: Path = PROC) -> list[str]:
    """Return the command line of a process; empty if the process is gone."""
    try:
        return os.fsdecode((proc / str(pid) / "cmdline").read_bytes()).split("\0")[:-1]
    except OSError:
        return []


def has_mapped(pid: int, library: bytes, proc: Path = PROC) -> bool:
    """Return whether a process has loaded a library, given a prefix of its file's name."""
    try:
        return b"/" + library in (proc / str(pid) / "maps").read_bytes()
    except OSError:
        return False


def external_launcher_in(pids: Sequence[int]) -> ExternalLauncher | None:
    """Return which of these processes is an external launcher; None if any of them has loaded torch."""
    found = next((one for pid in pids if (one := launcher_in(command_of(pid))) is not None), None)
    return None if found and any(has_mapped(pid, b"libtorch") for pid in pids) else found


class AgentlessTorch:
    """Finds a process of a trial that has loaded torch without tunekit's agent and would train unguarded.

    The agent reports where its process's stack starts. Fork keeps that address and exec changes it, so a
    process is never mistaken for what it was before. Processes known to run the agent cost one short read
    each.

    Args:
        find_processes: returns the pids of the trial.
        proc: the folder of the kernel's process information.
    """

    def __init__(self, find_processes: Callable[[], Iterable[int]], proc: Path = PROC) -> None:
        self._find_processes = find_processes
        self._proc = proc
        self._suspects: set[tuple[int, int]] = set()

    def find(self, images: Collection[int]) -> str | None:
        """Return the command of a process that was found twice in a row; None without one.

        Args:
            images: stack start addresses of the processes that run the agent.
        """
        seen = set()
        for pid in self._find_processes():
            image = self._image(pid)
            if image and image not in images and has_mapped(pid, b"libtorch_python.", self._proc):
                seen.add((pid, image))
        again, self._suspects = self._suspects & seen, seen
        if not again:
            return None
        pid, _ = min(again)
        words = " ".join(command_of(pid, self._proc)).encode("utf-8", "replace").decode()
        text = re.sub(r"\s+", " ", words).strip()
        return f"{text[:_MAX_COMMAND] or 'unknown command'} (process {pid})"

    def _image(self, pid: int) -> int:
        try:
            return int(stat_of(pid, self._proc)[_STACK_START])
        except (OSError, ValueError, IndexError):
            return 0


class ProcessActivity:
    """Remembers when processes last used a CPU or read files, for example to list, map or compile files.

    Args:
        tree: the trial's processes.
        clock: returns seconds.
    """

    def __init__(self, tree: TreeMeter, clock: Callable[[], float] = time.monotonic) -> None:
        self._tree = tree
        self._clock = clock
        self._looked_at = self.last_at = clock()
        self._cpu_s = 0.0
        self._read_bytes = 0

    def look(self) -> None:
        """Check whether they have worked since the last look, if the next one is due."""
        now = self._clock()
        elapsed_s = now - self._looked_at
        if elapsed_s < _LOOK_EVERY_S:
            return
        self._looked_at = now
        activity = self._tree.activity()
        # When a process ends, its counters are missing until its parent has reaped it.
        worked_s = activity.cpu_s - self._cpu_s
        read_bytes = max(activity.read_bytes, activity.rchar_bytes) - self._read_bytes
        self._cpu_s += max(0.0, worked_s)
        self._read_bytes += max(0, read_bytes)
        if worked_s >= _CPU_SHARE * elapsed_s or read_bytes >= _READ_BYTES_PER_S * elapsed_s:
            self.last_at = now


KEEPER = str(Path(keeper.__file__))
"""The script that keepers run."""

OWNER_VARIABLE = "TUNEKIT_OWNER"
"""Environment variable that names a trial's tunekit: its pid, start time and pid namespace."""

_START_TICKS = 19
"""Index of `starttime` among the fields of /proc/PID/stat after the program's name."""


@dataclass(frozen=True)
class Owner:
    """A tunekit process, identified uniquely by the three fields together."""

    pid: int
    started_ticks: int
    pid_namespace: str

    def text(self) -> str:
        """Return the owner as the text of an environment variable."""
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
    """A context in which this process adopts the orphans of a killed keeper."""

    def __init__(self) -> None:
        self._existing_children: set[int] = set()

    def __enter__(self) -> Self:
        self._existing_children = set(children_of(os.getpid()))
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return self

    def __exit__(self, *error: object) -> None:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def end(self) -> None:
        """End every adopted process and all of its descendants."""

        def found() -> list[int]:
            adopted = [pid for pid in children_of(os.getpid()) if pid not in self._existing_children]
            return [one for pid in adopted for one in (pid, *descendants(pid))]

        def collect() -> None:
            for pid in children_of(os.getpid()):
                if pid not in self._existing_children:
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)

        end_all(found, collect)


def end_leftovers() -> None:
    """End the remaining processes of trials whose tunekit and keeper were both killed."""
    try:
        here = this_owner().pid_namespace
    except (OSError, ValueError):
        return
    end_all(lambda: _orphaned_pids(here), lambda: None)


def _orphaned_pids(pid_namespace: str) -> list[int]:
    """Return the pids of processes whose tunekit is dead, and that no keeper is about to end.

    A process or owner in another pid namespace might as well be on another machine, so it is left alone.
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
    except (OSError, ValueError):  # gone, another user's, or a variable with another meaning
        return False


def _owner_of(pid: int) -> Owner | None:
    """Return the owner that a process's environment names.

    Raises:
        OSError: the process is gone, or another user's.
        ValueError: the variable is not an owner.
    """
    start = f"{OWNER_VARIABLE}=".encode()
    for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if word.startswith(start):
            owner, ticks, namespace = word[len(start) :].decode().split(":")
            return Owner(int(owner), int(ticks), namespace)
    return None


def _is_alive(owner: Owner) -> bool:
    """Return whether an owner still runs; a zombie does not."""
    try:
        fields = stat_of(owner.pid)
        return int(fields[_START_TICKS]) == owner.started_ticks and fields[0] != "Z"
    except OSError:
        return False
