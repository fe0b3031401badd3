"""Which process speaks: the one that loaded the agent, or a forked rank of a distributed job."""

from __future__ import annotations

from .originals import os


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
