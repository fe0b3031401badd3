"""Where a trial's writes go: a tree in the trial's folder that mirrors the paths of the user's files."""

from __future__ import annotations

import _io
import contextlib
import errno
import itertools
import os
import posix
import stat
from typing import Any, Callable

LARGEST_COPY_BYTES = 1 << 30
_COPY_CHUNK_BYTES = 1 << 20
_MAX_LINKS = 40
_MAX_CACHED = 4096
_NOT_FILES = ("/proc/", "/sys/")
_LAYER = "layer/0/upper"
"""The tree's place in the trial's folder; the sandbox's overlay uses the same layout."""
_REMOVED = "tunekit:removed"
"""Target of a link in the tree that marks a user's file as removed by the script."""


class WriteDenied(PermissionError):  # noqa: N818 - scripts print this name
    """A trial may not change this file; the message gives the remedy."""


def failure(number: int, path: object) -> OSError:
    """Return the operating system's own error for a path."""
    return OSError(number, os.strerror(number), path)


def status_of(path: str) -> os.stat_result | None:
    """Return the status of a path without following links; None if nothing is there."""
    try:
        return posix.lstat(path)
    except OSError:
        return None


def is_folder(path: str) -> bool:
    status = status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def link_of(path: str) -> str | None:
    """Return the target of a symbolic link; None for anything else."""
    try:
        return posix.readlink(path)
    except OSError:
        return None


def resolve(path: str, follows: bool = True, link: Callable = link_of) -> str:
    """Return an absolute path without links, as os.path.realpath does.

    Args:
        follows: whether to follow a link in the last component too.
        link: returns the target of the link at a path, or None if there is no link.

    Raises:
        OSError: the links form a loop.
    """
    names = [name for name in path.split("/")[::-1] if name not in ("", ".")]
    found, links = "", 0
    while names:
        name = names.pop()
        if name == "..":
            found = found.rpartition("/")[0]
            continue
        here = f"{found}/{name}"
        target = link(here) if names or follows else None
        if target is None:
            found = here
            continue
        links += 1
        if links > _MAX_LINKS:
            raise failure(errno.ELOOP, path)
        if target.startswith("/"):
            found = ""
        names.extend(part for part in target.split("/")[::-1] if part not in ("", "."))
    return found or "/"


def _make_folders(folder: str) -> None:
    if not is_folder(folder):
        _make_folders(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):
            posix.mkdir(folder)


