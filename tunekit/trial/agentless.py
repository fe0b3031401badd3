"""Finds the process of a trial that has loaded torch without tunekit's agent: it would train unguarded.

The agent tells where its process's stack starts. Forked children share that address, and what a process
executes anew gets another one, so that nobody can be taken for a process that it no longer is.
"""

import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

_TORCH_IN_PYTHON = b"/libtorch_python."
_STACK_START = 25
"""Place of `startstack` among the fields of /proc/PID/stat that follow the program's name."""
_LONGEST_COMMAND = 200


class AgentlessTorch:
    """Looks through a trial's processes; those that are known to have the agent cost one short read each.

    Args:
        find_processes: returns the pids of the trial.
        proc: where the kernel tells of processes.
    """

    def __init__(self, find_processes: Callable[[], Iterable[int]], proc: Path = Path("/proc")) -> None:
        self._find_processes = find_processes
        self._proc = proc
        self._suspects: set[tuple[int, int]] = set()

    def find(self, images: Collection[int]) -> str | None:
        """Return the command of a process that was found so twice in a row; None without one.

        Args:
            images: where the stacks of the processes with an agent start.
        """
        seen = {}
        for pid in self._find_processes():
            image = self._image(pid)
            if image and image not in images and self._has_torch(pid):
                seen[pid, image] = pid
        again = self._suspects & seen.keys()
        self._suspects = set(seen)
        return self._command(seen[min(again)]) if again else None

    def _image(self, pid: int) -> int:
        try:
            text = (self._proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
            return int(text.rpartition(")")[2].split()[_STACK_START])
        except (OSError, ValueError, IndexError):
            return 0

    def _has_torch(self, pid: int) -> bool:
        try:
            return _TORCH_IN_PYTHON in (self._proc / str(pid) / "maps").read_bytes()
        except OSError:
            return False

    def _command(self, pid: int) -> str:
        try:
            words = (self._proc / str(pid) / "cmdline").read_bytes().split(b"\0")
        except OSError:
            words = []
        text = re.sub(r"\s+", " ", b" ".join(words).decode("utf-8", "replace")).strip()
        return f"{text[:_LONGEST_COMMAND] or 'its command is not known'} (process {pid})"
