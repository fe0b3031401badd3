"""The functions that open and look at files, replaced by ones that see the overlay."""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import stat
import sys
from typing import Any, Callable

from .denied import Answer, answer
from .entries import Entries
from .overlay import Overlay
from .paths import follow

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
READ_MODES = frozenset(("r", "rb", "br", "rt", "tr"))
_READERS = ("stat", "lstat", "access", "readlink", "getxattr", "listxattr")
_CHANGERS = (
    ("remove", "remove"),
    ("unlink", "remove"),
    ("rmdir", "rmdir"),
    ("mkdir", "mkdir"),
    ("rename", "rename"),
    ("replace", "rename"),
    ("link", "link"),
    ("symlink", "symlink"),
    ("truncate", "truncate"),
    *((name, "attribute") for name in ("chmod", "fchmod", "chown", "fchown", "utime")),
    *((name, "attribute") for name in ("setxattr", "removexattr")),
    ("lchown", "own_attribute"),
)


def guarded(original: Callable, plan: Callable, module: str, failed: Callable) -> Callable:
    """Return a function that asks the plan first, and else does what the original does.

    The plan takes the original and the call's arguments, and returns None to let the call be, or
    what to call instead. Only an Answer of it reaches the script.

    Args:
        original: the function to stand in for.
        plan: decides about one call.
        module: where the function is found, so that it can be pickled by name.
        failed: told of the plan's own faults; the audit hook is the net then.
    """

    @functools.wraps(original)
    def stand_in(*args, **kwargs):
        error = step = None
        try:
            step = plan(original, *args, **kwargs)
        except Answer as told:
            error = told.error
        except Exception as fault:
            failed(fault)
        if error is not None:
            raise error
        return original(*args, **kwargs) if step is None else step()

    stand_in.__module__ = module
    return stand_in


