"""Keeps a trial from changing the user's files, and frameworks from checkpointing and uploading.

If the kernel lays an overlay over every file, the files are safe, and only the frameworks need handling.
Otherwise Python's writes are redirected to the trial's folder, and its reads find them there:

    mirror      where a path leads, and what the trial wrote there
    stand_ins   how functions of the standard library are replaced
    functions   `open` and the functions in `os`
    savers      files that torch and safetensors open in C
    databases   SQLite databases
    audit       the last line of defence: refuses every write that is not redirected
    frameworks  checkpointing and uploads of Trainer, Lightning, accelerate and the hub; experiment trackers
"""

from __future__ import annotations

import builtins
import functools
import os
import tempfile
from typing import Any, Callable

from .. import imports
from . import audit, databases, functions, savers
from .mirror import Mirror, resolve
from .stand_ins import Replacements

_READ_MODES = frozenset(("r", "rb", "br", "rt", "tr"))
_MAX_REPORTED = 500
_MAX_CHARACTERS = 4096


def install(folder: str, writable: list, log: Any) -> None:
    """Guard the user's files in this process and its forked children.

    Args:
        folder: the trial's folder.
        writable: other folders that the trial may write to; the first is for short-lived files.
        log: receives an event for each refused write.
    """
    refused = report_once(lambda path: log.emit("written", path=path, action="denied"))
    failed = report_once(lambda message: log.emit("guard_error", message=message))
    mirror = Mirror(folder, tuple(writable), refused)
    savers.install(mirror, failed)
    databases.install(mirror, failed)
    imports.when_imported("multiprocessing.util", functools.partial(_move_sockets, writable[0]))
    functions.install(mirror, failed)
    audit.install(mirror)


def _move_sockets(folder: str, module: Any) -> None:
    """Have multiprocessing create its sockets in a writable folder: `bind` can't be redirected."""
    original = module.get_temp_dir

    @functools.wraps(original)
    def get_temp_dir():
        config = module.process.current_process()._config
        if config.get("tempdir") is None:
            config["tempdir"] = tempfile.mkdtemp(prefix="pymp-", dir=folder)
        return original()

    module.get_temp_dir = get_temp_dir


def redirect(redirected: dict) -> None:
    """Make `open` read rewritten copies of some of the user's files.

    The redirection is permanent: a script may read its config again, or copy it next to its results.
    """
    if not redirected:
        return
    copies = {resolve(os.path.abspath(path)): copy for path, copy in redirected.items()}
    original = builtins.open

    @functools.wraps(original)
    def redirected_open(file, mode="r", *args, **kwargs):
        if mode in _READ_MODES and isinstance(file, (str, bytes, os.PathLike)):
            copy = _copy_of(file, copies)
            if copy is not file:
                file = copy
                kwargs.pop("opener", None)  # Python 3.9's pathlib would open the original with it
        return original(file, mode, *args, **kwargs)

    replaced = Replacements()
    replaced.add(original, redirected_open)
    replaced.put_in_place()


def _copy_of(file: Any, copies: dict) -> Any:
    try:
        return copies.get(resolve(os.path.abspath(os.fsdecode(file))), file)
    except Exception:  # the real open gives a better error for a bad path
        return file


def report_once(emit: Callable) -> Callable:
    """Return a function that emits each text once, up to a limit."""
    reported: set = set()

    def report(text: str) -> None:
        if text not in reported and len(reported) < _MAX_REPORTED and "/__pycache__" not in text:
            reported.add(text)
            emit(text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8"))

    return report
