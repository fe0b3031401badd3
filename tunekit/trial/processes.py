"""What the kernel tells of trials' processes: which train unguarded or elsewhere, are at work, are orphans.

While a trial runs, tunekit adopts what its keeper's death leaves without a parent.
"""

import contextlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Self

from tunekit.machine.telemetry.tree import TreeMeter
from tunekit.trial import keeper
from tunekit.trial.external_launchers import ExternalLauncher, launcher_in
from tunekit.trial.keeper import PR_SET_CHILD_SUBREAPER, children_of, descendants, end_all, libc

PROC = Path("/proc")
_STACK_START = 25
"""Place of `startstack` among the fields of /proc/PID/stat that follow the program's name."""
_LONGEST_COMMAND = 200

_LOOK_EVERY_S = 2.0
_CPU_SHARE = 0.02
"""Of one core: a launcher that waits for its ranks takes a tenth of that, listing a network's files more."""
_READ_BYTES_PER_S = 256 << 10


def stat_of(pid: int, proc: Path = PROC) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on: the second, a name, may hold anything.

    Raises:
        OSError: there is no such process.
    """
    return (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()


def command_of(pid: int, proc: Path = PROC) -> list[str]:
    """Return the words that a process was started by; none of one that is gone."""
    try:
        return os.fsdecode((proc / str(pid) / "cmdline").read_bytes()).split("\0")[:-1]
    except OSError:
        return []


def has_mapped(pid: int, library: bytes, proc: Path = PROC) -> bool:
    """Return whether a process has loaded a library, by the beginning of its file's name."""
    try:
        return b"/" + library in (proc / str(pid) / "maps").read_bytes()
    except OSError:
        return False


def external_launcher_in(pids: Sequence[int]) -> ExternalLauncher | None:
    """Return which of these processes started a training elsewhere; None where one has torch itself."""
    found = next((one for pid in pids if (one := launcher_in(command_of(pid))) is not None), None)
    return None if found and any(has_mapped(pid, b"libtorch") for pid in pids) else found


class AgentlessTorch:
    """Finds the process of a trial that has loaded torch without tunekit's agent: it would train unguarded.

    The agent tells where its process's stack starts. Forked children share that address, and what a process
    executes gets another one, so that no process is taken for what it was before. Processes
    that are known to have the agent cost one short read each.

    Args:
        find_processes: returns the pids of the trial.
        proc: where the kernel tells of processes.
    """

    def __init__(self, find_processes: Callable[[], Iterable[int]], proc: Path = PROC) -> None:
        self._find_processes = find_processes
        self._proc = proc
        self._suspects: set[tuple[int, int]] = set()

    def find(self, images: Collection[int]) -> str | None:
        """Return the command of a process that was found so twice in a row; None without one.

        Args:
            images: where the stacks of the processes with an agent start.
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
        return f"{text[:_LONGEST_COMMAND] or 'its command is not known'} (process {pid})"

    def _image(self, pid: int) -> int:
        try:
            return int(stat_of(pid, self._proc)[_STACK_START])
        except (OSError, ValueError, IndexError):
            return 0


class ProcessActivity:
    """Remembers when processes last worked on a CPU or read files, as while they list, map or compile.

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
        """See whether they have worked since the last look, if it is time for one."""
        now = self._clock()
        elapsed_s = now - self._looked_at
        if elapsed_s < _LOOK_EVERY_S:
            return
        self._looked_at = now
        activity = self._tree.activity()
        # A process that ends takes its counters with it until its parent has collected it.
        worked_s = activity.cpu_s - self._cpu_s
        read_bytes = max(activity.read_bytes, activity.rchar_bytes) - self._read_bytes
        self._cpu_s += max(0.0, worked_s)
        self._read_bytes += max(0, read_bytes)
        if worked_s >= _CPU_SHARE * elapsed_s or read_bytes >= _READ_BYTES_PER_S * elapsed_s:
            self.last_at = now


KEEPER = str(Path(keeper.__file__))
"""The script that keepers run."""


class Orphans:
    """Adopts what a killed keeper leaves behind, while it is entered."""

    def __init__(self) -> None:
        self._existing_children: set[int] = set()

    def __enter__(self) -> Self:
        self._existing_children = set(children_of(os.getpid()))
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return self

    def __exit__(self, *error: object) -> None:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def end(self) -> None:
        """End every process that was adopted, and everything below it."""

        def found() -> list[int]:
            adopted = [pid for pid in children_of(os.getpid()) if pid not in self._existing_children]
            return [one for pid in adopted for one in (pid, *descendants(pid))]

        def collect() -> None:
            for pid in children_of(os.getpid()):
                if pid not in self._existing_children:
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)

        end_all(found, collect)
