"""What a trial leaves behind: bounded in size, and its files and its record without secrets."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tunekit.records.base import with_texts
from tunekit.records.target import Target
from tunekit.records.trial import TrialRecord
from tunekit.secret_words import Secrets, secrets_of
from tunekit.trial.watch import plain
from tunekit.units import bytes_text

DIVERTED = "diverted"
"""In the trial's folder: the copies of the user's files that it wrote to in their place."""
MOST_DIVERTED_BYTES = 64 << 20
"""Of all copies of one trial: checkpoints of every trial of a search would fill the disk."""
_MOST_TOLD = 8
_OF_FIGURES = ("trace-", "pulse-")
"""How files begin that hold no text of the script's."""
_MOST_BYTES = 64 << 20
"""Of a file that is read: output and events are kept smaller."""

_MOST_FAULTS = 5
_SETTINGS = frozenset({".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".env"})
_MOST_SETTINGS_BYTES = 1 << 20


def secrets_of_target(target: Target, environment: Mapping[str, str]) -> Secrets:
    """Return the secrets of a command, of its variables and of the settings files that it names."""
    folder = Path(target.working_dir)
    named = [word.rpartition("=")[2] for word in target.command]
    named += [binding.path for binding in target.bindings if binding.path]
    texts = [_settings_text(folder / name) for name in dict.fromkeys((*named, ".env"))]
    return secrets_of(target.command, environment).with_texts(texts)


def _settings_text(path: Path) -> str:
    try:
        if path.suffix not in _SETTINGS and path.name != ".env":
            return ""
        is_small = path.is_file() and path.stat().st_size <= _MOST_SETTINGS_BYTES
        return path.read_text(encoding="utf-8", errors="replace") if is_small else ""
    except (OSError, ValueError):
        return ""


def mask_files(folder: Path, secrets: Secrets) -> tuple[str, ...]:
    """Mask secrets in every text file of a trial's folder, whose processes are gone.

    Returns:
        What could not be done, a sentence for each file.
    """
    faults = []
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.name.startswith(_OF_FIGURES):
            continue
        try:
            if path.stat().st_size > _MOST_BYTES:
                faults.append(f"{path.name} is too large to look for secrets in it")
            else:
                _mask(path, secrets)
        except OSError as error:
            faults.append(f"{path.name} may hold secrets: it can't be rewritten ({error.strerror})")
    return tuple(faults[:_MOST_FAULTS])


def _mask(path: Path, secrets: Secrets) -> None:
    content = path.read_bytes()
    if b"\0" in content:
        return  # no text
    text = content.decode("utf-8", "surrogateescape")
    masked = secrets.masked(text)
    if masked != text:
        path.write_bytes(masked.encode("utf-8", "surrogateescape"))


def masked_record(record: TrialRecord, secrets: Secrets) -> TrialRecord:
    """Return a trial's record without secrets in the texts that the script had a hand in.

    What later trials find the loop by stays as it was.
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


def bound_in_size(folder: Path) -> list[str]:
    """Remove the largest copies until the rest is small enough, and return a line that says which.

    Args:
        folder: of the copies; it need not be there.
    """
    sizes = {
        path: _disk_bytes(path) for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
    }
    total_bytes = sum(sizes.values())
    removed = []
    for path in sorted(sizes, key=lambda path: sizes[path], reverse=True):
        if total_bytes <= MOST_DIVERTED_BYTES:
            break
        path.unlink(missing_ok=True)
        total_bytes -= sizes[path]
        removed.append(f"{path.relative_to(folder)} ({bytes_text(sizes[path])})")
    if not sizes:
        shutil.rmtree(folder, ignore_errors=True)
    if not removed:
        return []
    told = ", ".join(removed[:_MOST_TOLD]) + (" and others" if len(removed) > _MOST_TOLD else "")
    most = bytes_text(MOST_DIVERTED_BYTES)
    return [plain(f"copies beyond {most} are not kept in {folder.name}/: {told}")[:1000]]


def _disk_bytes(path: Path) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0
