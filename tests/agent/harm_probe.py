"""Runs file operations on a tree, as it is or under the guard, and tells what they gave.

Reads one JSON request per line, answers each with one line, and forks for each, because an audit
hook can't be taken away. Arguments: modules to import before the guard. Request: root, trial
(None: no guard), ops, divert_new.
"""

import errno
import importlib
import json
import os
import posix
import shutil
import sys
import traceback


class SilentLog:
    def emit(self, event, **fields):
        if event == "guard_error":
            raise AssertionError(fields["message"])


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
    if op == "writer":
        from harm_writers import WRITERS

        return WRITERS[args[0]]()
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
    os.umask(0o022)
    if request["trial"]:
        from _tunekit_agent import file_guard

        more = {name: request[name] for name in ("divert_new",) if name in request}
        file_guard.install(
            request["trial"], request["trial"], request.get("redirected", {}), SilentLog(), **more
        )
    return [attempt(*op) for op in request["ops"]]


def main():
    for name in sys.argv[1:]:
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        receiving, sending = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receiving)
            try:
                reported = json.dumps(run(request), default=str)
            except BaseException:
                reported = json.dumps(traceback.format_exc())
            os.write(sending, reported.encode())
            posix._exit(0)
        os.close(sending)
        with os.fdopen(receiving) as stream:
            print(stream.read(), flush=True)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
