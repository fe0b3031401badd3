"""A trial leaves what the user had as it was, and lets the script believe otherwise.

Writes over old files go to copies in the trial's folder, deletions only hide, and the script sees
both; checkpoints always go to the trial's folder; frameworks don't checkpoint, rotate or upload.
What gets past that is refused. The parts, from the inside out:

    paths       where a path really leads
    overlay     what the script sees in place of what it had
    journal     what all processes of the trial know of that
    stand_ins   how functions of the standard library are replaced
    files       opening, looking, listing
    directories deleting, renaming, linking, marking
    savers      torch's and safetensors' own writers
    databases   SQLite's
    frameworks  checkpointing and uploads of Trainer, Lightning, accelerate and the hub
    audit       the net: whatever went past the replaced functions

New files are left where the script puts them, and are listed; or, where nothing can be made there, they
go to the trial's folder too. Programs that are no Python, and libraries that write
old files from C without asking Python, are not guarded.
"""

from __future__ import annotations

import builtins
import functools
import os
import tempfile
from typing import Any, Callable

from .. import imports
from . import audit, databases, files, frameworks, savers
from .overlay import HarmDenied as HarmDenied
from .overlay import Listing, Overlay
from .paths import real_path
from .stand_ins import Replacements


def install(
    folder: str, scratch: str, redirected: dict, log: Any, *, divert_new: bool = False, refuses: bool = True
) -> None:
    """Guard this process and its forked children.

    Args:
        scratch: where multiprocessing puts its sockets; its own folders outlive a killed process.
        redirected: the user's files, by absolute path, and the rewritten copies that reads shall see.
        log: where diverted, denied and created files are listed.
        divert_new: new files and folders go to the trial's folder too, as nothing can be made elsewhere.
        refuses: what got past the replaced functions is refused; not where the kernel diverts it.
    """
    overlay = Overlay(folder, Listing(log), redirected, own=(scratch,), divert_new=divert_new)
    failed = _report_once(log)
    savers.install(overlay, failed)
    databases.install(overlay, failed)
    frameworks.install(log)
    imports.when_imported("multiprocessing.util", lambda module: _move_sockets(module, scratch))
    files.install(overlay, failed)
    audit.install(overlay, refuses)


def redirect(redirected: dict) -> None:
    """Let `open` read rewritten copies of some of the user's files, and guard nothing.

    It stays: a script may read its config again, or keep a copy of it beside its results.
    """
    if not redirected:
        return
    copies = {real_path(path): copy for path, copy in redirected.items()}
    original = builtins.open

    @functools.wraps(original)
    def redirected_open(file, mode="r", *args, **kwargs):
        if mode in files.READ_MODES and isinstance(file, (str, bytes, os.PathLike)):
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
        return copies.get(real_path(os.fsdecode(file)), file)
    except Exception:  # whatever is wrong with the path, the real open says it better
        return file


def _report_once(log: Any) -> Callable:
    reported = set()

    def failed(error: Exception) -> None:
        message = f"harm: {type(error).__name__}: {str(error)[:500]}"
        if message not in reported:
            reported.add(message)
            log.emit("guard_error", message=message)

    return failed


def _move_sockets(module: Any, scratch: str) -> None:
    original = module.get_temp_dir

    @functools.wraps(original)
    def get_temp_dir():
        config = module.process.current_process()._config
        if config.get("tempdir") is None:
            config["tempdir"] = tempfile.mkdtemp(prefix="pymp-", dir=scratch)
        return original()

    module.get_temp_dir = get_temp_dir
