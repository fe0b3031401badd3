"""What the script sees in place of what it had: copies of what it wrote, gaps where it deleted."""

from __future__ import annotations

import _io
import errno
import os
import posix
import shutil
import stat
import threading
from typing import Any, Callable

from .denied import Answer, answer, denial
from .paths import Locator, follow, real_path, status_of

LARGEST_COPY_BYTES = 1 << 30
_MAX_LISTED = 500
_MAX_PATH_CHARACTERS = 4096
_NOT_FILES = ("/proc/", "/sys/")
_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
"""What torch.compile keeps from trial to trial: in a trial both name a folder of the search's own."""
_QUIET = ("/tmp/", "/dev/shm/")
_COPY_CHUNK_BYTES = 1 << 20


class Listing:
    """Tells the parent what was diverted, denied or created: each path once, and not without end."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._told: dict = {}

    def __call__(self, action: str, path: str) -> None:
        told = self._told.setdefault(action, set())
        if path in told or len(told) >= _MAX_LISTED or "/__pycache__/" in path:
            return
        told.add(path)
        shown = path[:_MAX_PATH_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
        self._log.emit("written", path=shown, action=action)


class Overlay:
    """One process's view of the files: the old ones as they were, under what the trial did to them.

    Entries are absolute paths whose parent has no symbolic link in it.

    Args:
        folder: the trial's folder; what lies in it is free to change.
        started_at_s: when the trial started, in seconds since the epoch.
        tell: called with an action and a path for everything that is listed.
        redirected: the user's files, by real path, and the copies that reads shall see instead.
        quiet: folders, with a final slash, whose new files aren't listed.

    Attributes:
        diverted: entries and the copies that stand for them.
        removed: entries that the script deleted and that are still there.
        active: whether a read could see anything but the files as they are.
    """

    def __init__(
        self,
        folder: str,
        started_at_s: float,
        tell: Callable,
        redirected: dict | None = None,
        quiet: tuple = _QUIET,
    ) -> None:
        self.folder = real_path(folder)
        self.started_at_s = started_at_s
        self.tell = tell
        self.diverted: dict = {}
        self.removed: set = set()
        self.redirected = {real_path(path): copy for path, copy in (redirected or {}).items()}
        self.active = bool(self.redirected)
        self.locator = Locator()
        self.lock = threading.RLock()
        os.register_at_fork(after_in_child=self._new_lock)
        self._caches = tuple(f"{real_path(os.environ[name])}/" for name in _CACHES if os.environ.get(name))
        self._quiet = (*quiet, f"{self.folder}/", *self._caches)
        self._changed_names: dict = {}
        self._old_folders: set = set()
        self._adopt()

    def _new_lock(self) -> None:
        self.lock = threading.RLock()  # another thread may have held it when this process forked

    def _adopt(self) -> None:
        """Take over what an earlier process of this trial diverted."""
        root = f"{self.folder}/diverted"
        for parent, _, names in os.walk(root):
            for name in names:
                copy = f"{parent}/{name}"
                self.put(copy[len(root) :], copy)

    # --- what is what ----------------------------------------------------------------------

    def is_free(self, entry: str) -> bool:
        """Return whether the entry is the trial's own, or no file at all."""
        if entry.startswith("/dev/"):
            return not entry.startswith("/dev/shm/")
        return entry == self.folder or entry.startswith((f"{self.folder}/", *self._caches, *_NOT_FILES))

    def existed(self, entry: str) -> bool:
        """Return whether the entry itself, not what it links to, existed before the trial."""
        status = status_of(entry)
        if status is None or self.is_free(entry):
            return False
        # Linux keeps no reliable birth time; a file made by this trial has a change time after its start.
        if status.st_ctime < self.started_at_s or entry in self._old_folders:
            return True
        # A folder's change time is that of its last new name, but nothing old can be in a new folder.
        return stat.S_ISDIR(status.st_mode) and self._holds_old(entry)

    def _holds_old(self, folder: str) -> bool:
        try:
            names = posix.listdir(folder)
        except OSError:
            return False
        return any(self.existed(f"{folder}/{name}") for name in names)

    def is_visible(self, entry: str) -> bool:
        """Return whether the script finds something at the entry."""
        if entry in self.removed:
            return False
        return entry in self.diverted or status_of(entry) is not None

    def has_folder(self, entry: str) -> bool:
        """Return whether the script finds a folder at the entry."""
        if entry in self.removed:
            return False
        status = status_of(entry, follows=True)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def names_in(self, folder: str, physical: list) -> list:
        """Return the names that the script finds in a folder that physically holds some names."""
        changed = self._changed_names.get(folder)
        if not changed:
            return physical
        hidden = {name for name in changed if f"{folder}/{name}" in self.removed}
        added = [name for name in changed if f"{folder}/{name}" in self.diverted]
        kept = [name for name in physical if name not in hidden]
        return kept + sorted(set(added) - set(kept))

    def changes(self, folder: str) -> bool:
        """Return whether the script finds other names in the folder than it physically holds."""
        return bool(self._changed_names.get(folder))

    # --- reading and writing ---------------------------------------------------------------

    def read_path(self, path: Any, dir_fd: int | None = None, follows: bool = True) -> str | None:
        """Return what to read instead of the path, None for the path itself.

        Raises:
            Answer: the script deleted it.
        """
        if isinstance(path, int):
            return None
        entry = self.locator.entry(path, dir_fd, cached=True)
        if entry is None:
            return None
        if follows and entry not in self.removed and entry not in self.diverted:
            entry = follow(entry)
        if entry in self.removed:
            raise answer(errno.ENOENT, path)
        copy = self.diverted.get(entry)
        if copy is None:
            return self.redirected.get(entry)
        target = self.linked(entry, copy) if follows else copy
        return copy if target == copy else self.read_path(target) or target

    def write_path(
        self,
        path: Any,
        dir_fd: int | None = None,
        keep: bool = True,
        create: bool = True,
        exclusive: bool = False,
        always: bool = False,
    ) -> tuple:
        """Return what to write instead of the path, and the entry that would be new.

        Args:
            path: what the script wants to write.
            dir_fd: the folder that a relative path starts from.
            keep: the old content matters; the write doesn't start with an empty file.
            create: a missing file is made.
            exclusive: an existing file is an error.
            always: divert a new file too.

        Returns:
            The path to open, None for the path itself; and an entry for `born`, or None.

        Raises:
            Answer: the operating system's error, or a denial.
        """
        entry = None if isinstance(path, int) else self.locator.entry(path, dir_fd)
        if entry is None:
            return None, None
        with self.lock:
            if not exclusive and entry not in self.removed and entry not in self.diverted:
                entry = follow(entry)
            if self.is_free(entry):
                return None, None
            if entry in self.diverted:
                if exclusive:
                    raise answer(errno.EEXIST, path)
                return self._write_through(entry, keep), None
            if entry in self.removed:
                if not create or os.path.dirname(entry) in self.removed:
                    raise answer(errno.ENOENT, path)
                return self.divert(entry, keep=False), None
            return self._write_found(entry, keep, create, exclusive, always)

    def _write_through(self, entry: str, keep: bool) -> str:
        copy = self.diverted[entry]
        target = self.linked(entry, copy)
        return copy if target == copy else self.write_path(target, keep=keep)[0] or target

    def linked(self, entry: str, copy: str) -> str:
        """Return the copy, or where it leads if it is a symbolic link of the script's.

        Raises:
            Answer: it leads back to the entry.
        """
        try:
            text = posix.readlink(copy)
        except OSError:
            return copy
        target = real_path(os.path.join(os.path.dirname(entry), text))
        if target == entry:
            raise answer(errno.ELOOP, entry)
        return target

    def _write_found(self, entry: str, keep: bool, create: bool, exclusive: bool, always: bool) -> tuple:
        status = status_of(entry)
        parent = os.path.dirname(entry)
        if status is None:
            if parent in self.removed:
                raise answer(errno.ENOENT, entry)
            if always and self.has_folder(parent):
                return self.divert(entry, keep=False), None
            self.remember_parent(entry)
            return None, entry if create else None
        if exclusive or not stat.S_ISREG(status.st_mode):
            return None, None
        if always or status.st_ctime < self.started_at_s:
            return self.divert(entry, keep), None
        return None, None

    def divert(self, entry: str, keep: bool) -> str:
        """Return the copy that stands for the entry from now on.

        Args:
            entry: what the script writes.
            keep: start with the content that the script finds there now.

        Raises:
            Answer: the content is too large to copy.
        """
        copy = self.place(entry)
        if entry in self.removed and status_of(copy) is not None:
            posix.unlink(copy)
        if keep and status_of(copy) is None:
            source = self.redirected.get(entry, entry)
            self.copy_file(source, copy, entry)
        self.put(entry, copy)
        self.tell("diverted", entry)
        return copy

    def copy_file(self, source: str, target: str, entry: str) -> None:
        """Copy a file with its mode and time, all at once for other processes, unless it is too large."""
        status = posix.stat(source)
        if status.st_size > LARGEST_COPY_BYTES:
            self.deny("changing so large a file", entry, "open it for reading only")
        part = f"{self.folder}/diverting-{os.getpid()}-{threading.get_ident()}"
        with _io.open(source, "rb") as old, _io.open(part, "wb") as new:
            shutil.copyfileobj(old, new, _COPY_CHUNK_BYTES)
        posix.chmod(part, stat.S_IMODE(status.st_mode) | stat.S_IRUSR | stat.S_IWUSR)
        posix.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
        try:
            posix.link(part, target)  # fails where another process of this trial was faster
            posix.unlink(part)
        except FileExistsError:
            posix.unlink(part)
        except OSError:  # another file system, or one without hard links
            shutil.move(part, target)

    # --- bookkeeping -----------------------------------------------------------------------

    def place(self, entry: str) -> str:
        """Return where the entry's copy goes, and make its folder."""
        copy = f"{self.folder}/diverted{entry}"
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        return copy

    def put(self, entry: str, copy: str) -> None:
        """Let the copy stand for the entry."""
        self.removed.discard(entry)
        self.diverted[entry] = copy
        self._note_change(entry)

    def drop(self, entry: str) -> None:
        """Let nothing stand for the entry any more; hide what was there before the trial."""
        self.diverted.pop(entry, None)
        if self.existed(entry):
            self.hide(entry)

    def hide(self, entry: str) -> None:
        """Let the script find nothing at the entry."""
        self.removed.add(entry)
        self._note_change(entry)
        self.tell("denied", entry)

    def show(self, entry: str) -> None:
        """Undo `hide`."""
        self.removed.discard(entry)

    def _note_change(self, entry: str) -> None:
        parent, _, name = entry.rpartition("/")
        self._changed_names.setdefault(parent or "/", set()).add(name)
        self.active = True

    def remember_parent(self, entry: str) -> None:
        """Note that an entry's folder is old, before a new name in it changes the folder's time."""
        parent = os.path.dirname(entry)
        status = status_of(parent)
        if status is not None and status.st_ctime < self.started_at_s and not self.is_free(parent):
            self._old_folders.add(parent)

    def born(self, entry: str | None) -> None:
        """List a new file or folder of the script's."""
        if entry is not None and not self.is_free(entry) and not entry.startswith(self._quiet):
            self.tell("created", entry)

    def deny(self, what: str, entry: str, remedy: str) -> None:
        """Refuse.

        Raises:
            Answer: always, with a HarmDenied.
        """
        self.tell("denied", entry)
        raise Answer(denial(what, entry, remedy))
