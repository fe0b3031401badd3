"""What torch.compile and Triton keep: trials have a cache of their own that begins as the user's."""

import contextlib
import getpass
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

COMPILE_CACHE = "compile-cache"
"""Beside the trials."""
INDUCTOR, TRITON = "inductor", "triton"
_MOST_BYTES = 512 << 20
_MOST_FILES = 20_000
_LOCKS = "locks"


def compile_cache(trials_folder: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder in which trials keep what they compile; a new one has what the user's own cache has.

    Nothing is written to that: the newest of it is copied, up to 512 MiB, so that a script that compiles by
    itself starts as fast as it does without tunekit.

    Args:
        trials_folder: of the run.
        environment: the user's, by which torch and Triton find their caches.
    """
    cache = trials_folder / COMPILE_CACHE
    if not cache.exists():
        making = trials_folder / f".{COMPILE_CACHE}"
        shutil.rmtree(making, ignore_errors=True)  # half-filled by a search that was killed
        making.mkdir()
        _copy_newest(_own_files(environment), making)
        making.rename(cache)
    return cache


def _own_folders(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the user's own cache folders as torch and Triton name them, each with whose it is."""
    home = Path(environment.get("TRITON_HOME") or environment.get("HOME") or Path.home())
    inductor = environment.get("TORCHINDUCTOR_CACHE_DIR")
    if not inductor:
        with contextlib.suppress(KeyError, OSError):  # a user without a name, as in some containers
            user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
            inductor = str(Path(environment.get("TMPDIR") or "/tmp", f"torchinductor_{user}"))
    if inductor:
        yield INDUCTOR, Path(inductor)
        for of_device in sorted(Path(inductor, TRITON).glob("*")):
            yield TRITON, of_device
    yield TRITON, Path(environment.get("TRITON_CACHE_DIR") or home / ".triton" / "cache")


def _own_files(environment: Mapping[str, str]) -> Iterator[tuple[Path, str, os.stat_result]]:
    for kind, folder in _own_folders(environment):
        for place, folders, names in os.walk(folder):
            if kind == INDUCTOR and place == str(folder):
                folders[:] = [name for name in folders if name not in (_LOCKS, TRITON)]
            for name in names:
                path = Path(place, name)
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid():
                        yield path, f"{kind}/{path.relative_to(folder)}", status


def _copy_newest(files: Iterator[tuple[Path, str, os.stat_result]], cache: Path) -> None:
    left_bytes = _MOST_BYTES
    newest = sorted(files, key=lambda file: file[2].st_mtime, reverse=True)
    for path, place, status in newest[:_MOST_FILES]:
        left_bytes -= status.st_size
        if left_bytes < 0:
            return
        copy = cache / place
        with contextlib.suppress(OSError):  # gone by now, or a full disk
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
