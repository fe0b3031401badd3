"""A trial writes nothing over what the user had.

A write through `open` to a file that existed before the trial goes to a copy in the trial's folder,
and later reads of that path see the copy. Checkpoints (`torch.save`) always go there, new or not.
Deleting, renaming and writers that bypass `open` are not guarded.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import shutil
import stat
import tempfile
from typing import Any

from . import imports

_MAX_LISTED = 500
_LARGEST_COPY_BYTES = 1 << 30
_NOT_FILES = ("/dev/", "/proc/", "/sys/")


class WriteGuard:
    """Sends writes over existing files to `FOLDER/diverted/`.

    Args:
        folder: the trial's folder; what lies in it is free to write.
        started_at_s: when the trial started, in seconds since the epoch.
        log: where diverted files are listed.
    """

    def __init__(self, folder: str, started_at_s: float, log: Any) -> None:
        self._folder = os.path.realpath(folder) + os.sep
        self._log = log
        self._started_at_s = started_at_s
        self._diverted: dict = {}

    def path_for(self, file: Any, mode: str, always: bool = False) -> Any:
        """Return the path to open instead of `file`, which may be `file` itself.

        Args:
            file: a path, or anything else that open takes.
            mode: open's mode.
            always: divert a new file too.
        """
        writes = any(letter in mode for letter in "wa+")  # "x" fails on an existing file by itself
        if not isinstance(file, (str, os.PathLike)) or not (writes or self._diverted):
            return file
        real = os.path.realpath(os.fspath(file))
        if not isinstance(real, str):
            return file
        if real in self._diverted:
            return self._diverted[real]
        if not writes or real.startswith((self._folder, *_NOT_FILES)):
            return file
        if always or self._existed_before(real):
            return self._divert(real, mode)
        return file

    def _existed_before(self, real: str) -> bool:
        try:
            status = os.stat(real)
        except OSError:
            return False
        # Linux keeps no reliable birth time; a file made by this trial has a change time after its start.
        return stat.S_ISREG(status.st_mode) and status.st_ctime < self._started_at_s

    def _divert(self, real: str, mode: str) -> str:
        target = os.path.join(self._folder, "diverted", real.lstrip(os.sep))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.isfile(real) and not os.path.exists(target) and "w" not in mode:
            if os.path.getsize(real) > _LARGEST_COPY_BYTES:
                self._log.emit("written", path=real, action="denied")
                raise PermissionError(
                    errno.EACCES,
                    "a tunekit trial keeps existing files as they are, and this one is too large to copy; "
                    "open it for reading only",
                    real,
                )
            shutil.copyfile(real, target)
        self._diverted[real] = target
        if len(self._diverted) <= _MAX_LISTED:
            self._log.emit("written", path=real, action="diverted")
        return target


def install(folder: str, scratch: str, started_at_s: float, log: Any) -> None:
    """Guard `open`, `io.open` and `torch.save` in this process and its forked children.

    Args:
        folder: the trial's folder.
        scratch: where multiprocessing puts its sockets; its own folders outlive a killed process.
        started_at_s: when the trial started, in seconds since the epoch.
        log: where diverted files are listed.
    """
    guard = WriteGuard(folder, started_at_s, log)
    original_open = builtins.open

    @functools.wraps(original_open)
    def guarded_open(file, mode="r", *args, **kwargs):
        return original_open(guard.path_for(file, mode), mode, *args, **kwargs)

    builtins.open = guarded_open
    io.open = guarded_open
    imports.when_imported("multiprocessing.util", lambda module: _move_sockets(module, scratch))
    imports.when_imported("torch.serialization", lambda module: _guard_save(module, guard))


def _move_sockets(module: Any, scratch: str) -> None:
    original = module.get_temp_dir

    @functools.wraps(original)
    def get_temp_dir():
        config = module.process.current_process()._config
        if config.get("tempdir") is None:
            config["tempdir"] = tempfile.mkdtemp(prefix="pymp-", dir=scratch)
        return original()

    module.get_temp_dir = get_temp_dir


def _guard_save(module: Any, guard: WriteGuard) -> None:
    original_save, original_load = module.save, module.load

    @functools.wraps(original_save)
    def save(obj, f, *args, **kwargs):
        return original_save(obj, guard.path_for(f, "wb", always=True), *args, **kwargs)

    @functools.wraps(original_load)
    def load(f, *args, **kwargs):
        return original_load(guard.path_for(f, "rb"), *args, **kwargs)

    module.save, module.load = save, load
