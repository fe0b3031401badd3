"""What the script sees in place of what it had: copies of what it wrote, gaps where it deleted."""

from __future__ import annotations

import errno
import os
import posix
import stat
import threading
from typing import Any, Callable

from .journal import Journal
from .paths import Locator, copy_content, is_folder, make_folders, move, real_path, status_of, wipe

LARGEST_COPY_BYTES = 1 << 30
_MAX_LISTED = 500
_MAX_PATH_CHARACTERS = 4096
_NOT_FILES = ("/proc/", "/sys/")
_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
"""What torch.compile keeps from trial to trial: in a trial both name a folder of the search's own."""
_QUIET = ("/tmp/", "/dev/shm/")
_JOURNAL = ".tunekit-journal"
REMOVED, FOLDER, LINK = "removed", "folder", "link"
_LEADING = (FOLDER, LINK)


class HarmDenied(PermissionError):  # noqa: N818 - what happened, as scripts print it
    """A trial may not do this to something that existed before it; the message tells the remedy."""


class Answer(Exception):  # noqa: N818 - no error of ours
    """Carries the error that the script shall see, apart from the guard's own faults."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


def denial(what: str, path: str, remedy: str) -> HarmDenied:
    """Return the error for something that is refused."""
    message = f"{what} is off in a tunekit trial, which keeps what existed before it as it was; {remedy}"
    return HarmDenied(errno.EACCES, message, path)


def answer(number: int, path: object) -> Answer:
    """Return the operating system's own error for a path, as the script would have met it."""
    return Answer(OSError(number, os.strerror(number), path))


