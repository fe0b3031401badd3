"""Stand-ins for Python's functions that open, list and change files; they see what the trial wrote."""

from __future__ import annotations

import _io
import builtins
import errno
import functools
import io
import os
import posix
import stat
import sys
import types
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Callable

from .mirror import Mirror, failure, is_folder, status_of
from .stand_ins import Replacements, guarded

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REMEDY = "write to a new name, or leave this out where TUNEKIT_TRIAL is set"
_LOOKS = ("stat", "lstat", "access", "readlink", "getxattr", "listxattr", "statvfs", "chdir")
_MARKS = ("chmod", "fchmod", "chown", "fchown", "lchown", "utime", "setxattr", "removexattr", "truncate")


class Functions:
    """Plans for calls to `open` and to functions in `os`; see `stand_ins.guarded`."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    # --- opening and looking -----------------------------------------------------------------

    def open(self, original: Callable, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if any(letter in mode for letter in "wax+"):
            creates = any(letter in mode for letter in "wax")
            found = self._mirror.writing(file, None, "w" not in mode, creates, "x" in mode)
        else:
            found = self._mirror.reading(file)
        return None if found is None else lambda: original(found, mode, *args, **kwargs)

    def os_open(
        self, original: Callable, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> Any:
        mirror = self._mirror
        if flags & os.O_TMPFILE == os.O_TMPFILE and not mirror.is_own(f"{mirror.find(path, dir_fd)[0]}/"):
            raise failure(errno.EOPNOTSUPP, path)  # the error of file systems without unnamed files
        if flags & os.O_DIRECTORY or not flags & WRITE_FLAGS:
            found = mirror.reading(path, dir_fd, not flags & os.O_NOFOLLOW)
        else:
            creates = bool(flags & os.O_CREAT)
            exclusive = creates and bool(flags & os.O_EXCL)
            found = mirror.writing(path, dir_fd, not flags & os.O_TRUNC, creates, exclusive)
        return None if found is None else lambda: original(found, flags, mode)

    def look(self, original: Callable, path: Any, *args: Any, **kwargs: Any) -> Any:
        follows = kwargs.get("follow_symlinks", True) and original.__name__ not in ("lstat", "readlink")
        found = self._mirror.reading(path, kwargs.get("dir_fd"), follows)
        if found is None:
            return None
        kwargs.pop("dir_fd", None)
        return lambda: original(found, *args, **kwargs)

    def listdir(self, original: Callable, path: Any = ".") -> Any:
        scan = self.scandir(posix.scandir, path)
        return None if scan is None else lambda: [entry.name for entry in scan()]

    def scandir(self, original: Callable, path: Any = ".") -> Any:
        """Plan os.scandir: entries that the trial created are listed, those that it removed are not."""
        mirror, given = self._mirror, "." if path is None else path
        folder, is_elsewhere = mirror.find(given) if mirror.is_used else (None, False)
        if folder is None:
            return None
        place = mirror.place_of(folder, path)
        copies = mirror.root + folder
        if not is_elsewhere and place == folder and not is_folder(copies):
            return None

        def entries():
            shown = "" if isinstance(given, int) else os.fspath(given)
            as_given = os.fsencode if isinstance(shown, bytes) else os.fsdecode
            found = {entry.name: entry for entry in original(given if shown == "" else as_given(place))}
            for entry in posix.scandir(as_given(copies)) if is_folder(copies) else ():
                found[entry.name] = entry
                if mirror.is_removed(f"{folder}/{os.fsdecode(entry.name)}"):
                    del found[entry.name]
            return _Entries(
                entry if entry.path == os.path.join(shown, entry.name) else _Entry(entry, shown)
                for entry in found.values()
            )

        return entries

    def getcwd(self, original: Callable) -> Any:
        return lambda: self._mirror.outside(original())

    def getcwdb(self, original: Callable) -> Any:
        return lambda: os.fsencode(self._mirror.outside(os.fsdecode(original())))

    # --- changing ----------------------------------------------------------------------------

    def _entry(self, path: Any, dir_fd: Any, follows: bool = False) -> str | None:
        self._mirror.parents.clear()
        return self._mirror.find(path, dir_fd, follows)[0]

    def _is_users(self, entry: str, place: str) -> bool:
        """Return whether an entry is the user's own, from before the trial."""
        return place == entry and not self._mirror.is_own(entry) and status_of(entry) is not None

    def remove(self, original: Callable, path: Any, *, dir_fd: int | None = None) -> Any:
        """Plan os.remove: the user's file stays, but is hidden from the script."""
        entry = self._entry(path, dir_fd)
        if entry is None:
            return None
        place = self._mirror.place_of(entry, path)
        if self._mirror.is_own(entry) or is_folder(place) or status_of(entry) is None:
            return lambda: original(place)
        if place == entry and stat.S_IFMT(posix.lstat(entry).st_mode) not in (stat.S_IFREG, stat.S_IFLNK):
            self._mirror.deny("removing a special file", entry, _REMEDY)
        return lambda: self._mirror.hide(entry)

    def rmdir(self, original: Callable, path: Any, *, dir_fd: int | None = None) -> Any:
        entry = self._entry(path, dir_fd)
        if entry is None:
            return None
        place = self._mirror.place_of(entry, path)
        if self._is_users(entry, place):
            self._mirror.deny("removing a folder", entry, _REMEDY)

        def removed():
            original(place)
            self._mirror.hide(entry)

        return removed

    def make(
        self, original: Callable, path: Any, *args: Any, dir_fd: int | None = None, **kwargs: Any
    ) -> Any:
        """Plan os.mkdir and the like: new entries go to the trial's folder."""
        entry = self._entry(path, dir_fd)
        if entry is None:
            return None
        if not self._mirror.is_own(entry) and self._mirror.is_there(entry):
            raise failure(errno.EEXIST, path)
        place = self._mirror.new_place(entry, path)
        return lambda: original(place, *args, **kwargs)

    def symlink(
        self, original: Callable, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: Any = None
    ) -> Any:
        return self.make(functools.partial(original, src), dst, dir_fd=dir_fd)

    def link(
        self,
        original: Callable,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> Any:
        """Plan os.link: hard links to the user's files are refused, as writes through them would stay."""
        source = self._entry(src, src_dir_fd, follow_symlinks)
        if source is None:
            return None
        place = self._mirror.place_of(source, src)
        if self._is_users(source, place):
            self._mirror.deny("making a hard link", source, "copy the file instead")
        return self.make(functools.partial(original, place), dst, dir_fd=dst_dir_fd)

    def rename(
        self,
        original: Callable,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> Any:
        """Plan os.rename: the trial's files are moved; the user's files are copied, then hidden."""
        mirror = self._mirror
        source, goal = self._entry(src, src_dir_fd), self._entry(dst, dst_dir_fd)
        if source is None or goal is None:
            return None
        place = mirror.place_of(source, src)
        if status_of(place) is None:
            raise failure(errno.ENOENT, src)
        is_users = self._is_users(source, place)
        if is_folder(place):
            if is_users:
                mirror.deny("renaming a folder", source, _REMEDY)
            if not mirror.is_own(goal) and mirror.is_there(goal) and mirror.place_of(goal) == goal:
                mirror.deny("replacing a folder", goal, _REMEDY)
        elif mirror.is_there(goal) and is_folder(mirror.place_of(goal)):
            raise failure(errno.EISDIR, dst)

        def renamed():
            if source != goal:
                moved = mirror.part_of(source) if is_users else place
                _move(original, moved, mirror.new_place(goal, dst))
                mirror.hide(source)

        return renamed

    def mark(
        self, original: Callable, path: Any, *args: Any, dir_fd: int | None = None, **kwargs: Any
    ) -> Any:
        """Plan os.chmod and the like: the user's file is copied first."""
        if isinstance(path, int):
            return self._mark_open(path)
        follows = kwargs.get("follow_symlinks", True) and original.__name__ != "lchown"
        entry = self._entry(path, dir_fd, follows)
        if entry is None:
            return None
        place = self._mirror.place_of(entry, path)
        if self._is_users(entry, place):
            if is_folder(entry):
                self._mirror.report(entry)
                return lambda: None  # shutil.copytree does this before it goes on to the files
            place = self._mirror.copied(entry)
        return lambda: original(place, *args, **kwargs)

    def _mark_open(self, handle: int) -> None:
        """Refuse to change the mode, owner or times of a user's file that is open: it isn't a copy."""
        status = os.fstat(handle)
        path = self._mirror.absolute(handle)
        if path is None or self._mirror.is_own(path) or not status.st_nlink:
            return
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            self._mirror.deny("changing an open file", path, "open it for writing first")


def _move(rename: Callable, source: str, target: str) -> None:
    """Rename, or copy and remove if the target is on another file system."""
    try:
        rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV or is_folder(source):
            raise
        import shutil

        shutil.copy2(source, target)
        posix.unlink(source)


class _Entry:
    """An os.DirEntry of the tree under the path that the script knows."""

    def __init__(self, entry: Any, folder: Any) -> None:
        self._entry, self.name = entry, entry.name
        self.path = os.path.join(folder, entry.name)

    def __fspath__(self):
        return self.path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)


class _Entries(Iterator, AbstractContextManager):
    """An iterator that can be closed, as os.scandir returns."""

    def __init__(self, entries: Any) -> None:
        self._entries = entries

    def __next__(self):
        return next(self._entries)

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        self._entries.close()


def install(mirror: Mirror, failed: Callable) -> None:
    """Replace the functions in this process."""
    functions, replaced = Functions(mirror), Replacements()
    plans: dict = dict.fromkeys(_LOOKS, functions.look)
    plans |= dict.fromkeys(_MARKS, functions.mark)
    plans |= dict.fromkeys(("remove", "unlink"), functions.remove)
    plans |= dict.fromkeys(("mkdir", "mkfifo", "mknod"), functions.make)
    plans |= dict.fromkeys(("rename", "replace"), functions.rename)
    for name in ("rmdir", "link", "symlink", "listdir", "scandir", "getcwd", "getcwdb"):
        plans[name] = getattr(functions, name)
    for name, plan in plans.items():
        original = getattr(os, name)
        replaced.add(original, guarded(mirror, original, plan, "os", failed))
    for original, plan, module in (
        (builtins.open, functions.open, "io"),
        (os.open, functions.os_open, "os"),
        (io.open_code, functions.look, "io"),
    ):
        replaced.add(original, guarded(mirror, original, plan, module, failed))
    replaced.put_in_place()
    machinery: Any = sys.modules["_frozen_importlib_external"]  # it bypasses `os` and `io`
    machinery._os = types.SimpleNamespace(**{**vars(posix), "stat": os.stat, "listdir": os.listdir})
    machinery._io = types.SimpleNamespace(**{**vars(_io), "open_code": io.open_code})
