"""What a verb learned, on disk: locked while it is owned, trial by trial, readable without tunekit."""

import fcntl
import os
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import IO, Self, TypeVar

from tunekit.errors import DamagedRecordError, RunFolderError, RunFolderLockedError, UsageError
from tunekit.records.base import Record
from tunekit.records.codec import read_json, write_json
from tunekit.records.run import FitsRun, LoopProfile, Run
from tunekit.records.scaling_run import ScalingRun
from tunekit.records.trial import TrialRecord
from tunekit.trial.keeper import remove_tree
from tunekit.trial.launch import CACHE_LAYERS, COMPILE_CACHE, TRIAL_FILE, is_cut_off

RUN_FILE = "run.json"
PROFILE_FILE = "profile.json"
FITS_FILE = "fits.json"
SCALE_FILE = "scale.json"
TELEMETRY_STORE = "telemetry.zarr"
REPORTS = "reports"
"""The folder for new run folders."""

SavedRun = Run | LoopProfile | FitsRun | ScalingRun
"""What a folder holds: what a search, `tunekit profile`, `tunekit fits` or `tunekit scale` learned."""
AnyRun = TypeVar("AnyRun", Run, LoopProfile, FitsRun, ScalingRun)


_KINDS: dict[type[SavedRun], tuple[str, str, str]] = {
    Run: (RUN_FILE, "run", "search"),
    LoopProfile: (PROFILE_FILE, "loop profile", "profile"),
    FitsRun: (FITS_FILE, "prediction", "fits"),
    ScalingRun: (SCALE_FILE, "measured scaling", "scale"),
}
"""The file of each kind of run, what it is called, and the verb that writes it."""
RECORD_FILES = tuple(file for file, _, _ in _KINDS.values())
"""Of which a folder holds one."""


def new_folder(asked: Path | None, name: str, resume: str = "") -> Path:
    """Return the folder to write: the one that is asked for, else one under reports/ that is not there yet.

    Args:
        asked: the value of `--out`.
        name: of the target and of what is written.
        resume: how else to go on in a folder that holds trials, where there is a way.

    Raises:
        UsageError: it holds something already.
    """
    if asked is None:
        base = Path(REPORTS) / f"{folder_stem(name)}-{datetime.now():%Y-%m-%d}"
        folder, number = base, 2
        while folder.exists():
            folder, number = base.with_name(f"{base.name}-{number}"), number + 1
        return folder
    taken = any((asked / file).exists() for file in RECORD_FILES)
    if taken or any(asked.glob("trials/*/trial.json")):
        how = f"use --resume {asked} or another --out" if resume else "give another folder with --out"
        raise UsageError(f"{asked} already holds {resume or 'trials'}; {how}")
    return asked


def folder_stem(name: str) -> str:
    """Return a name with only characters that suit a folder."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"


class RunFolder:
    """The folder of one run, loop profile, prediction or scaling; use it in a `with` block to own it.

    Args:
        path: the folder.

    Raises:
        RunFolderError: on entry, when it can't be made or written.
        RunFolderLockedError: on entry, when another search owns it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        for place in (self.trials_folder, self.telemetry_store, self.path / ".lock"):
            if place.is_symlink():
                raise RunFolderError(f"{place} is a link; choose another folder with --out")
        try:
            self.trials_folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / ".lock").open("a+")
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

    def __exit__(self, *error: object) -> None:
        for caches in (COMPILE_CACHE, CACHE_LAYERS):
            remove_tree(str(self.trials_folder / caches))
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
        return self.path / "study.journal"

    def save_trial(self, record: TrialRecord) -> None:
        """Write one finished trial; it is safe on disk when this returns."""
        self._write(self.trials_folder / f"{record.number:04d}" / TRIAL_FILE, record)

    def save_missing(self, records: Iterable[TrialRecord]) -> None:
        """Write those trials that are not here, which other hosts have run."""
        for record in records:
            if not (self.trials_folder / f"{record.number:04d}" / TRIAL_FILE).exists():
                self.save_trial(record)

    def save(self, run: SavedRun) -> None:
        """Write what follows from the trials, into the file of its kind."""
        self._write(self.path / _KINDS[type(run)][0], run)

    def _write(self, path: Path, record: Record) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, record)
        except OSError as error:
            raise RunFolderError(
                f"{path} can't be written ({error.strerror}); what was finished is kept: correct that and "
                f"start again; a search goes on with --resume {self.path}"
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
            elif is_cut_off(folder):
                remove_tree(str(folder))
        return tuple(sorted(records, key=lambda record: record.number))


def load_run(path: Path) -> Run:
    """Return the run in a folder (or in its run.json).

    Raises:
        RunFolderError: there is no run.
        RecordError: run.json is damaged or newer than this tunekit.
    """
    saved = load_saved(path)
    if not isinstance(saved, Run):
        what = _KINDS[type(saved)][1]
        raise RunFolderError(f"no run in {path}: it holds a {what}; show it with tunekit report {path}")
    return saved


def load_saved(path: Path) -> SavedRun:
    """Return what a folder (or a file) holds: a run, a loop profile, a prediction or a measured scaling.

    It is a search's run where a folder holds several.

    Raises:
        RunFolderError: there is none of them.
        RecordError: it is damaged or newer than this tunekit.
    """
    kinds = (kind for kind, (name, _, _) in _KINDS.items() if name == path.name or (path / name).is_file())
    kind = next(kinds, Run)
    name, what, verb = _KINDS[kind]
    file = path if path.is_file() else path / name
    if not file.exists():
        raise RunFolderError(
            f"no run in {path}: {RUN_FILE} is missing; give the folder that a search wrote; tunekit report "
            "also shows those of profile, fits and scale"
        )
    try:
        return read_json(file, kind)
    except DamagedRecordError as error:
        if file.name != name:
            # A file of the run's, such as a trial's: the run that it belongs to, if it belongs to one.
            holding = next((folder for folder in file.parents if (folder / name).is_file()), None)
            to_give = f": {holding}" if holding else f" that tunekit {verb} wrote"
            raise RunFolderError(f"{file} is no {what}; give the folder{to_give}") from error
        raise DamagedRecordError(f"{error}; its trials are in {file.parent / 'trials'}") from error


def folder_of(given: Path) -> Path:
    """Return the folder of a run that is given as such or as the file in it."""
    return given.parent if given.is_file() else given