class Mirror:
    """The trial's view of the file system: the user's files, replaced by what the trial wrote.

    An entry is an absolute path with its links resolved. The only state of an entry is the file at the same
    path in the tree, so that all processes of the trial agree.

    Args:
        folder: the trial's folder.
        writable: other folders that the trial may write to.
        report: called with the path of each refused change.

    Attributes:
        root: the tree's folder.
        parents: resolved folders of earlier reads, by path; cleared when a link or folder may change.
    """

    def __init__(self, folder: str, writable: tuple, report: Callable) -> None:
        self._folder = resolve(folder)
        self.root = f"{self._folder}/{_LAYER}"
        self._own = (*(f"{resolve(path)}/" for path in (folder, *writable)), *_NOT_FILES)
        self.report = report
        self._numbers = itertools.count()
        self._is_used = False
        self.parents: dict = {}

    @property
    def is_used(self) -> bool:
        """Whether the trial has written anything that reads need to see."""
        self._is_used = self._is_used or status_of(self.root) is not None
        return self._is_used

    def is_own(self, path: str) -> bool:
        """Return whether a resolved path is in a folder that the trial may write to."""
        return path.startswith(self._own)

    # --- finding ---------------------------------------------------------------------------

    def outside(self, path: str) -> str:
        """Return the original of a path in the tree; any other path is returned unchanged."""
        return path[len(self.root) :] if path.startswith(f"{self.root}/") else path

    def absolute(self, path: Any, dir_fd: Any = None) -> str | None:
        """Return the absolute path; None if the argument is not a path."""
        try:
            text = path if isinstance(path, int) else os.fsdecode(path)
        except TypeError:
            return None
        if isinstance(text, int):
            text = posix.readlink(f"/proc/self/fd/{text}")
            return text if text.startswith("/") else None
        if not text or "\0" in text:
            return None
        if text.startswith("/"):
            return text
        is_relative_to_cwd = not isinstance(dir_fd, int) or dir_fd < 0
        return f"{posix.getcwd() if is_relative_to_cwd else posix.readlink(f'/proc/self/fd/{dir_fd}')}/{text}"

    def find(self, path: Any, dir_fd: Any = None, follows: bool = True) -> tuple:
        """Return the entry that a path names, and whether the kernel would resolve the path differently."""
        text = self.absolute(path, dir_fd)
        if text is None:
            return None, False
        follows = follows or text.endswith("/")
        entry = resolve(self.outside(text), follows, self._link)
        if self.outside(entry) != entry:
            entry = resolve(self.outside(entry), follows, self._link)
        return entry, self.is_used and entry != resolve(text, follows)

    def _find_to_read(self, path: Any, dir_fd: Any, follows: bool) -> tuple:
        """Find an entry quickly if its parent folder, one of the user's, was found before."""
        text = self.absolute(path, dir_fd)
        head, _, name = (text or "").rpartition("/")
        if name in ("", ".", ".."):
            return self.find(path, dir_fd, follows)
        parent = self.parents.get(head)
        if parent is None:
            parent, is_elsewhere = self.find(head or "/")
            if not is_elsewhere and is_folder(parent):
                if len(self.parents) >= _MAX_CACHED:
                    self.parents.clear()
                self.parents[head] = parent
        entry = f"{parent.rstrip('/')}/{name}"
        if head not in self.parents or (follows and self._link(entry) is not None):
            return self.find(path, dir_fd, follows)
        return entry, False

    def _link(self, entry: str) -> str | None:
        if self.is_used:
            copy = status_of(self.root + entry)
            if copy is not None:
                target = link_of(self.root + entry)
                return None if target == _REMOVED else target
        return link_of(entry)

    def place_of(self, entry: str, path: Any = None) -> str:
        """Return where an entry is really stored.

        Raises:
            FileNotFoundError: the script removed it.
        """
        copy = f"{self.root}{entry}"
        status = status_of(copy) if self.is_used else None
        if status is None or (stat.S_ISDIR(status.st_mode) and is_folder(entry)):
            return entry
        if self.is_removed(entry):
            raise failure(errno.ENOENT, entry if path is None else path)
        return copy

    def is_there(self, entry: str) -> bool:
        """Return whether an entry exists for the script."""
        try:
            return status_of(self.place_of(entry)) is not None
        except FileNotFoundError:
            return False

    def reading(self, path: Any, dir_fd: Any = None, follows: bool = True) -> str | None:
        """Return the file to read instead of a path; None for the path itself.

        Raises:
            FileNotFoundError: the script removed it.
        """
        if isinstance(path, int) or not self.is_used:
            return None
        entry, is_elsewhere = self._find_to_read(path, dir_fd, follows)
        if entry is None:
            return None
        place = self.place_of(entry, path)
        return place if is_elsewhere or place != entry else None

    def is_removed(self, entry: str) -> bool:
        """Return whether the script removed this file of the user's."""
        return link_of(self.root + entry) == _REMOVED

    # --- writing ---------------------------------------------------------------------------

    def writing(
        self, path: Any, dir_fd: Any = None, keep: bool = True, creates: bool = True, exclusive: bool = False
    ) -> str | None:
        """Return the file to open for writing instead of a path; None for the path itself.

        Args:
            keep: whether the existing content is kept.
            creates: whether a missing file is created.
            exclusive: whether an existing file is an error.

        Raises:
            OSError: the error that the operating system would raise, or a WriteDenied.
        """
        if isinstance(path, int):
            return None
        entry, is_elsewhere = self.find(path, dir_fd, not exclusive)
        if entry is None:
            return None
        if self.is_own(entry):
            return entry if is_elsewhere or dir_fd is not None else None
        if not self.is_there(entry):
            if not creates:
                raise failure(errno.ENOENT, path)
            return self.new_place(entry, path)
        if exclusive:
            raise failure(errno.EEXIST, path)
        place = self.place_of(entry)
        if place == entry and stat.S_ISREG(posix.lstat(entry).st_mode):
            return self.copied(entry) if keep or not creates else self.new_place(entry, path)
        return place

    def new_place(self, entry: str, path: Any = None) -> str:
        """Return where to create a new entry; its folder must exist."""
        if self.is_own(entry):
            return entry
        folder = os.path.dirname(entry)
        if not self.is_there(folder) or not is_folder(self.place_of(folder)):
            raise failure(errno.ENOENT, entry if path is None else path)
        copy = f"{self.root}{entry}"
        _make_folders(os.path.dirname(copy))
        if self.is_removed(entry):
            posix.unlink(copy)
        return copy

    def copied(self, entry: str) -> str:
        """Copy a user's file into the tree, where it replaces the original from now on; return the copy."""
        part, copy = self.part_of(entry), self.new_place(entry)
        try:
            posix.link(part, copy)
        except FileExistsError:  # another process has just copied it
            pass
        except OSError:  # a file system without hard links
            posix.rename(part, copy)
        with contextlib.suppress(FileNotFoundError):
            posix.unlink(part)
        return copy

    def part_of(self, entry: str) -> str:
        """Copy a user's file or link to a temporary name that replaces nothing yet; return the copy."""
        status = posix.lstat(entry)
        part = self._new_part()
        if stat.S_ISLNK(status.st_mode):
            posix.symlink(posix.readlink(entry), part)
            return part
        if not stat.S_ISREG(status.st_mode):
            self.deny("changing a special file", entry, "write to a new file")
        if status.st_size > LARGEST_COPY_BYTES:
            self.deny("changing a file of more than 1 GiB", entry, "open it for reading only")
        with _io.open(entry, "rb") as old, _io.open(part, "wb") as new:
            while chunk := old.read(_COPY_CHUNK_BYTES):
                new.write(chunk)
        posix.chmod(part, stat.S_IMODE(status.st_mode) | stat.S_IRUSR | stat.S_IWUSR)
        posix.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
        return part

    def _new_part(self) -> str:
        return f"{self._folder}/part-{os.getpid()}-{next(self._numbers)}"

    def hide(self, entry: str) -> None:
        """Hide the user's file at an entry from the script."""
        if status_of(entry) is not None and not self.is_own(entry):
            part = self._new_part()
            posix.symlink(_REMOVED, part)
            posix.rename(part, self.new_place(entry))

    # --- refusing --------------------------------------------------------------------------

    def deny(self, what: str, path: str, remedy: str) -> None:
        """Refuse a change.

        Raises:
            WriteDenied: always.
        """
        self.report(path)
        message = f"a tunekit trial keeps your files as they are, so {what} is refused; {remedy}"
        raise WriteDenied(errno.EACCES, message, path)
