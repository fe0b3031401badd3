"""Where a path really leads, found without the functions that the guard replaces."""

from __future__ import annotations

import os
import posix

_MAX_LINKS = 40
_MAX_CACHED = 4096


def real_path(path: str) -> str:
    """Return the absolute path with every symbolic link followed, as os.path.realpath does."""
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
            target = posix.readlink(here)
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


class Locator:
    """Names directory entries: the parent with its links followed, the last name as it is.

    Readers may use remembered parents; whoever writes looks afresh.
    """

    def __init__(self) -> None:
        self._parents: dict = {}

    def forget(self) -> None:
        """Drop remembered parents, because a folder or a link changed."""
        self._parents.clear()

    def entry(self, path: object, dir_fd: int | None = None, cached: bool = False) -> str | None:
        """Return the entry that a path names, None for what is no path.

        Args:
            path: text, bytes, a PathLike, or a file descriptor.
            dir_fd: the folder that a relative path starts from, None for the working folder.
            cached: use remembered parents.
        """
        if isinstance(path, int):
            target = posix.readlink(f"/proc/self/fd/{path}")
            return target if target.startswith("/") else None
        try:
            text = os.fsdecode(path)
        except TypeError:
            return None
        if not text or "\0" in text:
            return None
        if text[0] != "/":
            base = posix.getcwd() if dir_fd is None else posix.readlink(f"/proc/self/fd/{dir_fd}")
            text = f"{base}/{text}"
        head, _, name = text.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            return real_path(text)
        parent = self._parents.get(head) if cached else None
        if parent is None:
            parent = real_path(head or "/")
            if len(self._parents) >= _MAX_CACHED:
                self._parents.clear()
            self._parents[head] = parent
        return f"{parent}/{name}" if parent != "/" else f"/{name}"
