"""Which process speaks: the one that loaded the agent, or a forked rank of a distributed job."""

from __future__ import annotations

from .originals import os

_STACK_START = 25
"""Place of `startstack` among the fields of /proc/self/stat that follow the program's name."""


class Owner:
    """The process whose loop is observed; its forked children are loader workers and keep silent."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is that process."""
        return os.getpid() == self.pid

    def adopt(self) -> None:
        """Take a forked child for the process to observe: it joined a process group as a rank."""
        self.pid = os.getpid()


def image() -> int:
    """Return where this process's stack starts: what it executes anew has another, a forked child the same.

    The parent knows by it which processes have the agent; 0 where the kernel doesn't tell.
    """
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as stream:
            return int(stream.read().rpartition(")")[2].split()[_STACK_START])
    except (OSError, ValueError, IndexError):
        return 0