class Files:
    """Plans for opening, looking and listing.

    Args:
        overlay: what the script sees.
    """

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def open(self, original: Callable, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """Plan builtins.open."""
        overlay = self._overlay
        if mode in READ_MODES or not any(letter in mode for letter in "wax+"):
            copy = overlay.read_path(file)
            return None if copy is None else lambda: original(copy, mode, *args, **kwargs)
        creates = any(letter in mode for letter in "wax")
        copy, newborn = overlay.write_path(file, None, "w" not in mode, creates, "x" in mode)
        return self._write(original, file, copy, newborn, mode, *args, **kwargs)

    def os_open(
        self, original: Callable, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> Any:
        """Plan os.open."""
        overlay = self._overlay
        if flags & os.O_DIRECTORY or not flags & WRITE_FLAGS:
            copy = overlay.read_path(path, dir_fd, not flags & os.O_NOFOLLOW)
            return None if copy is None else lambda: original(copy, flags, mode)
        if dir_fd is not None:
            path = overlay.locator.entry(path, dir_fd)  # an audit hook isn't told the folder
        creates = bool(flags & os.O_CREAT)
        exclusive = creates and bool(flags & os.O_EXCL)
        copy, newborn = overlay.write_path(path, None, not flags & os.O_TRUNC, creates, exclusive)
        return self._write(original, path, copy, newborn, flags, mode)

    def _write(
        self, original: Callable, path: Any, copy: Any, newborn: Any, *args: Any, **kw: Any
    ) -> Callable:
        def step():
            opened = original(path if copy is None else copy, *args, **kw)
            self._overlay.born(newborn)
            return opened

        return step

    def look(self, original: Callable, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Plan os.stat and its like."""
        follows = kwargs.get("follow_symlinks", True) and original.__name__ not in ("lstat", "readlink")
        copy = self._overlay.read_path(path, kwargs.get("dir_fd"), follows)
        if copy is None:
            return None
        kwargs.pop("dir_fd", None)
        return lambda: original(copy, *args, **kwargs)

    def listdir(self, original: Callable, path: Any = ".") -> Any:
        """Plan os.listdir."""
        folder = self._listed(path)
        if folder is None:
            return None

        def step():
            names = original("." if path is None else path)
            if not isinstance(path, bytes):
                return self._overlay.names_in(folder, names)
            return [
                os.fsencode(name) for name in self._overlay.names_in(folder, list(map(os.fsdecode, names)))
            ]

        return step

    def scandir(self, original: Callable, path: Any = ".") -> Any:
        """Plan os.scandir."""
        folder = self._listed(path)
        if folder is None:
            return None
        shown = "." if path is None else path
        return lambda: _Scan(self._overlay, folder, shown, original(shown))

    def _listed(self, path: Any) -> str | None:
        """Return the folder's entry when the script finds other names in it than there are."""
        folder = self._overlay.locator.entry("." if path is None else path, cached=True)
        if folder is not None and not isinstance(path, int):
            folder = follow(folder)
        if folder in self._overlay.removed:
            raise answer(errno.ENOENT, path)
        return folder if folder is not None and self._overlay.changes(folder) else None


class _Entry:
    """A directory entry whose file is in the trial's folder; has os.DirEntry's methods."""

    def __init__(self, name: Any, path: Any, entry: str) -> None:
        self.name, self.path, self._entry = name, path, entry

    def __fspath__(self):
        return self.path

    def inode(self) -> int:
        return os.lstat(self._entry).st_ino

    def is_symlink(self) -> bool:
        return self._is(stat.S_ISLNK, False)

    def is_junction(self) -> bool:
        return False

    def is_dir(self, *, follow_symlinks=True) -> bool:
        return self._is(stat.S_ISDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks=True) -> bool:
        return self._is(stat.S_ISREG, follow_symlinks)

    def stat(self, *, follow_symlinks=True) -> os.stat_result:
        return os.stat(self._entry, follow_symlinks=follow_symlinks)

    def _is(self, kind: Callable, follows: bool) -> bool:
        try:
            return kind(self.stat(follow_symlinks=follows).st_mode)
        except FileNotFoundError:
            return False


class _Scan:
    """An os.scandir iterator without what the script deleted and with what was diverted."""

    def __init__(self, overlay: Overlay, folder: str, path: Any, physical: Any) -> None:
        self._physical = physical
        self._entries = self._merge(overlay, folder, path)

    def _merge(self, overlay: Overlay, folder: str, path: Any) -> Any:
        seen = set()
        for entry in self._physical:
            name = os.fsdecode(entry.name)
            seen.add(name)
            here = f"{folder}/{name}"
            if here in overlay.diverted:
                yield _Entry(entry.name, entry.path, here)
            elif here not in overlay.removed:
                yield entry
        for name in overlay.names_in(folder, []):
            if name not in seen:
                shown = os.fsencode(name) if isinstance(path, bytes) else name
                full = shown if isinstance(path, int) else os.path.join(path, shown)
                yield _Entry(shown, full, f"{folder}/{name}")

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        self._physical.close()


def _for_readers(overlay: Overlay, original: Callable, planned: Callable) -> Callable:
    """Return a function that costs a reader next to nothing while the files are as they are."""

    @functools.wraps(planned)
    def reader(*args, **kwargs):
        if not overlay.active:
            return original(*args, **kwargs)
        return planned(*args, **kwargs)

    reader.__module__ = planned.__module__
    return reader


def _guard_open(overlay: Overlay, files: Files, failed: Callable) -> None:
    original = builtins.open
    planned = guarded(original, files.open, "io", failed)

    @functools.wraps(planned)
    def open(file, mode="r", *args, **kwargs):  # noqa: A001
        if mode in READ_MODES and not overlay.active:
            return original(file, mode, *args, **kwargs)
        return planned(file, mode, *args, **kwargs)

    builtins.open = io.open = open
    replace_in_pathlib(original, open)


def _guard_os_open(overlay: Overlay, files: Files, failed: Callable) -> None:
    original = os.open
    planned = guarded(original, files.os_open, "os", failed)

    @functools.wraps(planned)
    def open(path, flags, mode=0o777, *, dir_fd=None):  # noqa: A001
        if not overlay.active and not flags & WRITE_FLAGS:
            return original(path, flags, mode, dir_fd=dir_fd)
        return planned(path, flags, mode, dir_fd=dir_fd)

    _replace("open", original, open)


def _replace(name: str, original: Callable, stand_in: Callable) -> None:
    """Put a function in the original's place, and wherever the standard library remembers that."""
    setattr(os, name, stand_in)
    for remembered in (
        os.supports_dir_fd,
        os.supports_fd,
        os.supports_follow_symlinks,
        os.supports_effective_ids,
    ):
        if original in remembered:
            remembered.add(stand_in)
    replace_in_pathlib(original, stand_in)


def know_pathlib() -> None:
    """Import pathlib where it remembers functions of os and io, before they are replaced."""
    if sys.version_info < (3, 11):  # noqa: UP036 - the agent runs in the script's own Python, from 3.9 on
        import pathlib  # noqa: F401


def replace_in_pathlib(original: Callable, stand_in: Callable) -> None:
    """Replace what Python 3.9's and 3.10's pathlib remembers.

    It must have been imported by now: a function that it found in os later would become a method.
    """
    accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)
    for attribute, value in list(vars(accessor).items()) if accessor else ():
        if getattr(value, "__func__", value) is original:
            setattr(accessor, attribute, staticmethod(stand_in))


def install(overlay: Overlay, failed: Callable) -> None:
    """Replace the entry points in this process.

    Args:
        overlay: what the script sees.
        failed: told of the guard's own faults.
    """
    know_pathlib()
    files, entries = Files(overlay), Entries(overlay)
    _guard_open(overlay, files, failed)
    _guard_os_open(overlay, files, failed)
    readers = {**dict.fromkeys(_READERS, files.look), "listdir": files.listdir, "scandir": files.scandir}
    for name, plan in readers.items():
        original = getattr(os, name)
        _replace(name, original, _for_readers(overlay, original, guarded(original, plan, "os", failed)))
    for name, plan_name in _CHANGERS:
        original = getattr(os, name)
        _replace(name, original, guarded(original, getattr(entries, plan_name), "os", failed))
