"""Starts a trial's command and outlives it, so that nothing the command started is left behind.

It runs as a script that uses only the standard library:

    python -I -S keeper.py OUTPUT_LOG SCRATCH_FOLDER -- COMMAND...

Standard input is the parent's leash: when it closes, or the target ends, every descendant is ended,
including daemons, and the scratch folder and their files in /dev/shm are removed. One JSON line on standard
output then says how the target ended, and how many processes it had left running. If the keeper itself is
killed, tunekit ends the remaining processes (`processes`).

The target writes into a pipe that is drained even if the log can't be written, so that it never blocks; the
log keeps the beginning and the end of the output.
"""

import contextlib
import ctypes
import fcntl
import glob
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# If killed before their owners, these leak the semaphores and shared memory that they should clean up.
TRACKERS = (b"multiprocessing.resource_tracker", b"torch_shm_manager")
TRACKER_GRACE_S = 1.0
SHARED_MEMORY = "/dev/shm"
NCCL_SEGMENTS = "nccl-"
LOOK_EVERY_S = 1.0
END_LIMIT_S = 10.0
LOG_HEAD_BYTES, LOG_TAIL_BYTES = 1 << 20, 4 << 20
PIPE_BYTES = 1 << 20
MAX_LAST_READS = 1000
F_SETPIPE_SZ = 1031

libc = ctypes.CDLL(None)


def children_of(pid: int) -> list[int]:
    """Return the pids of the children of all of a process's threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as stream:
                found += [int(word) for word in stream.read().split()]
    return found


def descendants(root: int) -> list[int]:
    """Return the pids of all descendants of a process."""
    found: list[int] = []
    waiting = children_of(root)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children_of(pid)
    return found


def is_tracker(pid: int) -> bool:
    """Return whether a process only cleans up its owners' shared memory."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as stream:
        command = stream.read()
        return any(name in command for name in TRACKERS)
    return False


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


def remove_tree(path: str) -> None:
    """Remove a folder of any depth and permissions; for a link, only the link."""
    remove = ["rm", "-rf", "--", path]
    unlock = ["find", path, "-type", "d", "!", "-perm", "-700", "-exec", "chmod", "u+rwx", "{}", ";"]
    # Overlayfs and scripts may leave folders without any permissions.
    for words in (remove, unlock, remove):
        if os.path.lexists(path):
            with contextlib.suppress(OSError):
                subprocess.run(words, stderr=subprocess.DEVNULL, check=False)


def remove_shared_memory(pids: set[int], kept: frozenset[str]) -> None:
    """Remove the files in /dev/shm that torch had not yet unlinked when its processes were killed."""
    for pid in pids:
        for path in set(glob.glob(f"{SHARED_MEMORY}/torch_{pid}_*")) - kept:
            with contextlib.suppress(OSError):
                os.unlink(path)


class NcclSegments:
    """NCCL's files in /dev/shm that a trial's ranks share; killed ranks leave them, and no name says whose.

    A file belongs to the trial if one of the trial's processes was seen to map it.

    Args:
        before: paths in /dev/shm from before the trial, which are never removed.
    """

    def __init__(self, before: Iterable[str] = ()) -> None:
        self.before = frozenset(before)
        self._trial_segments: dict[str, str] = {}
        self._look_at = 0.0

    def look(self, found: Callable[[], list[int]], *, at_once: bool = False) -> None:
        """Find out which segments are the trial's, at most once a second.

        Args:
            found: returns the pids of the trial's processes.
            at_once: look now, however recent the last look was.
        """
        now = time.monotonic()
        if now < self._look_at and not at_once:
            return
        self._look_at = now + LOOK_EVERY_S
        known = self.before | self._trial_segments.keys()
        new = {path: name for path, name in nccl_segments().items() if path not in known}
        mapped = {name for pid in found() for name in mapped_inodes(pid)} if new else ()
        self._trial_segments.update((path, name) for path, name in new.items() if name in mapped)

    def remove(self) -> None:
        """Remove the remaining segments."""
        there = nccl_segments()
        for path, name in self._trial_segments.items():
            if there.get(path) == name:
                with contextlib.suppress(OSError):
                    os.unlink(path)
        self._trial_segments = {}


def nccl_segments() -> dict[str, str]:
    """Return NCCL's files in /dev/shm, each with its device and inode as /proc/PID/maps writes them."""
    found = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(SHARED_MEMORY):
            if entry.name.startswith(NCCL_SEGMENTS):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
                    found[entry.path] = f"{device} {status.st_ino}"
    return found


def mapped_inodes(pid: int) -> set[str]:
    """Return the device and inode of every file that a process has mapped."""
    try:
        with open(f"/proc/{pid}/maps", errors="replace") as stream:
            return {" ".join(line.split(None, 5)[3:5]) for line in stream}
    except OSError:
        return set()


