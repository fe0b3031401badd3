"""The functions that open and look at files, replaced by ones that see the overlay."""

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
from typing import Any, Callable

from .. import imports
from .directories import Directories
from .overlay import Overlay, answer
from .stand_ins import Replacements, for_readers, guarded

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_UNNAMED = os.O_TMPFILE
_CWD_AT = 9
"""Position of Popen's `cwd` among its arguments."""
READ_MODES = frozenset(("r", "rb", "br", "rt", "tr"))
_READERS = ("stat", "lstat", "access", "readlink", "getxattr", "listxattr", "statvfs", "pathconf", "chdir")
_CHANGERS = (
    ("remove", "remove"),
    ("unlink", "remove"),
    ("rmdir", "rmdir"),
    ("mkdir", "mkdir"),
    ("mkfifo", "node"),
    ("mknod", "node"),
    ("rename", "rename"),
    ("replace", "rename"),
    ("link", "link"),
    ("symlink", "symlink"),
    ("truncate", "truncate"),
    *((name, "attribute") for name in ("chmod", "fchmod", "chown", "fchown", "utime")),
    *((name, "attribute") for name in ("setxattr", "removexattr")),
    ("lchown", "own_attribute"),
)


class Files:
    """Plans for opening, looking and listing."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def open(self, original: Callable, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
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
        overlay = self._overlay
        if flags & _UNNAMED == _UNNAMED:
            copy = self._folder_for_unnamed(path, dir_fd)
            return None if copy is None else lambda: original(copy, flags, mode)
        if flags & os.O_DIRECTORY or not flags & WRITE_FLAGS:
            copy = overlay.read_path(path, dir_fd, not flags & os.O_NOFOLLOW)
            return None if copy is None else lambda: original(copy, flags, mode)
        creates = bool(flags & os.O_CREAT)
        exclusive = creates and bool(flags & os.O_EXCL)
        copy, newborn = overlay.write_path(path, dir_fd, not flags & os.O_TRUNC, creates, exclusive)
        if copy is None and dir_fd is not None:
            copy = overlay.locator.entry(path, dir_fd)  # an audit hook isn't told the folder
        return self._write(original, path, copy, newborn, flags, mode)

    def _folder_for_unnamed(self, path: Any, dir_fd: int | None) -> str | None:
        overlay = self._overlay
        copy = overlay.read_path(path, dir_fd)
        entry = overlay.follow(overlay.find(path, dir_fd)[0])[0]
        is_covered = not overlay.is_free(entry) and overlay.goes_to_mirror(f"{entry}/")
        return overlay.folder if copy is None and is_covered and overlay.has_folder(entry) else copy

    def _write(
        self, original: Callable, path: Any, copy: Any, newborn: Any, *args: Any, **kw: Any
    ) -> Callable:
        def step():
            opened = original(path if copy is None else copy, *args, **kw)
            self._overlay.born(newborn)
            return opened

        return step

    def look(self, original: Callable, path: Any, *args: Any, **kwargs: Any) -> Any:
        follows = kwargs.get("follow_symlinks", True) and original.__name__ not in ("lstat", "readlink")
        copy = self._overlay.read_path(path, kwargs.get("dir_fd"), follows)
        if copy is None:
            return None
        kwargs.pop("dir_fd", None)
        return lambda: original(copy, *args, **kwargs)

    def listdir(self, original: Callable, path: Any = ".") -> Any:
        folder, place = self._listed(path)
        if folder is None:
            return None

        def step():
            names = self._overlay.names_in(folder, list(map(os.fsdecode, original(place))))
            return list(map(os.fsencode, names)) if isinstance(path, bytes) else names

        return step

    def scandir(self, original: Callable, path: Any = ".") -> Any:
        folder, place = self._listed(path)
        if folder is None:
            return None
        return lambda: _Scan(self._overlay, folder, "." if path is None else path, original(place))

    def _listed(self, path: Any) -> tuple:
        """Return the folder's entry when the script finds something else in it, and what to list then."""
        overlay = self._overlay
        given = "." if path is None else path
        folder, is_elsewhere = overlay.find(given, cached=True)
        if folder is None:
            return None, None
        if isinstance(path, int):
            entry = overlay.locator.outside(folder)
            return (entry if overlay.changes(entry) else None), path
        folder, is_elsewhere = overlay.follow(folder, is_elsewhere)
        if overlay.is_removed(folder):
            raise answer(errno.ENOENT, path)
        if overlay.is_diverted(folder) or is_elsewhere:
            return folder, overlay.physical(folder)
        return (folder if overlay.changes(folder) else None), given

    def popen(self, original: Callable, process: Any, *args: Any, **kwargs: Any) -> Any:
        """Plan subprocess.Popen.__init__: a child can start in a folder that is elsewhere."""
        named = "cwd" in kwargs
        cwd = kwargs["cwd"] if named else args[_CWD_AT] if len(args) > _CWD_AT else None
        copy = None if cwd is None else self._overlay.read_path(cwd)
        if copy is None:
            return None
        if named:
            kwargs["cwd"] = copy
        else:
            args = (*args[:_CWD_AT], copy, *args[_CWD_AT + 1 :])
        return lambda: original(process, *args, **kwargs)

    def getcwd(self, original: Callable) -> Any:
        return lambda: self._overlay.locator.outside(original())

    def getcwdb(self, original: Callable) -> Any:
        return lambda: os.fsencode(self._overlay.locator.outside(os.fsdecode(original())))


