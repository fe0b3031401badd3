"""Cleans up after a trial: waits for freed GPU memory, and removes secrets from its files and record."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from stat import S_IMODE
from typing import Self

from tunekit.errors import UnreadableError
from tunekit.machine.gpu.nvml import GpuReading, Nvml
from tunekit.plain_text import printable
from tunekit.records.base import with_texts
from tunekit.records.target import Target
from tunekit.records.trial import TrialRecord, WrittenFile
from tunekit.secret_words import Secrets, secrets_of
from tunekit.trial import sandbox
from tunekit.trial.keeper import remove_tree
from tunekit.trial.launch import AGENT_FOLDER, LAYER, OUTPUT_FILE, REQUEST_FILE, STARTUP_FILE
from tunekit.untrusted import read_bytes

_SLACK_BYTES = 64 << 20
"""Growth of this size isn't waited for: it may be the driver's own, or a desktop's."""
_LIMIT_S = 10.0
_POLL_S = 0.05


class DeviceMemory:
    """Remembers the used memory of a trial's GPUs on entry; on exit waits until it is back to that.

    The driver frees a killed process's memory a moment after the process is gone. Memory of other running
    processes is not waited for. The wait is limited, in case the driver doesn't say whose memory it is.

    Args:
        nvml: the driver's library, held open until the end; without a driver there is no wait.
        indexes: the trial's GPUs, by their index in the driver's order.
        clock: returns seconds.
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        nvml: Nvml,
        indexes: Sequence[int],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._nvml = nvml
        self._indexes = tuple(indexes)
        self._clock = clock
        self._sleep = sleep
        self._before: dict[int, GpuReading] = {}

    def __enter__(self) -> Self:
        if self._indexes:
            self._nvml.__enter__()
        self._before = {index: self._nvml.reading(index, pcie=False) for index in self._indexes}
        return self

    def __exit__(self, *error: object) -> None:
        if not self._indexes:
            return
        end = self._clock() + _LIMIT_S
        try:
            while self._clock() < end and not all(map(self._is_returned, self._indexes)):
                self._sleep(_POLL_S)
        finally:
            self._nvml.__exit__(*error)

    def _is_returned(self, index: int) -> bool:
        before, now = self._before[index], self._nvml.reading(index, pcie=False)
        if before.used_bytes is None or now.used_bytes is None:
            return True
        return now.used_bytes <= before.used_bytes + _others_growth(before, now) + _SLACK_BYTES


def _others_growth(before: GpuReading, now: GpuReading) -> float:
    """Return the growth of processes that still run; a trial's own have ended by now."""
    known, listed = before.process_bytes or {}, (now.process_bytes or {}).items()
    running = ((pid, used) for pid, used in listed if pid in known or Path(f"/proc/{pid}").exists())
    return sum(max(0, (used or 0) - (known.get(pid) or 0)) for pid, used in running)


_FIGURES = "trace-"
"""Prefix of files that contain no text from the script."""
_AGENTS_FILES = ("events-*.jsonl", f"{_FIGURES}*.json", "agent-error-*.txt")
_MAX_FILES = 512
_MAX_BYTES = 64 << 20
"""Total size of the files that are kept; the writers keep output and events smaller than this."""

_MAX_FAULTS = 5
_SETTINGS = frozenset({".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".env"})


def secrets_of_target(target: Target, environment: Mapping[str, str]) -> Secrets:
    """Return the secrets in a command, in its variables and in the settings files that it names."""
    folder = Path(target.working_dir)
    named = [word.rpartition("=")[2] for word in target.command]
    named += [binding.path for binding in target.bindings if binding.path]
    texts = [_settings_text(folder / name) for name in dict.fromkeys((*named, ".env"))]
    return secrets_of(target.command, environment).with_texts(texts)


def _settings_text(path: Path) -> str:
    if path.suffix not in _SETTINGS and path.name != ".env":
        return ""
    try:
        return read_bytes(path).decode("utf-8", "replace")
    except UnreadableError:
        return ""


def close_folder(folder: Path, secrets: Secrets) -> tuple[str, ...]:
    """Keep the request, output and agent files of a trial whose processes are gone; remove the rest.

    The script may have put anything there, so only regular files by those names are copied, with secrets
    masked.

    Returns:
        A sentence for each file that could not be kept.
    """
    if folder.is_symlink():
        return (f"{folder} was replaced by a link",)
    folder.chmod(S_IMODE(folder.stat().st_mode) | 0o700)  # the script may have locked it
    agent = folder / AGENT_FOLDER
    found = [] if agent.is_symlink() else [path for pattern in _AGENTS_FILES for path in agent.glob(pattern)]
    kept, faults, left_bytes = set(), [], _MAX_BYTES
    for path in (folder / REQUEST_FILE, folder / OUTPUT_FILE, *found[:_MAX_FILES]):
        if not os.path.lexists(path):
            continue
        try:
            content = read_bytes(path, left_bytes, follows=False)
            left_bytes -= len(content)
            if not path.name.startswith(_FIGURES):
                text = content.decode("utf-8", "surrogateescape")
                content = secrets.masked(text).encode("utf-8", "surrogateescape")
            copy = folder / path.name
            copy.unlink(missing_ok=True)  # never overwritten: it may be a hard link that the script made
            copy.write_bytes(content)
            kept.add(path.name)
        except (OSError, UnreadableError) as error:
            faults.append(f"{printable(path.name)} was not kept: {error}")
    for path in folder.iterdir():
        if path.name not in kept:
            remove_tree(str(path))
    return tuple(faults[:_MAX_FAULTS])


def masked_record(record: TrialRecord, secrets: Secrets) -> TrialRecord:
    """Return a trial's record with secrets masked in all texts that the script influences.

    The addresses by which later trials find the loop stay unchanged.
    """
    measured = record.measurement
    if measured is not None and measured.details is not None:
        details = with_texts(measured.details, secrets.masked)
        measured = measured.changed(details=details)
    return record.changed(
        measurement=measured,
        failure=with_texts(record.failure, secrets.masked) if record.failure else None,
        faults=tuple(secrets.masked(fault) for fault in record.faults),
        written=tuple(one.changed(path=secrets.masked(one.path)) for one in record.written),
    )


_MAX_LISTED = 500
_NOT_LISTED = (f"/{STARTUP_FILE}", ".pyc")
_TEMPORARY = ("/tmp/", "/var/tmp/", "/run/")


def list_writes(folder: Path, working_dir: str) -> list[WrittenFile]:
    """Return what a trial wrote to the user's paths, diverted to its own folder.

    Args:
        folder: the trial's folder.
        working_dir: the script's; new temporary files outside it are not listed.
    """
    layers = folder / LAYER, folder / AGENT_FOLDER / LAYER  # without an overlay, the agent fills the latter
    found: list[WrittenFile] = []
    for path, is_removed in chain.from_iterable(sandbox.written_in(str(layer)) for layer in layers):
        if len(found) >= _MAX_LISTED:
            break
        action = "denied" if is_removed else "diverted" if os.path.lexists(path) else "created"
        is_temporary = path.startswith(_TEMPORARY) and not path.startswith(f"{working_dir}/")
        if path.endswith(_NOT_LISTED) or (action == "created" and is_temporary):
            continue
        shown = path.encode("utf-8", "replace").decode("utf-8")
        found.append(WrittenFile.model_validate({"path": shown, "action": action}))
    return found