class OutputLog:
    """A file that keeps the beginning and the end of what is drained from a pipe.

    Its size never exceeds the head, twice the tail and one read.

    Args:
        path: the file to create.
        pipe: the reading end, which is made non-blocking.
        head_bytes: size of the beginning that is kept.
        tail_bytes: minimum size of the end that is kept.
    """

    def __init__(
        self, path: str, pipe: int, head_bytes: int = LOG_HEAD_BYTES, tail_bytes: int = LOG_TAIL_BYTES
    ) -> None:
        self.pipe = pipe
        self._head_bytes, self._tail_bytes = head_bytes, tail_bytes
        os.set_blocking(pipe, False)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._size = self._left_out = 0
        self._tail_from = head_bytes
        self.closed = False

    def take(self) -> bool:
        """Move the pipe's content into the log; return whether there was any."""
        try:
            data = os.read(self.pipe, PIPE_BYTES)
        except BlockingIOError:
            return False
        self.closed = not data
        with contextlib.suppress(OSError):  # a full disk costs the log, not the trial
            while data:
                written = os.pwrite(self._file, data, self._size)
                self._size += written
                data = data[written:]
            if self._size > self._head_bytes + 2 * self._tail_bytes:
                self._cut()
        return not self.closed

    def _cut(self) -> None:
        """Replace the middle with a line that says how much was left out."""
        kept_from = self._size - self._tail_bytes
        self._left_out += kept_from - self._tail_from
        tail = os.pread(self._file, self._tail_bytes, kept_from)
        notice = b"\n[tunekit left out %d bytes here]\n" % self._left_out
        os.ftruncate(self._file, self._head_bytes)
        self._tail_from = self._head_bytes + len(notice)
        self._size = self._head_bytes + os.pwrite(self._file, notice + tail, self._head_bytes)


def end_all(
    found: Callable[[], list[int]], collect: Callable[[], object], segments: NcclSegments | None = None
) -> None:
    """End processes, trackers last, and remove their files in /dev/shm.

    Args:
        found: returns the pids of the remaining processes.
        collect: reaps ended processes; called repeatedly.
        segments: the NCCL segments known so far.
    """
    segments = segments or NcclSegments()
    segments.look(found, at_once=True)
    started = time.monotonic()
    ended: set[int] = set()
    while time.monotonic() - started < END_LIMIT_S:
        left = found()
        ended.update(left)
        ordinary = [pid for pid in left if not is_tracker(pid)]
        trackers_had_time = time.monotonic() - started > TRACKER_GRACE_S
        for pid in left if trackers_had_time else ordinary:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        collect()
        if not left:
            break
        time.sleep(0.01)
    remove_shared_memory(ended, segments.before)
    segments.remove()


def end_tree(target: int, log: OutputLog, segments: NcclSegments) -> None:
    """End every descendant, and log their last output."""

    def collect() -> None:
        reap(target)
        log.take()  # a tracker that blocks on a full pipe would never end

    end_all(lambda: descendants(os.getpid()), collect, segments)
    for _ in range(MAX_LAST_READS):  # a process that could not be ended may still write
        if not log.take():
            break


def start(output: int, command: list[str]) -> subprocess.Popen[bytes]:
    """Start the command in its own session, with its output in the pipe; it dies with this process."""

    def in_child() -> None:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, close_fds=True, preexec_fn=in_child
    )


def follow(target: int, log: OutputLog, segments: NcclSegments, wake: int) -> int | None:
    """Drain the pipe until the target ends; return its wait status, or None if the leash closed first."""
    while True:
        watched = [sys.stdin, wake] + ([] if log.closed else [log.pipe])
        ready, _, _ = select.select(watched, [], [], LOOK_EVERY_S)
        segments.look(lambda: descendants(os.getpid()))
        if log.pipe in ready:
            log.take()
        if wake in ready:
            os.read(wake, 4096)
            status = reap(target)
            if status is not None:
                return status
        if sys.stdin in ready:
            return None


def report(**outcome: object) -> None:
    """Write the final line; the parent may be gone."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(outcome).encode() + b"\n")


def main() -> None:
    """Keep one command until it ends or the leash closes."""
    log_path, scratch, command = sys.argv[1], sys.argv[2], sys.argv[4:]
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for survived in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(survived, lambda *_: None)  # not SIG_IGN, which the target would inherit
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write)
    output_read, output_write = os.pipe()
    with contextlib.suppress(OSError):
        fcntl.fcntl(output_write, F_SETPIPE_SZ, PIPE_BYTES)
    log, segments = OutputLog(log_path, output_read), NcclSegments(glob.glob(f"{SHARED_MEMORY}/*"))
    try:
        process = start(output_write, command)  # a garbage-collected Popen would reap the child itself
    except OSError as error:
        remove_tree(scratch)
        report(returncode=None, error=error.strerror, left=0)
        return
    os.close(output_write)
    status = follow(process.pid, log, segments, wake_read)
    left = 0 if status is None else sum(not is_tracker(pid) for pid in descendants(os.getpid()))
    end_tree(process.pid, log, segments)
    remove_tree(scratch)
    returncode = None if status is None else os.waitstatus_to_exitcode(status)
    report(returncode=returncode, error=None, left=left)


if __name__ == "__main__":
    main()
