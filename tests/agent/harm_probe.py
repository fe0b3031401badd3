"""Runs file operations on a tree, as it is or under the guard, and tells what they gave.

Reads one JSON request per line, answers each with one line, and forks for each, because an audit
hook can't be taken away. Request: root, trial (None: no guard), ops.
"""

import errno
import json
import os
import posix
import shutil
import sys
import time


class SilentLog:
    def emit(self, event, **fields):
        if event == "guard_error":
            raise AssertionError(fields["message"])


def wait_past(moment_s, folder):
    """Return once a new file's change time is after the moment; the kernel's clock has coarse ticks."""
    probe = os.path.join(folder, "clock")
    while True:
        with open(probe, "w"):
            pass
        if os.stat(probe).st_ctime > moment_s:
            return


def act(op, *args):
    if op == "write":
        with open(args[0], args[1]) as stream:
            return stream.write(args[2])
    if op == "read":
        with open(args[0]) as stream:
            return stream.read()
    if op == "os_write":
        flags = getattr(os, args[1]) | os.O_WRONLY | os.O_CREAT
        handle = os.open(args[0], flags, 0o644)
        try:
            return os.write(handle, args[2].encode())
        finally:
            os.close(handle)
    if op == "list":
        return sorted(os.listdir(args[0]))
    if op == "scan":
        with os.scandir(args[0]) as entries:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    if op == "walk":
        return sorted([folder, sorted(folders), sorted(names)] for folder, folders, names in os.walk(args[0]))
    if op == "size":
        return os.path.getsize(args[0])
    if op == "exists":
        return [os.path.exists(args[0]), os.path.isdir(args[0]), os.path.isfile(args[0])]
    if op == "rmtree":
        return shutil.rmtree(args[0])
    if op == "copy":
        shutil.copy2(args[0], args[1])
        return None
    return getattr(os, op)(*[tuple(arg) if isinstance(arg, list) else arg for arg in args])


def attempt(op, *args):
    try:
        return act(op, *args)
    except OSError as error:
        return f"OSError {errno.errorcode.get(error.errno, error.errno)}"


def run(request):
    os.chdir(request["root"])
    if request["trial"]:
        from _tunekit_agent import harm

        started_at_s = time.time()
        wait_past(started_at_s, request["trial"])
        harm.install(
            request["trial"], request["trial"], started_at_s, request.get("redirected", {}), SilentLog()
        )
    return [attempt(*op) for op in request["ops"]]


def main():
    for line in sys.stdin:
        request = json.loads(line)
        receiving, sending = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receiving)
            try:
                told = json.dumps(run(request), default=str)
            except BaseException as error:
                told = json.dumps(f"{type(error).__name__}: {error}")
            os.write(sending, told.encode())
            posix._exit(0)
        os.close(sending)
        with os.fdopen(receiving) as stream:
            print(stream.read(), flush=True)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
