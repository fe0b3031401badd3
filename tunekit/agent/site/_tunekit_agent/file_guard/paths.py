"""Where a path really leads, found and changed without the functions that the guard replaces."""

from __future__ import annotations

import _io
import contextlib
import errno
import os
import posix
import stat
from typing import Callable

_MAX_LINKS = 40
_MAX_CACHED = 4096
_COPY_CHUNK_BYTES = 1 << 20


def real_path(path: str, readlink: Callable = posix.readlink) -> str:
    """Return the absolute path with every symbolic link followed, as os.path.realpath does.

    Args:
        readlink: returns where a path without links leads, or raises OSError.
    """
    if not path.startswith("/"):
        path = f"{posix.getcwd()}/{path}"
    names = path.split("/")[::-1]
    found, links = "", 0
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            found = found.rpartition("/")[0]
            continue
        here = f"{found}/{name}"
        try:
            target = readlink(here)
        except OSError:  # no link, or not there
            found = here
            continue
        links += 1
        if links > _MAX_LINKS:
            found = here
            continue
        if target.startswith("/"):
            found = ""
        names.extend(target.split("/")[::-1])
    return found or "/"


def follow(entry: str) -> str:
    """Return where an entry leads: itself unless it is a symbolic link."""
    try:
        posix.readlink(entry)
    except OSError:
        return entry
    return real_path(entry)


def status_of(entry: str, follows: bool = False) -> os.stat_result | None:
    """Return the entry's status, None when it isn't there."""
    try:
        return posix.stat(entry) if follows else posix.lstat(entry)
    except OSError:
        return None


def is_folder(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISDIR(status.st_mode)


def make_folders(folder: str) -> None:
    """Make a folder and its parents, as far as they are missing."""
    if is_folder(status_of(folder, follows=True)):
        return
    make_folders(os.path.dirname(folder))
    with contextlib.suppress(FileExistsError):
        posix.mkdir(folder)


def wipe(path: str) -> None:
    """Remove whatever is at a path."""
    status = status_of(path)
    if is_folder(status):
        for name in posix.listdir(path):
            wipe(f"{path}/{name}")
        posix.rmdir(path)
    elif status is not None:
        posix.unlink(path)


def copy_content(source: str, target: str) -> None:
    """Copy a plain file with its mode and times to a new name; its owner may always change the copy."""
    status = posix.stat(source)
    with _io.open(source, "rb") as old, _io.open(target, "wb") as new:
        while chunk := old.read(_COPY_CHUNK_BYTES):
            new.write(chunk)
    posix.chmod(target, stat.S_IMODE(status.st_mode) | stat.S_IRUSR | stat.S_IWUSR)
    posix.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def move(source: str, target: str) -> None:
    """Rename, or copy and remove where another file system begins."""
    try:
        posix.rename(source, target)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    status = posix.lstat(source)
    if stat.S_ISDIR(status.st_mode):
        posix.mkdir(target, stat.S_IMODE(status.st_mode))
        for name in posix.listdir(source):
            move(f"{source}/{name}", f"{target}/{name}")
    elif stat.S_ISLNK(status.st_mode):
        posix.symlink(posix.readlink(source), target)
    else:
        copy_content(source, target)
    wipe(source)


class Locator:
    """Names directory entries: the parent with its links followed, the last name as it is.

    Readers may use remembered parents; whoever writes looks afresh.

    Args:
        mirror: a folder that repeats absolute paths: what lies in it is named by the path that it repeats.
        readlink: as the script sees it; None while that is what the operating system sees.
    """

    def __init__(self, mirror: str = "", readlink: Callable | None = None) -> None:
        self._parents: dict = {}
        self._mirror = f"{mirror}/" if mirror else ""
        self.readlink = readlink

    def forget(self) -> None:
        self._parents.clear()

    def outside(self, path: str) -> str:
        """Return the path that one in the mirror repeats; another path as it is."""
        if self._mirror and path.startswith(self._mirror):
            return path[len(self._mirror) - 1 :]
        return path

    def entry(self, path: object, dir_fd: int | None = None, cached: bool = False) -> str | None:
        """Return the entry that a path names, None for what is no path; see `find`."""
        return self.find(path, dir_fd, cached)[0]

    def find(self, path: object, dir_fd: int | None = None, cached: bool = False) -> tuple:
        """Return the entry that a path names, and whether the operating system would look elsewhere.

        Args:
            path: text, bytes, a PathLike, or a file descriptor, which is named as the system does.
            dir_fd: the folder that a relative path starts from, None for the working folder.
            cached: use remembered parents.
        """
        if isinstance(path, int):
            target = posix.readlink(f"/proc/self/fd/{path}")
            return (target if target.startswith("/") else None), False
        try:
            text = os.fsdecode(path)
        except TypeError:
            return None, False
        if not text or "\0" in text:
            return None, False
        if text[0] != "/":
            base = posix.getcwd() if dir_fd is None else posix.readlink(f"/proc/self/fd/{dir_fd}")
            text = f"{base}/{text}"
        head, _, name = text.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            head, name = text, ""
        found = self._parents.get(head) if cached else None
        if found is None:
            found = self._route(head or "/")
            if len(self._parents) >= _MAX_CACHED:
                self._parents.clear()
            self._parents[head] = found
        parent, is_elsewhere = found
        if not name:
            return parent, is_elsewhere
        return (f"{parent}/{name}" if parent != "/" else f"/{name}"), is_elsewhere

    def _route(self, head: str) -> tuple:
        physical = real_path(head)
        outside = self.outside(physical)
        if outside != physical:
            return self.outside(real_path(outside, self.readlink or posix.readlink)), True
        if self.readlink is None:
            return physical, False
        logical = self.outside(real_path(head, self.readlink))
        return logical, logical != physical
