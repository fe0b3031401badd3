"""What a way to write is, and the list of all of them.

A way is a function that does to its own folder what scripts do to a user's files, and checks that it
sees what it did. Its name is the function's.
"""

import errno
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

OLD = b"what the user had\n"
NEW = b"what the trial wrote\n"
OLD_TIME_S = 1_000_000_000

Action = Callable[["Place"], None]


class UnseenError(Exception):
    """A way went through, and yet the script doesn't see what it did."""


class Place:
    """The folder of one way: files that the user has, and names that are free.

    Args:
        root: where everything lies: `user`, `home` and `tmp`.
        name: the way's.

    Attributes:
        folder: the way's own.
        old: a file with OLD in it.
        new: a name that nothing has.
        tree: a folder with files in it.
        empty: a folder with nothing in it.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._root, self._name = root, name
        self.folder = root / "user" / name
        self.old, self.new = self.folder / "old.txt", self.folder / "new.txt"
        self.tree, self.empty = self.folder / "tree", self.folder / "empty"

    def plant(self) -> None:
        """Make the files that the user has."""
        (self.tree / "deep").mkdir(parents=True)
        self.empty.mkdir()
        for path in (self.old, self.tree / "one.txt", self.tree / "deep" / "two.txt"):
            self.have(path)

    def have(self, path: Path, content: bytes = OLD) -> Path:
        """Make a file that is older than any trial."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (OLD_TIME_S, OLD_TIME_S))
        return path

    def outside(self, folder: str | Path) -> Path:
        """Return this way's name in a folder that isn't the project's; the harness looks for it."""
        return Path(folder) / f"{mark_of(self._root)}-{self._name}"


def mark_of(root: Path) -> str:
    """Return what the names of files outside the user's folder begin with."""
    return f"ways-{hashlib.sha256(str(root).encode()).hexdigest()[:12]}"


def live_in(root: Path) -> None:
    """Let this process and its children have their home, caches and temporary files below a folder."""
    for folder in (root / "user", root / "home" / ".cache", root / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    os.environ["HOME"] = str(root / "home")
    os.environ["XDG_CACHE_HOME"] = str(root / "home" / ".cache")
    os.environ["TMPDIR"] = str(root / "tmp")
    tempfile.tempdir = None  # it had been remembered


@dataclass(frozen=True)
class Way:
    """One way to write."""

    name: str
    group: str
    act: Action
    plant: Action | None = None
    at_exit: bool = False
    """Whether it acts when the training process ends, and so reports nothing."""


WAYS: dict[str, Way] = {}


def way(group: str, plant: Action | None = None, at_exit: bool = False) -> Callable[[Action], Action]:
    """Add a function to the list.

    Args:
        group: what it belongs to.
        plant: makes more files that the user has, before any trial.
        at_exit: whether it acts when the training process ends.
    """

    def add(act: Action) -> Action:
        name = act.__name__
        if name in WAYS:
            raise ValueError(f"two ways are named {name}")
        WAYS[name] = Way(name, group, act, plant, at_exit)
        return act

    return add


def over_and_new(group: str) -> Callable[[Callable[[Path], None]], Action]:
    """Add a writer to the list: it writes over a file that the user has, and makes a new one."""

    def add(write: Callable[[Path], None]) -> Action:
        @functools.wraps(write)
        def act(at: Place) -> None:
            for path in (at.old, at.new):
                write(path)
                if not path.exists() or path.read_bytes() == OLD:
                    raise UnseenError(f"{path.name} is not what was written")

        return way(group)(act)

    return add


def see(path: Path, expected: bytes = NEW) -> None:
    """Check what a file holds.

    Raises:
        UnseenError: something else.
    """
    seen = path.read_bytes()
    if seen != expected:
        raise UnseenError(f"{path.name} holds {seen[:80]!r}")


def write_both(old: str, new: str) -> None:
    """Write over a file and make a new one; here, so that a spawned process needs no more than this file."""
    for path in (old, new):
        with open(path, "wb") as stream:
            stream.write(NEW)


def see_both(at: Place) -> None:
    """Check what write_both wrote."""
    see(at.old)
    see(at.new)


def check(is_seen: object, what: str = "") -> None:
    """Check what else the script must see.

    Raises:
        UnseenError: it is not so.
    """
    if not is_seen:
        raise UnseenError(what)


def gone(path: Path) -> None:
    """Check that a file is no longer there."""
    check(not os.path.lexists(path), f"{path.name} is still there")


def run(*words: object, **options: object) -> None:
    """Run a program; it must succeed."""
    if shutil.which(str(words[0])) is None:
        raise FileNotFoundError(errno.ENOENT, "no such program", str(words[0]))
    ran = subprocess.run([str(word) for word in words], capture_output=True, **options)
    if ran.returncode:
        text = ran.stderr.decode(errors="replace").strip()[-200:]
        raise subprocess.SubprocessError(f"{words[0]} exited with {ran.returncode}: {text}")


def python(code: str, *words: object, flags: tuple[str, ...] = (), **options: object) -> None:
    """Run code in another Python, with words as its arguments."""
    run(sys.executable, *flags, "-c", code, *words, **options)