class _Entry:
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
    def __init__(self, overlay: Overlay, folder: str, path: Any, physical: Any) -> None:
        self._physical = physical
        self._entries = self._merge(overlay, folder, path)

    def _merge(self, overlay: Overlay, folder: str, path: Any) -> Any:
        start = "" if folder == "/" else folder
        seen = set()
        for entry in self._physical:
            name = os.fsdecode(entry.name)
            seen.add(name)
            here = f"{start}/{name}"
            if overlay.is_diverted(here):
                yield self._shown(here, name, path)
            elif not overlay.is_removed(here):
                yield entry
        for name in overlay.names_in(folder, []):
            if name not in seen:
                yield self._shown(f"{start}/{name}", name, path)

    def _shown(self, entry: str, name: str, path: Any) -> _Entry:
        shown = os.fsencode(name) if isinstance(path, bytes) else name
        full = shown if isinstance(path, int) else os.path.join(path, shown)
        return _Entry(shown, full, entry)

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


def _guard_open(overlay: Overlay, files: Files, failed: Callable, replaced: Replacements) -> None:
    original = builtins.open
    planned = guarded(overlay, original, files.open, "io", failed)

    @functools.wraps(planned)
    def open(file, mode="r", *args, **kwargs):  # noqa: A001
        if mode in READ_MODES and overlay.is_plain:
            return original(file, mode, *args, **kwargs)
        return planned(file, mode, *args, **kwargs)

    replaced.add(original, open)


def _guard_os_open(overlay: Overlay, files: Files, failed: Callable, replaced: Replacements) -> None:
    original = os.open
    planned = guarded(overlay, original, files.os_open, "os", failed)

    @functools.wraps(planned)
    def open(path, flags, mode=0o777, *, dir_fd=None):  # noqa: A001
        if not flags & WRITE_FLAGS and overlay.is_plain:
            return original(path, flags, mode, dir_fd=dir_fd)
        return planned(path, flags, mode, dir_fd=dir_fd)

    replaced.add(original, open)


def install(overlay: Overlay, failed: Callable) -> None:
    """Replace the entry points in this process."""
    files, directories = Files(overlay), Directories(overlay)
    replaced = Replacements()
    _guard_open(overlay, files, failed, replaced)
    _guard_os_open(overlay, files, failed, replaced)
    readers = {**dict.fromkeys(_READERS, files.look), "listdir": files.listdir, "scandir": files.scandir}
    readers |= {"getcwd": files.getcwd, "getcwdb": files.getcwdb}
    for name, plan in readers.items():
        original = getattr(os, name)
        planned = guarded(overlay, original, plan, "os", failed)
        replaced.add(original, for_readers(overlay, original, planned))
    for name, plan_name in _CHANGERS:
        original = getattr(os, name)
        replaced.add(original, guarded(overlay, original, getattr(directories, plan_name), "os", failed))
    opens_code = guarded(overlay, io.open_code, files.look, "io", failed)
    replaced.add(io.open_code, for_readers(overlay, io.open_code, opens_code))
    replaced.put_in_place()
    _guard_importing()
    imports.when_imported("subprocess", functools.partial(_guard_popen, overlay, files, failed))


class _View:
    def __init__(self, module: Any, **replaced: Callable) -> None:
        self._module = module
        vars(self).update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _guard_importing() -> None:
    """Let Python import modules that the script wrote; it asks no module that can be replaced."""
    machinery = sys.modules["_frozen_importlib_external"]
    machinery._os = _View(posix, stat=os.stat, listdir=os.listdir)  # type: ignore[attr-defined]
    machinery._io = _View(_io, open_code=io.open_code)  # type: ignore[attr-defined]


def _guard_popen(overlay: Overlay, files: Files, failed: Callable, module: Any) -> None:
    original = module.Popen.__init__
    planned = guarded(overlay, original, files.popen, "subprocess", failed)
    module.Popen.__init__ = for_readers(overlay, original, planned)