class Listing:
    """Tells the parent what was diverted, denied or created: each path once, and not without end."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._listed: dict = {}

    def __call__(self, action: str, path: str) -> None:
        listed = self._listed.setdefault(action, set())
        if path in listed or len(listed) >= _MAX_LISTED or "/__pycache__/" in path:
            return
        listed.add(path)
        shown = path[:_MAX_PATH_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
        self._log.emit("written", path=shown, action=action)


class Overlay:
    """The trial's view of the files: the old ones as they were, under what the trial did to them.

    Entries are absolute paths whose parent has no symbolic link in it. What stands for an entry lies at
    the same path under the folder `diverted` of the trial's, the mirror. All processes of the trial
    share what is known of the entries, by a journal in it.

    Args:
        folder: the trial's folder; what lies in it is free to change.
        tell: called with an action and a path for everything that is listed.
        redirected: the user's files, by real path, and the copies that reads shall see instead.
        quiet: folders, with a final slash, whose new files aren't listed.
        own: other folders of the trial's.
        divert_new: new files and folders go to the mirror too, as nothing can be made where they belong.

    Attributes:
        known: what became of entries: REMOVED, where the script deleted what is still there, or the kind of
            what stands for it in the mirror, a FOLDER, a LINK or a "file". What is in such a folder needs no
            mention.
        active: whether a read could see anything but the files as they are.
    """

    def __init__(
        self,
        folder: str,
        tell: Callable,
        redirected: dict | None = None,
        quiet: tuple = _QUIET,
        own: tuple = (),
        divert_new: bool = False,
    ) -> None:
        self.folder = real_path(folder)
        self.mirror = f"{self.folder}/diverted"
        self.tell = tell
        self.known: dict = {}
        self._leading = 0  # folders and links among them: paths lead elsewhere by these
        self.redirected = {real_path(path): copy for path, copy in (redirected or {}).items()}
        self.active = bool(self.redirected)
        self.locator = Locator(self.mirror)
        self._divert_new = divert_new
        named = [*own, *(os.environ.get(name) for name in _CACHES)]
        self._own = (f"{self.folder}/", *(f"{real_path(path)}/" for path in named if path))
        temporary = os.environ.get("TMPDIR")
        self._made_in_place = ("/dev/shm/", *((f"{real_path(temporary)}/",) if temporary else ()))
        self._quiet = (*quiet, *self._own)
        self._made: dict = {}
        self._expected: set = set()
        self._changed_names: dict = {}
        self.journal = Journal(f"{self.mirror}/{_JOURNAL}", self._apply)
        self.sync()

    def sync(self) -> None:
        if self.journal.has_news:
            with self.journal:
                pass

    @property
    def is_plain(self) -> bool:
        """Whether reads see the files as they are."""
        if self.journal.has_news:
            self.sync()
        return not self.active

    def _apply(self, action: str, entry: str, *more: Any) -> None:
        if action == "made":
            self._made[entry] = more
            return
        if action == "moved":
            self._take_below(entry, more[0])
            return
        if more == (FOLDER,):
            self._take_below(entry, None)
        self._set(entry, more[0] if action == "put" else REMOVED if action == "hide" else None)
        self._note_change(entry)

    def _set(self, entry: str, kind: str | None) -> None:
        before = self.known.pop(entry, None)
        if kind is not None:
            self.known[entry] = kind
        self._leading += (kind in _LEADING) - (before in _LEADING)

    def _take_below(self, folder: str, goal: str | None) -> None:
        """Rename what is known of the entries in a folder, or forget it."""
        start = f"{folder}/"
        for entry in [entry for entry in self.known if entry.startswith(start)]:
            kind = self.known[entry]
            self._set(entry, None)
            if goal is not None:
                self._set(goal + entry[len(folder) :], kind)
        if goal is not None:
            for entry in [entry for entry in self._made if entry.startswith(start) or entry == folder]:
                self._made[goal + entry[len(folder) :]] = self._made.pop(entry)
            for entry in self.known:
                if entry.startswith(f"{goal}/"):
                    self._note_change(entry)

    def _note_change(self, entry: str) -> None:
        parent, _, name = entry.rpartition("/")
        self._changed_names.setdefault(parent or "/", set()).add(name)
        self.locator.readlink = self._readlink if self._leading else None
        self.locator.forget()
        self.active = True

    # --- what is what ----------------------------------------------------------------------

    def find(self, path: Any, dir_fd: int | None = None, cached: bool = False) -> tuple:
        """Return the entry of a path, and whether the operating system would look elsewhere for it."""
        if self.journal.has_news:
            self.sync()
        return self.locator.find(path, dir_fd, cached)

    def is_free(self, entry: str) -> bool:
        """Return whether the entry is the trial's own, or no file at all."""
        if entry.startswith("/dev/"):
            return not entry.startswith("/dev/shm/")
        return entry == self.folder or entry.startswith((*self._own, *_NOT_FILES))

    def is_in_new_folder(self, entry: str) -> bool:
        """Return whether the entry lies in a folder of the script's that is in the mirror."""
        if self._leading:
            at = entry.rfind("/")
            while at > 0:
                if self.known.get(entry[:at]) == FOLDER:
                    return True
                at = entry.rfind("/", 0, at)
        return False

    def is_removed(self, entry: str) -> bool:
        """Return whether the script deleted what is there still."""
        return self.known.get(entry) == REMOVED

    def has_copy(self, entry: str) -> bool:
        """Return whether something in the mirror stands for the entry itself."""
        return self.known.get(entry, REMOVED) != REMOVED

    def is_diverted(self, entry: str) -> bool:
        """Return whether the mirror holds what the script finds at the entry."""
        return self.has_copy(entry) or self.is_in_new_folder(entry)

    def copy_of(self, entry: str) -> str:
        return f"{self.mirror}{entry}"

    def physical(self, entry: str) -> str:
        return self.copy_of(entry) if self.is_diverted(entry) else entry

    def goes_to_mirror(self, entry: str) -> bool:
        """Return whether something new at the entry has to be made in the mirror."""
        return self._divert_new and not entry.startswith(self._made_in_place)

    def existed(self, entry: str) -> bool:
        """Return whether the entry itself, not what it links to, is none that this trial made.

        What nobody saw the trial make counts as old, except in a folder that it made.
        """
        status = status_of(entry)
        return status is not None and not self.is_free(entry) and not self._is_made(entry, status)

    def _is_made(self, entry: str, status: os.stat_result) -> bool:
        self.sync()
        if entry in self._expected:
            self.born(entry)
        if entry in self._made:
            return self._made[entry] == (status.st_dev, status.st_ino)
        at = entry.rfind("/")
        while at > 0:
            known = self._made.get(entry[:at])
            found = status_of(entry[:at]) if known else None
            if found is not None:
                return known == (found.st_dev, found.st_ino)
            at = entry.rfind("/", 0, at)
        return False

    def is_visible(self, entry: str) -> bool:
        """Return whether the script finds something at the entry."""
        return not self.is_removed(entry) and status_of(self.physical(entry)) is not None

    def has_folder(self, entry: str) -> bool:
        return not self.is_removed(entry) and is_folder(status_of(self.physical(entry)))

    def names_in(self, folder: str, physical: list) -> list:
        """Return the names that the script finds in a folder that physically holds some names."""
        changed = () if self.is_diverted(folder) else self._changed_names.get(folder)
        if not changed:
            return physical
        start = "" if folder == "/" else folder
        hidden = {name for name in changed if self.is_removed(f"{start}/{name}")}
        added = [name for name in changed if self.has_copy(f"{start}/{name}")]
        kept = [name for name in physical if name not in hidden]
        new = sorted(set(added) - set(kept))
        return kept + [name for name in new if status_of(self.copy_of(f"{start}/{name}")) is not None]

    def changes(self, folder: str) -> bool:
        """Return whether the script finds something else in the folder than it physically holds."""
        return bool(self._changed_names.get(folder)) or self.is_diverted(folder)

    def _readlink(self, entry: str) -> str:
        if self.is_removed(entry):
            raise FileNotFoundError(entry)
        return posix.readlink(self.physical(entry))

    def follow(self, entry: str, is_elsewhere: bool = False) -> tuple:
        """Return where an entry leads the script, and whether the operating system would look elsewhere.

        Raises:
            Answer: it leads in a circle.
        """
        try:
            self._readlink(entry)
        except OSError:
            return entry, is_elsewhere
        real = self.locator.outside(real_path(entry, self._readlink))
        try:
            self._readlink(real)
        except OSError:
            return real, is_elsewhere or (self.locator.readlink is not None and real != real_path(entry))
        raise answer(errno.ELOOP, entry)

    # --- reading and writing ---------------------------------------------------------------

    def read_path(self, path: Any, dir_fd: int | None = None, follows: bool = True) -> str | None:
        """Return what to read instead of the path, None for the path itself.

        Raises:
            Answer: the script deleted it.
        """
        if isinstance(path, int):
            return None
        entry, is_elsewhere = self.find(path, dir_fd, cached=True)
        if entry is None:
            return None
        if follows:
            entry, is_elsewhere = self.follow(entry, is_elsewhere)
        if self.is_removed(entry):
            raise answer(errno.ENOENT, path)
        if self.is_diverted(entry):
            return self.copy_of(entry)
        return self.redirected.get(entry) or (entry if is_elsewhere else None)

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
            keep: the old content matters; the write doesn't start with an empty file.
            create: a missing file is made.
            exclusive: an existing file is an error.
            always: divert a new file too.

        Returns:
            The path to open, None for the path itself; and an entry for `born`, or None.

        Raises:
            Answer: the operating system's error, or a denial.
        """
        entry, is_elsewhere = (None, False) if isinstance(path, int) else self.find(path, dir_fd)
        if entry is None:
            return None, None
        if not exclusive:
            entry, is_elsewhere = self.follow(entry, is_elsewhere)
        here = entry if is_elsewhere else None
        if self.is_free(entry) or (not exclusive and self._is_made_in_place(entry)):
            return here, None
        with self.journal:
            if self.is_diverted(entry):
                if exclusive and self.is_visible(entry):
                    raise answer(errno.EEXIST, path)
                return self.copy_of(entry), None
            parent = os.path.dirname(entry)
            is_there = not self.is_removed(entry) and status_of(entry) is not None
            if is_there:
                return (self._over_found(entry, keep) if not exclusive else None) or here, None
            if self.is_removed(parent) or (self.is_removed(entry) and not create):
                raise answer(errno.ENOENT, path)
            new_goes = always or self.is_removed(entry) or self.goes_to_mirror(entry)
            if create and new_goes and self.has_folder(parent):
                return self.divert(entry, keep=False), None
            return here, entry if create else None

    def _is_made_in_place(self, entry: str) -> bool:
        """Return whether the script finds there what this trial made there, as at each line of a log."""
        if entry not in self._made or self.is_removed(entry) or self.is_diverted(entry):
            return False
        status = status_of(entry)
        return status is not None and self._is_made(entry, status)

    def _over_found(self, entry: str, keep: bool) -> str | None:
        is_file = stat.S_ISREG(posix.lstat(entry).st_mode)
        return self.divert(entry, keep) if is_file and self.existed(entry) else None

    def divert(self, entry: str, keep: bool) -> str:
        """Return the copy that stands for the entry from now on.

        Args:
            keep: start with the content that the script finds there now, else with its mode alone.

        Raises:
            Answer: the content is too large to copy.
        """
        copy = self.place(entry)
        status = None if self.is_removed(entry) else status_of(entry)
        if status is not None and status_of(copy) is None:
            if keep:
                self.copy_file(self.redirected.get(entry, entry), copy, entry)
            else:
                posix.close(posix.open(copy, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC))
                posix.chmod(copy, stat.S_IMODE(status.st_mode) | stat.S_IRUSR | stat.S_IWUSR)
        self.put(entry)
        return copy

    def copy_file(self, source: str, target: str, entry: str) -> None:
        """Copy a file with its mode and time, all at once for readers, unless it is too large."""
        if posix.stat(source).st_size > LARGEST_COPY_BYTES:
            self.deny("changing so large a file", entry, "open it for reading only")
        part = f"{self.folder}/diverting-{os.getpid()}-{threading.get_ident()}"
        copy_content(source, part)
        move(part, target)

    # --- bookkeeping; within `journal` -----------------------------------------------------

    def place(self, entry: str) -> str:
        """Return where what stands for the entry goes, free of what stood for it before."""
        copy = self.copy_of(entry)
        make_folders(os.path.dirname(copy))
        if not self.has_copy(entry) and (self.is_removed(entry) or is_folder(status_of(copy))):
            wipe(copy)
        return copy

    def put(self, entry: str) -> None:
        """Let what is in the mirror stand for the entry."""
        status = status_of(self.copy_of(entry))
        is_link = status is not None and stat.S_ISLNK(status.st_mode)
        self.journal.add("put", entry, FOLDER if is_folder(status) else LINK if is_link else "file")
        self.tell("diverted", entry)

    def drop(self, entry: str) -> None:
        """Let nothing stand for the entry any more; hide what was there before the trial."""
        if self.existed(entry):
            self.hide(entry)
        else:
            self.journal.add("drop", entry)

    def hide(self, entry: str) -> None:
        """Let the script find nothing at the entry, nor in it when it comes back."""
        self._hide(entry)
        self.tell("denied", entry)

    def _hide(self, entry: str) -> None:
        self.journal.add("hide", entry)
        for name in posix.listdir(entry) if is_folder(status_of(entry)) else ():
            if not self.is_removed(f"{entry}/{name}"):
                self._hide(f"{entry}/{name}")

    def show(self, entry: str) -> None:
        self.journal.add("drop", entry)

    def moved(self, source: str, goal: str) -> None:
        """Note that a folder of the trial's was renamed, and let what stands for its entries follow it."""
        with self.journal:
            if status_of(self.copy_of(source)) is not None:
                move(self.copy_of(source), self.place(goal))
            self.journal.add("moved", source, goal)

    # --- what is new -----------------------------------------------------------------------

    def expect(self, entry: str) -> None:
        """Note that the script is about to make an entry by a way that tells nothing afterwards."""
        if not self.is_free(entry) and not self.existed(entry):
            self._expected.add(entry)

    def born(self, entry: str | None) -> None:
        """Remember and list a new file or folder of the script's."""
        if entry is None or self.is_free(entry):
            return
        status = status_of(entry)
        if status is None:
            self.expect(entry)
            return
        self._expected.discard(entry)
        if self._made.get(entry) != (status.st_dev, status.st_ino):
            self.journal.add("made", entry, status.st_dev, status.st_ino)
        if not entry.startswith(self._quiet):
            self.tell("created", entry)

    def deny(self, what: str, entry: str, remedy: str) -> None:
        """Refuse.

        Raises:
            Answer: always, with a HarmDenied.
        """
        self.tell("denied", entry)
        raise Answer(denial(what, entry, remedy))
