"""Where the calibrations of this user's GPUs lie."""

import contextlib
import re
import tempfile
from pathlib import Path

from tunekit.errors import RecordError, UsageError
from tunekit.machine.profiles import device_slug, named_folders
from tunekit.records.codec import read_json, write_json
from tunekit.records.prediction import Calibration

CALIBRATIONS_VARIABLE = "TUNEKIT_CALIBRATIONS"
"""Environment variable naming other folders, separated as in PATH; the first one is written to."""


def calibration_folders() -> list[Path]:
    """Return the folders that calibrations are read from; a new one goes to the first.

    They are those of $TUNEKIT_CALIBRATIONS, else ~/.cache/tunekit/calibration, which need not exist.

    Raises:
        UsageError: $TUNEKIT_CALIBRATIONS names something that is no folder.
    """
    folders = named_folders(CALIBRATIONS_VARIABLE)
    if not folders:
        with contextlib.suppress(RuntimeError):  # a container's user may have no home
            folders.append(Path.home() / ".cache" / "tunekit" / "calibration")
    return folders


def load_calibrations() -> tuple[Calibration, ...]:
    """Return every calibration, the newest first.

    They only narrow what is assumed without them, so a file that can't be read is passed over.

    Raises:
        UsageError: $TUNEKIT_CALIBRATIONS names something that is no folder.
    """
    found = []
    for folder in calibration_folders():
        for path in sorted(folder.glob("*.json")):
            with contextlib.suppress(RecordError):
                found.append(read_json(path, Calibration))
    return tuple(sorted(found, key=lambda one: one.created_at, reverse=True))


def folder_to_save_in() -> Path:
    """Return the folder that a new calibration goes to, made where it is missing and tried by a small file.

    Raises:
        UsageError: there is none, or it can't be written.
    """
    folders = calibration_folders()
    if not folders:
        raise UsageError(
            f"this user has no home folder to save a calibration in; name a folder in {CALIBRATIONS_VARIABLE}"
        )
    try:
        folders[0].mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folders[0]) as file:
            file.write(b"tried")
    except OSError as error:
        raise _cannot_save(folders[0], error) from error
    return folders[0]


def save_calibration(calibration: Calibration) -> Path:
    """Write a calibration in place of an earlier one of the same device and torch, and return where it lies.

    Raises:
        UsageError: there is no folder to write to, or it can't be written.
    """
    folder = folder_to_save_in()
    torch = re.sub(r"[^0-9a-z.]+", "-", calibration.torch_version.lower())
    path = folder / f"{device_slug(calibration.device_name)}-torch-{torch}.json"
    try:
        write_json(path, calibration)
    except OSError as error:
        raise _cannot_save(folder, error) from error
    return path


def _cannot_save(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"calibrations can't be saved in {str(folder)!r} ({error.strerror}); make it writable, or name "
        f"another folder in {CALIBRATIONS_VARIABLE}"
    )
