"""Which process reports, and which rank of a distributed job it is."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

from .originals import os

_STACK_START = 25
"""Index of `startstack` among the fields of /proc/self/stat after the program's name."""


class Owner:
    """The process whose loop is observed; its forked children are loader workers and report nothing."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def is_here(self) -> bool:
        return os.getpid() == self.pid


def image() -> int:
    """Return where this process's stack starts: exec changes the address, fork keeps it.

    It tells the parent which processes run the agent. 0 if the kernel doesn't say.
    """
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as stream:
            return int(stream.read().rpartition(")")[2].split()[_STACK_START])
    except (OSError, ValueError, IndexError):
        return 0


def imports_main() -> bool:
    """Return whether this process was started by spawn or forkserver and is still importing the script."""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and getattr(module.current_process(), "_inheriting", False)


class Ranks:
    """Rank and world size: from the launcher's environment, then from the process group itself.

    Args:
        owner: becomes this process when a forked child joins a process group.
        changed: called after this process has joined a process group.

    Attributes:
        rank: this process's rank; 0 outside distributed jobs.
        world_size: number of processes that train together.
        measures: whether this is the one rank of its host that is measured.
    """

    def __init__(self, owner: Owner, changed: Callable[[], None]) -> None:
        self._owner = owner
        self._changed = changed
        self.rank = _number("RANK", 0)
        self.world_size = max(1, _number("WORLD_SIZE", 1))

    @property
    def measures(self) -> bool:
        """True for rank 0, and for local rank 0 of torchrun on every other host."""
        is_first_here = (
            _number("LOCAL_RANK", -1) == 0 and 0 < _number("LOCAL_WORLD_SIZE", 0) < self.world_size
        )
        return self.rank == 0 or is_first_here

    def install(self, module: Any) -> None:
        """Wrap `init_process_group` in `torch.distributed.distributed_c10d`."""
        original = getattr(module, "init_process_group", None)
        if original is None:  # torch was built without distributed
            return

        @functools.wraps(original)
        def init_process_group(*args, **kwargs):
            result = original(*args, **kwargs)
            self._joined(module)
            return result

        module.init_process_group = init_process_group

    def _joined(self, module: Any) -> None:
        try:
            self.rank, self.world_size = module.get_rank(), module.get_world_size()
        except Exception:
            return  # this process is not a member of the group
        self._owner.pid = os.getpid()  # a forked child that joins is a rank too
        self._changed()


def _number(variable: str, otherwise: int) -> int:
    try:
        return int(os.environ[variable])
    except (KeyError, ValueError):
        return otherwise
