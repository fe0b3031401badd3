"""Ways of Python's builtins, os and io."""

import io
import mmap
import os
import posix
import stat
import tempfile
from pathlib import Path

from catalogue import NEW, OLD, Place, check, gone, over_and_new, see, way

OPEN, LOW, ENTRIES, MARKS = "open", "os.open", "entries", "attributes"


# --- open ------------------------------------------------------------------------------------


@over_and_new(OPEN)
def open_a(path: Path) -> None:
    with open(path, "a") as stream:
        stream.write(NEW.decode())


@way(OPEN)
def open_x(at: Place) -> None:
    with open(at.new, "xb") as stream:
        stream.write(NEW)
    see(at.new)


@way(OPEN)
def open_r_plus(at: Place) -> None:
    with open(at.old, "r+b") as stream:
        stream.write(b"WHAT")
    see(at.old, b"WHAT" + OLD[4:])


@over_and_new(OPEN)
def open_with_opener(path: Path) -> None:
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        stream.write(NEW)


@over_and_new(OPEN)
def open_by_proc_root(path: Path) -> None:
    with open(f"/proc/self/root{path}", "wb") as stream:
        stream.write(NEW)


@way(OPEN, plant=lambda at: (at.folder / "link.txt").symlink_to("old.txt"))
def open_users_symlink(at: Place) -> None:
    with open(at.folder / "link.txt", "wb") as stream:
        stream.write(NEW)
    see(at.old)


@way(OPEN, plant=lambda at: os.link(at.old, at.folder / "twin.txt"))
def open_users_hard_link(at: Place) -> None:
    with open(at.folder / "twin.txt", "wb") as stream:
        stream.write(NEW)
    see(at.folder / "twin.txt")


@over_and_new(OPEN)
def io_file_io(path: Path) -> None:
    with io.FileIO(path, "w") as stream:
        stream.write(NEW)


@over_and_new(OPEN)
def mkstemp_and_replace(path: Path) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    os.write(handle, NEW)
    os.close(handle)
    os.replace(name, path)


# --- os.open and descriptors -----------------------------------------------------------------


def _by_flags(path: Path, flags: int, **options: int) -> None:
    handle = os.open(path, flags, **options)
    try:
        os.write(handle, NEW)
    finally:
        os.close(handle)


@over_and_new(LOW)
def os_open_creat_trunc(path: Path) -> None:
    _by_flags(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode=0o600)


@way(LOW)
def os_open_trunc_without_creat(at: Place) -> None:
    _by_flags(at.old, os.O_WRONLY | os.O_TRUNC)
    see(at.old)


@over_and_new(LOW)
def os_open_dir_fd(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        handle = os.open(path.name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=folder)
        os.write(handle, NEW)
        os.close(handle)
    finally:
        os.close(folder)


@way(LOW)
def os_open_unnamed_and_link(at: Place) -> None:
    handle = os.open(at.folder, os.O_TMPFILE | os.O_WRONLY, 0o600)
    os.write(handle, NEW)
    folder = os.open(at.folder, os.O_RDONLY | os.O_DIRECTORY)
    os.link(f"/proc/self/fd/{handle}", "new.txt", dst_dir_fd=folder, follow_symlinks=True)
    os.close(handle)
    os.close(folder)
    see(at.new)


@over_and_new(LOW)
def posix_open(path: Path) -> None:
    handle = posix.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    posix.write(handle, NEW)
    posix.close(handle)


@way(LOW)
def os_truncate(at: Place) -> None:
    os.truncate(at.old, 4)
    see(at.old, OLD[:4])


@way(LOW)
def mmap_write(at: Place) -> None:
    with open(at.old, "r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
        mapped[0:4] = b"WHAT"
        mapped.flush()
    see(at.old, b"WHAT" + OLD[4:])


# --- entries ---------------------------------------------------------------------------------


@way(ENTRIES)
def os_remove(at: Place) -> None:
    os.remove(at.old)
    gone(at.old)


@way(ENTRIES)
def posix_unlink(at: Place) -> None:
    posix.unlink(at.old)
    gone(at.old)


@way(ENTRIES)
def os_rmdir(at: Place) -> None:
    os.rmdir(at.empty)
    gone(at.empty)


@way(ENTRIES)
def os_rename_folder(at: Place) -> None:
    os.rename(at.tree, at.folder / "moved")
    gone(at.tree)
    see(at.folder / "moved" / "deep" / "two.txt", OLD)


@way(ENTRIES)
def os_replace_old_by_new(at: Place) -> None:
    at.new.write_bytes(NEW)
    os.replace(at.new, at.old)
    see(at.old)
    gone(at.new)


@way(ENTRIES)
def os_link_and_write_through(at: Place) -> None:
    os.link(at.old, at.new)
    at.new.write_bytes(NEW)
    see(at.new)


@way(ENTRIES)
def os_symlink_and_write_through(at: Place) -> None:
    os.symlink(at.old, at.new)
    at.new.write_bytes(NEW)
    see(at.old)


@way(ENTRIES)
def os_makedirs(at: Place) -> None:
    os.makedirs(at.new / "a" / "b")
    check((at.new / "a" / "b").is_dir(), "no folder")


# --- attributes ------------------------------------------------------------------------------


@way(MARKS)
def os_fchmod(at: Place) -> None:
    with open(at.old, "rb") as stream:
        os.fchmod(stream.fileno(), 0o600)
    check(stat.S_IMODE(at.old.stat().st_mode) == 0o600, oct(at.old.stat().st_mode))


@way(MARKS)
def os_utime(at: Place) -> None:
    os.utime(at.old, (5, 5))
    check(at.old.stat().st_mtime == 5, str(at.old.stat().st_mtime))


@way(MARKS)
def os_setxattr(at: Place) -> None:
    os.setxattr(at.old, "user.trial", b"here")
    check(os.getxattr(at.old, "user.trial") == b"here", "no attribute")
