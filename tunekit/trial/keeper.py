"""Starts a trial's command and outlives it: nothing that the command started is left behind.

Run as a script with nothing but the standard library:

    python -I -S keeper.py OUTPUT_LOG SCRATCH_FOLDER -- COMMAND...

Standard input is the parent's leash: when it closes, or the target ends, every descendant is ended,
daemons included, and the scratch folder is removed. One JSON line on standard output then tells how
the target ended.
"""

import contextlib
import ctypes
import glob
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# Killed before their owners, these leak the semaphores and shared memory that they clean up.
TRACKERS = (b"multiprocessing.resource_tracker", b"torch_shm_manager")
TRACKER_GRACE_S = 1.0
END_LIMIT_S = 10.0

libc = ctypes.CDLL(None)


def children_of(pid: int) -> list[int]:
    """Return the pids of a process's children, over all its threads."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as stream:
                found += [int(word) for word in stream.read().split()]
    except OSError:
        pass
    return found


def descendants(root: int) -> list[int]:
    """Return the pids of every process below a process."""
    found: list[int] = []
    waiting = children_of(root)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children_of(pid)
    return found


def is_tracker(pid: int) -> bool:
    """Return whether a process only cleans up shared memory after its owners."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            command = stream.read()
    except OSError:
        return False
    return any(name in command for name in TRACKERS)


def reap(target: int) -> int | None:
    """Collect every ended child; return the target's raw wait status if it was among them."""
    status = None
    while True:
        try:
            pid, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == target:
            status = raw


def remove_shared_memory(pids: set[int]) -> None:
    """Remove what torch had created but not yet unlinked in /dev/shm when its process was killed."""
    for pid in pids:
        for path in glob.glob(f"/dev/shm/torch_{pid}_*"):
            with contextlib.suppress(OSError):
                os.unlink(path)


def end_tree(target: int) -> int | None:
    """End every descendant, trackers last; return the target's wait status if it was seen."""
    started = time.monotonic()
    status: int | None = None
    ended: set[int] = set()
    while time.monotonic() - started < END_LIMIT_S:
        left = descendants(os.getpid())
        ended.update(left)
        ordinary = [pid for pid in left if not is_tracker(pid)]
        trackers_had_time = time.monotonic() - started > TRACKER_GRACE_S
        for pid in left if trackers_had_time else ordinary:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        seen = reap(target)
        status = seen if seen is not None else status
        if not left:
            break
        time.sleep(0.01)
    remove_shared_memory(ended)
    return status


def start(log_path: str, command: list[str]) -> subprocess.Popen[bytes]:
    """Start the command in its own session, its output in the log; it dies with this process."""

    def in_child() -> None:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    with open(log_path, "ab", buffering=0) as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=True, preexec_fn=in_child
        )


def main() -> None:
    """Keep one command until it ends or the leash is let go."""
    log_path, scratch, command = sys.argv[1], sys.argv[2], sys.argv[4:]
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for survived in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(survived, lambda *_: None)  # not SIG_IGN, which the target would inherit
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write)
    try:
        target = start(log_path, command).pid
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        print(json.dumps({"returncode": None, "ended": False, "error": error.strerror}), flush=True)
        return
    status: int | None = None
    ended = False
    while status is None:
        ready, _, _ = select.select([sys.stdin, wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
            status = reap(target)
        if sys.stdin in ready:
            ended = True
            break
    last = end_tree(target)
    shutil.rmtree(scratch, ignore_errors=True)
    status = status if status is not None else last
    returncode = None if status is None or ended else os.waitstatus_to_exitcode(status)
    print(json.dumps({"returncode": returncode, "ended": ended, "error": None}), flush=True)


if __name__ == "__main__":
    main()
