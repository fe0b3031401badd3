"""The net below the replaced functions: nothing old is changed by a call that went past them."""

from __future__ import annotations

import os
import stat
import sys
from typing import Any, Callable

from .files import WRITE_FLAGS
from .overlay import Answer, Overlay
from .paths import Locator, follow, status_of

_REMEDY = "use the functions of `os` or `open`, which a trial diverts"
# Event names, and where each has paths: the index of a path and that of its folder's descriptor.
_CHANGES = {
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((0, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
    "sqlite3.connect": ((0, None),),
}
_MAKES = {"os.mkdir": (0, 2), "os.symlink": (1, 2), "os.link": (1, 3), "os.rename": (1, 3)}
_ENTRIES_THEMSELVES = frozenset(("os.remove", "os.rmdir", "os.rename"))


class Net:
    """Judges audit events.

    Args:
        overlay: knows what existed before the trial.
        refuses: whether changes of old files are refused; where the kernel puts them into the trial's layer,
            they are let be.
    """

    def __init__(self, overlay: Overlay, refuses: bool = True) -> None:
        self._overlay, self._refuses = overlay, refuses
        self._locator = Locator()  # the operating system's view: a stand-in's call leads to the mirror

    def judge(self, event: str, args: tuple) -> None:
        """Refuse what would change something old.

        Raises:
            HarmDenied: it would.
        """
        refused = None
        try:
            if event == "open":
                self._judge_open(*args)
            else:
                for path_at, folder_at in _CHANGES.get(event, ()):
                    self._judge_change(event, args[path_at], None if folder_at is None else args[folder_at])
                if event in _MAKES:
                    path_at, folder_at = _MAKES[event]
                    self._expect(args[path_at], args[folder_at])
        except Answer as answered:
            refused = answered.error
        except Exception:  # a fault of ours stays ours
            return
        if refused is not None:
            raise refused

    def _judge_open(self, path: Any, mode: Any, flags: Any) -> None:
        if not flags & WRITE_FLAGS or flags & os.O_DIRECTORY or isinstance(path, int):
            return
        entry = self._locator.entry(path)
        if entry is None:
            return
        is_exclusive = flags & os.O_CREAT and flags & os.O_EXCL
        entry = entry if is_exclusive else follow(entry)
        status = status_of(entry)
        if status is None:
            self._overlay.expect(entry)
        elif not is_exclusive and stat.S_ISREG(status.st_mode) and self._overlay.existed(entry):
            self._refuse("writing over a file", entry)

    def _entry(self, path: Any, dir_fd: Any) -> str | None:
        return self._locator.entry(path, dir_fd if isinstance(dir_fd, int) and dir_fd >= 0 else None)

    def _expect(self, path: Any, dir_fd: Any) -> None:
        entry = self._entry(path, dir_fd)
        if entry is not None:
            self._overlay.expect(entry)

    def _judge_change(self, event: str, path: Any, dir_fd: Any) -> None:
        entry = self._entry(path, dir_fd)
        if entry is None:
            return
        if event not in _ENTRIES_THEMSELVES:
            entry = follow(entry)
        if self._overlay.existed(entry):
            self._refuse(event, entry)

    def _refuse(self, what: str, entry: str) -> None:
        if self._refuses:
            self._overlay.deny(what, entry, _REMEDY)


def hook_for(judge: Callable) -> Callable:
    """Return the audit hook; it is called thousands of times a second for what is none of its business."""
    watched = frozenset((*_CHANGES, *_MAKES))

    def hook(event, args):
        if event == "open":
            if args[2] and args[2] & WRITE_FLAGS:
                judge(event, args)
        elif event in watched:
            judge(event, args)

    return hook


def install(overlay: Overlay, refuses: bool = True) -> None:
    """Add the audit hook, which stays for the life of the process."""
    sys.addaudithook(hook_for(Net(overlay, refuses).judge))
