"""The last line of defence: refuses every change that did not go through the replaced functions."""

from __future__ import annotations

import os
import stat
import sys
from typing import Any, Callable

from .databases import named_file
from .functions import WRITE_FLAGS
from .mirror import Mirror, resolve, status_of

_REMEDY = "use `open` or the functions of `os`, whose writes a trial redirects"
_CHANGES = {
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((0, 2), (1, 3)),
    "os.symlink": ((1, 2),),
    "os.mkdir": ((0, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
}
"""Audit events -> for each path argument, its index and that of its folder's descriptor."""
_MAKING = ("os.mkdir", "os.symlink", "os.link", "os.rename")
_OF_ENTRIES = ("os.remove", "os.rmdir", *_MAKING)


def hook_for(mirror: Mirror) -> Callable:
    """Return the audit hook, which must be fast: most of its thousands of calls per second are ignored."""

    def judge(what: str, path: Any, dir_fd: Any, follows: bool, makes: bool) -> None:
        text = mirror.absolute(path, dir_fd)
        entry = "" if text is None else resolve(text, follows)
        if entry and not mirror.is_own(entry) and (makes or status_of(entry) is not None):
            mirror.deny(what, entry, _REMEDY)

    def judge_open(path: Any, flags: int) -> None:
        follows = not (flags & os.O_CREAT and flags & os.O_EXCL)
        status = status_of(resolve(mirror.absolute(path) or "/", follows))
        if status is None or stat.S_ISREG(status.st_mode):
            judge("writing to this file", path, None, follows, True)

    def hook(event: str, args: tuple) -> None:
        if event == "open":
            path, _, flags = args
            if flags and flags & WRITE_FLAGS and not isinstance(path, int):
                judge_open(path, flags)
        elif event == "sqlite3.connect":
            path, is_read_only = named_file(os.fsdecode(args[0]), True)
            if path and not is_read_only:
                judge("connecting to this database", path, None, True, True)
        elif event in _CHANGES:
            for path_at, folder_at in _CHANGES[event]:
                dir_fd = None if folder_at is None else args[folder_at]
                judge(f"{event} here", args[path_at], dir_fd, event not in _OF_ENTRIES, event in _MAKING)

    return hook


def install(mirror: Mirror) -> None:
    """Add the audit hook, which stays for the life of the process."""
    sys.addaudithook(hook_for(mirror))
