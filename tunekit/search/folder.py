"""What a verb learned, on disk: locked while it is owned, trial by trial, readable without tunekit."""

import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tunekit.errors import DamagedRecordError, RunFolderError, RunFolderLockedError
from tunekit.records.base import Record
from tunekit.records.codec import read_json, write_json
from tunekit.records.fits import FitsRun
from tunekit.records.loop_profile import LoopProfile
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.trial.compile_cache import COMPILE_CACHE

RUN_FILE = "run.json"
PROFILE_FILE = "profile.json"
FITS_FILE = "fits.json"
TRIAL_FILE = "trial.json"
JOURNAL_FILE = "study.journal"
TELEMETRY_STORE = "telemetry.zarr"
_LOCK_FILE = ".lock"


class RunFolder:
    """The folder of one run, loop profile or prediction; use it in a `with` block to own it.

    Args:
        path: the folder.
        can_resume: whether what it holds can be gone on with, for messages.

    Raises:
        RunFolderError: on entry, when it can't be made or written.
        RunFolderLockedError: on entry, when another search owns it.
    """

    def __init__(self, path: Path, can_resume: bool = True) -> None:
        self.path = path
        self._can_resume = can_resume
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        try:
            self.trials_folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / _LOCK_FILE).open("a+")
        except OSError as error:
            raise RunFolderError(
                f"the run folder {self.path} can't be written ({error.strerror}); choose another with --out"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise RunFolderLockedError(
                f"the run folder {self.path} is in use by a search (process {owner}); "
                "wait for it to end or choose another folder with --out"
            ) from error
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.trials_folder / COMPILE_CACHE, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()  # the file stays: removing it would race with the next owner
            self._lock = None

    @property
    def trials_folder(self) -> Path:
        """Where each trial has its own sub-folder."""
        return self.path / "trials"

    @property
    def telemetry_store(self) -> Path:
        """The time series of every trial."""
        return self.path / TELEMETRY_STORE

    @property
    def journal(self) -> Path:
        """Optuna's journal."""
        return self.path / JOURNAL_FILE

    def save_trial(self, record: TrialRecord) -> None:
        """Write one finished trial; it is safe on disk when this returns."""
        folder = self.trials_folder / f"{record.number:04d}"
        self._write(folder / TRIAL_FILE, record)

    def save_run(self, run: Run) -> None:
        """Write run.json, which is rebuilt from the trial records."""
        self._write(self.path / RUN_FILE, run)

    def save_profile(self, profile: LoopProfile) -> None:
        """Write profile.json, which is rebuilt from the trial records."""
        self._write(self.path / PROFILE_FILE, profile)

    def save_fits(self, fits: FitsRun) -> None:
        """Write fits.json, which is rebuilt from the trial's files."""
        self._write(self.path / FITS_FILE, fits)

    def _write(self, path: Path, record: Record) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, record)
        except OSError as error:
            next_step = f"go on with --resume {self.path}" if self._can_resume else "start again"
            raise RunFolderError(
                f"{path} can't be written ({error.strerror}); what was finished is kept: "
                f"free some space, then {next_step}"
            ) from error

    def load_trials(self) -> tuple[TrialRecord, ...]:
        """Return every finished trial in order; a trial that was cut off is cleared away.

        Raises:
            RecordError: a trial record is damaged or newer than this tunekit.
        """
        records = []
        for folder in self.trials_folder.glob("[0-9]*"):
            path = folder / TRIAL_FILE
            if path.exists():
                records.append(read_json(path, TrialRecord))
            else:
                shutil.rmtree(folder, ignore_errors=True)
        return tuple(sorted(records, key=lambda record: record.number))


def load_run(path: Path) -> Run:
    """Return the run in a folder (or in its run.json).

    Raises:
        RunFolderError: there is no run.
        RecordError: run.json is damaged or newer than this tunekit.
    """
    file = path if path.is_file() else path / RUN_FILE
    if not file.exists():
        for other, what in ((PROFILE_FILE, "a loop profile"), (FITS_FILE, "what fits which GPU")):
            if (path / other).is_file():
                raise RunFolderError(f"no run in {path}: it holds {what}; show it with tunekit report {path}")
        raise RunFolderError(f"no run in {path}: {RUN_FILE} is missing; give the folder that a search wrote")
    try:
        return read_json(file, Run)
    except DamagedRecordError as error:
        if file.name != RUN_FILE:
            raise RunFolderError(f"{file} is no run; {_folder_to_give(file)}") from error
        raise DamagedRecordError(f"{error}; its trials are in {file.parent / 'trials'}") from error


def load_profile_run(path: Path) -> LoopProfile:
    """Return the loop profile in a folder (or in its profile.json).

    Raises:
        RunFolderError: there is none.
        RecordError: profile.json is damaged or newer than this tunekit.
    """
    file = path if path.is_file() else path / PROFILE_FILE
    if not file.exists():
        raise RunFolderError(
            f"no loop profile in {path}: {PROFILE_FILE} is missing; "
            "give the folder that tunekit profile wrote"
        )
    try:
        return read_json(file, LoopProfile)
    except DamagedRecordError as error:
        raise DamagedRecordError(f"{error}; its trials are in {file.parent / 'trials'}") from error


def load_fits_run(path: Path) -> FitsRun:
    """Return what fits which GPU, from a folder (or from its fits.json).

    Raises:
        RunFolderError: there is none.
        RecordError: fits.json is damaged or newer than this tunekit.
    """
    file = path if path.is_file() else path / FITS_FILE
    if not file.exists():
        raise RunFolderError(
            f"no prediction in {path}: {FITS_FILE} is missing; give the folder that tunekit fits wrote"
        )
    try:
        return read_json(file, FitsRun)
    except DamagedRecordError as error:
        raise DamagedRecordError(f"{error}; its trial is in {file.parent / 'trials'}") from error


def holds_profile(path: Path) -> bool:
    """Return whether a folder, or a file, holds a loop profile and not a run."""
    return _holds(path, PROFILE_FILE)


def holds_fits(path: Path) -> bool:
    """Return whether a folder, or a file, holds what fits which GPU and not a run."""
    return _holds(path, FITS_FILE)


def _holds(path: Path, name: str) -> bool:
    if path.is_file():
        return path.name == name
    return (path / name).is_file() and not (path / RUN_FILE).is_file()


def _folder_to_give(file: Path) -> str:
    """Return what to give instead of a file: the run it belongs to, if it belongs to one."""
    holding = (folder for folder in file.parents if (folder / RUN_FILE).is_file())
    folder = next(holding, None)
    return f"give the folder: {folder}" if folder else "give the folder that a search wrote"
