"""Ways of processes, threads, signals, C functions and what runs at the end."""

import atexit
import ctypes
import multiprocessing
import os
import threading
from pathlib import Path

from catalogue import NEW, Place, check, gone, over_and_new, see, see_both, way, write_both
from torch.utils.data import DataLoader, Dataset

FORKS, ENDINGS, C = "processes", "endings", "ctypes"


def _paths(at: Place) -> tuple[str, str]:
    return str(at.old), str(at.new)


# --- processes -------------------------------------------------------------------------------


def _in_fork(act: object) -> int:
    """Run a function in a forked process and return its exit status."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    status = 1
    try:
        act()
        status = 0
    finally:
        os._exit(status)


@way(FORKS)
def daemon_forked_twice(at: Place) -> None:
    reading, writing = os.pipe()

    def leave_daemon() -> None:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            write_both(*_paths(at))

    check(_in_fork(leave_daemon) == 0, "it failed")
    os.close(writing)
    os.read(reading, 1)  # the daemon has ended
    os.close(reading)
    see_both(at)


def _multiprocess(at: Place, method: str) -> None:
    process = multiprocessing.get_context(method).Process(target=write_both, args=_paths(at))
    process.start()
    process.join()
    check(process.exitcode == 0, f"it exited with {process.exitcode}")
    see_both(at)


@way(FORKS)
def multiprocessing_spawn(at: Place) -> None:
    _multiprocess(at, "spawn")


class Writes(Dataset):
    """A data set that keeps what it has worked out, as many do."""

    def __init__(self, paths: tuple[str, str]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        write_both(*self._paths)
        return index


@way(FORKS)
def loader_worker(at: Place) -> None:
    list(DataLoader(Writes(_paths(at)), num_workers=1))
    see_both(at)


# --- endings ---------------------------------------------------------------------------------


@way(ENDINGS, at_exit=True)
def at_exit_by_a_program(at: Place) -> None:
    atexit.register(os.system, f"echo trial > '{at.old}'; echo trial > '{at.new}'")


@way(ENDINGS, at_exit=True)
def thread_that_outlives_main(at: Place) -> None:
    main = threading.main_thread()

    def write_afterwards() -> None:
        main.join()
        write_both(*_paths(at))

    threading.Thread(target=write_afterwards).start()


KEPT_OPEN: list[object] = []
"""Streams that the script never closes."""


# --- C ---------------------------------------------------------------------------------------

libc = ctypes.CDLL(None, use_errno=True)


def _ok(result: int) -> int:
    """Return the result of a C function.

    Raises:
        OSError: it failed.
    """
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@over_and_new(C)
def c_open(path: Path) -> None:
    handle = _ok(libc.open(os.fsencode(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
    _ok(libc.write(handle, NEW, len(NEW)))
    _ok(libc.close(handle))


@way(C)
def c_unlink(at: Place) -> None:
    _ok(libc.unlink(os.fsencode(at.old)))
    gone(at.old)


@way(C)
def c_rename_exchange(at: Place) -> None:
    at.new.write_bytes(NEW)
    at_working_folder, exchange = -100, 2
    _ok(
        libc.renameat2(
            at_working_folder, os.fsencode(at.new), at_working_folder, os.fsencode(at.old), exchange
        )
    )
    see(at.old)


@way(C)
def c_setxattr(at: Place) -> None:
    _ok(libc.setxattr(os.fsencode(at.old), b"user.trial", b"here", 4, 0))
    check(os.getxattr(at.old, "user.trial") == b"here", "no attribute")
