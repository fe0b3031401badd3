"""Which process speaks, and which rank of a distributed job it is."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

from .originals import os

_STACK_START = 25
"""Place of `startstack` among the fields of /proc/self/stat that follow the program's name."""


class Owner:
    """The process whose loop is observed; its forked children are loader workers and keep silent."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def is_here(self) -> bool:
        return os.getpid() == self.pid


def image() -> int:
    """Return where this process's stack starts: what it executes anew has another, a forked child the same.

    The parent knows by it which processes have the agent; 0 where the kernel doesn't tell.
    """
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as stream:
            return int(stream.read().rpartition(")")[2].split()[_STACK_START])
    except (OSError, ValueError, IndexError):
        return 0


def imports_main() -> bool:
    """Return whether this process was started by spawn or forkserver and imports the script just now."""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and getattr(module.current_process(), "_inheriting", False)


class Ranks:
    """Rank and world size: from the launcher's environment, then from the process group itself.

    Args:
        owner: becomes this process when a forked child joins a process group.
        changed: called when the process group has another rank than the environment had.

    Attributes:
        rank: of this process; 0 outside distributed jobs.
        world_size: processes that train together.
        measures: whether this rank is the one of its host that is measured.
    """

    def __init__(self, owner: Owner, changed: Callable[[], None]) -> None:
        self._owner = owner
        self._changed = changed
        self.rank = _number("RANK", 0)
        self.world_size = max(1, _number("WORLD_SIZE", 1))

    @property
    def measures(self) -> bool:
        """The first; on a host that does not have it the first there, as torchrun numbers them."""
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
            return  # a group that this process is no member of
        self._owner.pid = os.getpid()  # also of a forked child, which is a rank by now
        self._changed()


def _number(variable: str, otherwise: int) -> int:
    try:
        return int(os.environ[variable])
    except (KeyError, ValueError):
        return otherwise
