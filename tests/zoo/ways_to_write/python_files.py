"""Ways of Python's builtins, os and io."""

import _io
import codecs
import fileinput
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
def open_w(path: Path) -> None:
    with open(path, "w") as stream:
        stream.write(NEW.decode())


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
def open_w_plus(path: Path) -> None:
    with open(path, "w+b") as stream:
        stream.write(NEW)


@over_and_new(OPEN)
def open_a_plus(path: Path) -> None:
    with open(path, "a+") as stream:
        stream.write(NEW.decode())


@over_and_new(OPEN)
def open_unbuffered(path: Path) -> None:
    with open(path, "wb", buffering=0) as stream:
        stream.write(NEW)


@over_and_new(OPEN)
def open_with_opener(path: Path) -> None:
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        stream.write(NEW)


@over_and_new(OPEN)
def open_with_bytes_path(path: Path) -> None:
    with open(os.fsencode(path), "wb") as stream:
        stream.write(NEW)


@over_and_new(OPEN)
def open_with_dots_in_path(path: Path) -> None:
    with open(f"{path.parent}/tree/../{path.name}", "wb") as stream:
        stream.write(NEW)


@over_and_new(OPEN)
def open_in_working_folder(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        with open(path.name, "wb") as stream:
            stream.write(NEW)
    finally:
        os.chdir(before)


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
def io_open(path: Path) -> None:
    with io.open(path, "wb") as stream:  # noqa: UP020 - another name of the same function
        stream.write(NEW)


@over_and_new(OPEN)
def io_file_io(path: Path) -> None:
    with io.FileIO(path, "w") as stream:
        stream.write(NEW)


@way(OPEN)
def io_file_io_r_plus(at: Place) -> None:
    with io.BufferedRandom(io.FileIO(at.old, "r+")) as stream:
        stream.write(b"WHAT")
    see(at.old, b"WHAT" + OLD[4:])


@over_and_new(OPEN)
def underscore_io_open(path: Path) -> None:
    with _io.open(path, "wb") as stream:
        stream.write(NEW)


@over_and_new(OPEN)
def codecs_open(path: Path) -> None:
    with codecs.open(str(path), "w", "utf-8") as stream:
        stream.write(NEW.decode())


@way(OPEN)
def fileinput_in_place(at: Place) -> None:
    with fileinput.input(at.old, inplace=True, backup=".bak") as lines:
        for line in lines:
            print(line.upper(), end="")
    see(at.old, OLD.upper())


@over_and_new(OPEN)
def mkstemp_and_replace(path: Path) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    os.write(handle, NEW)
    os.close(handle)
    os.replace(name, path)


@way(OPEN)
def named_temporary_file_kept(at: Place) -> None:
    with tempfile.NamedTemporaryFile(dir=at.folder, delete=False) as stream:
        stream.write(NEW)
    see(Path(stream.name))


# --- os.open and descriptors -----------------------------------------------------------------


def _by_flags(path: Path, flags: int, **options: int) -> None:
    handle = os.open(path, flags, **options)
    try:
        os.write(handle, NEW)
    finally:
        os.close(handle)


@way(LOW)
def os_open_wronly(at: Place) -> None:
    _by_flags(at.old, os.O_WRONLY)
    see(at.old, NEW)


@way(LOW)
def os_open_rdwr(at: Place) -> None:
    _by_flags(at.old, os.O_RDWR)
    see(at.old, NEW)


@over_and_new(LOW)
def os_open_creat(path: Path) -> None:
    _by_flags(path, os.O_WRONLY | os.O_CREAT)


@over_and_new(LOW)
def os_open_creat_trunc(path: Path) -> None:
    _by_flags(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode=0o600)


@way(LOW)
def os_open_trunc_without_creat(at: Place) -> None:
    _by_flags(at.old, os.O_WRONLY | os.O_TRUNC)
    see(at.old)


@way(LOW)
def os_open_rdwr_trunc(at: Place) -> None:
    _by_flags(at.old, os.O_RDWR | os.O_TRUNC)
    see(at.old)


@way(LOW)
def os_open_rdonly_trunc(at: Place) -> None:
    os.close(os.open(at.old, os.O_RDONLY | os.O_TRUNC))
    see(at.old, b"")


@over_and_new(LOW)
def os_open_append(path: Path) -> None:
    _by_flags(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@way(LOW)
def os_open_append_without_creat(at: Place) -> None:
    _by_flags(at.old, os.O_WRONLY | os.O_APPEND)
    see(at.old, OLD + NEW)


@way(LOW)
def os_open_excl(at: Place) -> None:
    _by_flags(at.new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    see(at.new)


@over_and_new(LOW)
def os_open_synchronous(path: Path) -> None:
    _by_flags(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_SYNC | os.O_NOFOLLOW | os.O_CLOEXEC)


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
def os_open_path_only_and_again(at: Place) -> None:
    handle = os.open(at.old, os.O_PATH)
    try:
        _by_flags(Path(f"/proc/self/fd/{handle}"), os.O_WRONLY | os.O_TRUNC)
    finally:
        os.close(handle)
    see(at.old)


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
def os_fdopen(path: Path) -> None:
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), "wb") as stream:
        stream.write(NEW)


@over_and_new(LOW)
def posix_open(path: Path) -> None:
    handle = posix.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    posix.write(handle, NEW)
    posix.close(handle)


@way(LOW)
def os_pwrite(at: Place) -> None:
    handle = os.open(at.old, os.O_RDWR)
    os.pwrite(handle, b"HAD", 14)
    os.close(handle)
    see(at.old, OLD.replace(b"had", b"HAD"))


@way(LOW)
def os_pwritev(at: Place) -> None:
    handle = os.open(at.old, os.O_RDWR)
    os.pwritev(handle, [b"H", b"AD"], 14)
    os.close(handle)
    see(at.old, OLD.replace(b"had", b"HAD"))


@over_and_new(LOW)
def os_writev(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.writev(handle, [NEW, NEW])
    os.close(handle)


@way(LOW)
def os_truncate(at: Place) -> None:
    os.truncate(at.old, 4)
    see(at.old, OLD[:4])


@way(LOW)
def os_ftruncate(at: Place) -> None:
    handle = os.open(at.old, os.O_WRONLY)
    os.ftruncate(handle, 4)
    os.close(handle)
    see(at.old, OLD[:4])


@way(LOW)
def os_posix_fallocate(at: Place) -> None:
    for path in (at.old, at.new):
        handle = os.open(path, os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(handle, 0, 4096)
        os.close(handle)
        check(path.stat().st_size == 4096, f"{path.name} is {path.stat().st_size} long")


def _two_ends(at: Place, goal: Path) -> tuple[int, int]:
    source = os.open(at.tree / "one.txt", os.O_RDONLY)
    return source, os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)


@way(LOW)
def os_sendfile(at: Place) -> None:
    for goal in (at.tree / "deep" / "two.txt", at.new):
        source, sink = _two_ends(at, goal)
        os.sendfile(sink, source, 0, 4)
        os.close(source)
        os.close(sink)
        see(goal, OLD[:4])


@way(LOW)
def os_copy_file_range(at: Place) -> None:
    for goal in (at.tree / "deep" / "two.txt", at.new):
        source, sink = _two_ends(at, goal)
        os.copy_file_range(source, sink, 4)
        os.close(source)
        os.close(sink)
        see(goal, OLD[:4])


@way(LOW)
def os_splice(at: Place) -> None:
    for goal in (at.tree / "deep" / "two.txt", at.new):
        source, sink = _two_ends(at, goal)
        reading, writing = os.pipe()
        os.splice(source, writing, 4)
        os.splice(reading, sink, 4)
        for handle in (source, sink, reading, writing):
            os.close(handle)
        see(goal, OLD[:4])


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
def os_unlink_dir_fd(at: Place) -> None:
    folder = os.open(at.folder, os.O_RDONLY | os.O_DIRECTORY)
    os.unlink("old.txt", dir_fd=folder)
    os.close(folder)
    gone(at.old)


@way(ENTRIES)
def posix_unlink(at: Place) -> None:
    posix.unlink(at.old)
    gone(at.old)


@way(ENTRIES)
def os_rmdir(at: Place) -> None:
    os.rmdir(at.empty)
    gone(at.empty)


@way(ENTRIES, plant=lambda at: (at.empty / "a" / "b").mkdir(parents=True))
def os_removedirs(at: Place) -> None:
    os.removedirs(at.empty / "a" / "b")
    gone(at.empty)


@way(ENTRIES)
def os_rename_away(at: Place) -> None:
    os.rename(at.old, at.new)
    gone(at.old)
    see(at.new, OLD)


@way(ENTRIES)
def os_rename_dir_fd(at: Place) -> None:
    folder = os.open(at.folder, os.O_RDONLY | os.O_DIRECTORY)
    os.rename("old.txt", "new.txt", src_dir_fd=folder, dst_dir_fd=folder)
    os.close(folder)
    gone(at.old)
    see(at.new, OLD)


@way(ENTRIES)
def os_rename_folder(at: Place) -> None:
    os.rename(at.tree, at.folder / "moved")
    gone(at.tree)
    see(at.folder / "moved" / "deep" / "two.txt", OLD)


@way(ENTRIES)
def os_renames(at: Place) -> None:
    os.renames(at.tree / "deep" / "two.txt", at.folder / "made" / "two.txt")
    gone(at.tree / "deep")
    see(at.folder / "made" / "two.txt", OLD)


@way(ENTRIES)
def os_replace_old_by_old(at: Place) -> None:
    os.replace(at.tree / "one.txt", at.old)
    gone(at.tree / "one.txt")
    see(at.old, OLD)


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
def os_symlink_of_folder_and_write_through(at: Place) -> None:
    os.symlink(at.tree, at.folder / "other")
    (at.folder / "other" / "one.txt").write_bytes(NEW)
    see(at.tree / "one.txt")


@way(ENTRIES)
def os_mkdir(at: Place) -> None:
    os.mkdir(at.new)
    check(at.new.is_dir(), "no folder")


@way(ENTRIES)
def os_makedirs(at: Place) -> None:
    os.makedirs(at.new / "a" / "b")
    check((at.new / "a" / "b").is_dir(), "no folder")


@way(ENTRIES)
def os_mkfifo(at: Place) -> None:
    os.mkfifo(at.new)
    check(stat.S_ISFIFO(at.new.stat().st_mode), "no pipe")


@way(ENTRIES)
def os_mknod(at: Place) -> None:
    os.mknod(at.new, stat.S_IFREG | 0o644)
    see(at.new, b"")


# --- attributes ------------------------------------------------------------------------------


@way(MARKS)
def os_chmod(at: Place) -> None:
    os.chmod(at.old, 0o600)
    check(stat.S_IMODE(at.old.stat().st_mode) == 0o600, oct(at.old.stat().st_mode))


@way(MARKS)
def os_chmod_folder(at: Place) -> None:
    os.chmod(at.tree, 0o700)
    check(stat.S_IMODE(at.tree.stat().st_mode) == 0o700, oct(at.tree.stat().st_mode))


@way(MARKS)
def os_fchmod(at: Place) -> None:
    with open(at.old, "rb") as stream:
        os.fchmod(stream.fileno(), 0o600)
    check(stat.S_IMODE(at.old.stat().st_mode) == 0o600, oct(at.old.stat().st_mode))


@way(MARKS, plant=lambda at: os.chmod(at.old, 0o4755))
def os_chown_clears_setuid(at: Place) -> None:
    os.chown(at.old, os.getuid(), os.getgid())
    check(not at.old.stat().st_mode & stat.S_ISUID, oct(at.old.stat().st_mode))


@way(MARKS)
def os_utime(at: Place) -> None:
    os.utime(at.old, (5, 5))
    check(at.old.stat().st_mtime == 5, str(at.old.stat().st_mtime))


@way(MARKS)
def os_utime_of_descriptor(at: Place) -> None:
    with open(at.old, "rb") as stream:
        os.utime(stream.fileno(), (5, 5))
    check(at.old.stat().st_mtime == 5, str(at.old.stat().st_mtime))


@way(MARKS)
def os_setxattr(at: Place) -> None:
    os.setxattr(at.old, "user.trial", b"here")
    check(os.getxattr(at.old, "user.trial") == b"here", "no attribute")


@way(MARKS, plant=lambda at: os.setxattr(at.old, "user.mine", b"here"))
def os_removexattr(at: Place) -> None:
    os.removexattr(at.old, "user.mine")
    check(os.listxattr(at.old) == [], "the attribute is still there")
