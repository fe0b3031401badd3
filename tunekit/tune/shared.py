"""One search by several hosts: a job queue and the trial records, as Optuna studies in shared storage.

A host enqueues a job and takes the first one with `Study.optimize`, which sends heartbeats while the job
runs.
A job whose heartbeats stop is enqueued once more. Records are separate from the queue: a saved record counts,
whatever happened to its job. Hosts that run the same search and have the same hardware, driver and torch form
a
group with a separate queue and separate records.
"""

import hashlib
import json
import logging
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError, TrialPruned, UpdateFinishedTrialError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, fail_stale_trials, get_storage
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import URL, NullPool, create_engine, func, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from tunekit.errors import ShareError, UsageError
from tunekit.records.codec import write_text
from tunekit.records.config import TrainConfig
from tunekit.records.host import TorchBuild
from tunekit.records.run import Run
from tunekit.records.target import command_words
from tunekit.secret_words import MASK, masked_text
from tunekit.trial.binding_syntax import binding_text
from tunekit.tune.jobs import Job, Work
from tunekit.units import bytes_text

JOURNAL_FILE = "share.journal"
RECORDS_FOLDER = "share.records"
BEAT_S = 10
GRACE_S = 60
"""Seconds without a heartbeat after which a host has lost its job."""
_ALIVE_FOLDER = "share.alive"
_PAUSES_S = (0.5, 1.0, 2.0, 5.0, *[10.0] * 11)
"""Pauses before retrying unresponsive storage, about 2 minutes in total: servers restart in less."""
_DRIVER = "postgresql+psycopg"
_SCHEMES = ("postgresql", "postgres")
_TABLES_LOCK = 0x74756E65
"""Key of the PostgreSQL lock that a host holds while it creates the tables."""
_OWN_OPTIONS = {"wait_quiet_s", "ignored", "epochs_given"}
"""Options that may differ between hosts."""
_RAM_STEP = 1.1
"""RAM sizes within one such step count as equal: kernels and containers reserve a little."""
_JOB, _TAKEN_BY, _RECORD = "job", "taken_by", "record"
_UNANSWERED = (OSError, StorageInternalError, SQLAlchemyError, ValueError, RuntimeError)
"""What temporarily unresponsive storage raises, also for an unreadable line of the journal."""

_Result = TypeVar("_Result")


# --- the place -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Address:
    """Address of the storage that a search's hosts share: a folder or a PostgreSQL database."""

    shown: str
    """The address without credentials."""
    folder: Path | None = None
    url: URL | None = None

    @property
    def saved(self) -> str:
        """The address as `--share` accepts it from any folder, without credentials."""
        return self.shown if self.folder is None else str(self.folder.absolute())


def address_of(text: str) -> Address:
    """Return the address given with `--share`.

    Raises:
        UsageError: hosts can't share it.
    """
    scheme, has_scheme, rest = text.partition("://")
    if text.strip() and not has_scheme:
        return Address(text, folder=Path(text))
    place = f"{MASK}@{rest.rpartition('@')[2]}" if "@" in rest else rest
    shown = masked_text(f"{_SCHEMES[0] if scheme in _SCHEMES else scheme}://{place}")
    with suppress(ArgumentError, ValueError):
        url = make_url(text).set(drivername=_DRIVER)
        if scheme in _SCHEMES and text.count("@") == (url.username is not None):
            return Address(shown, url=url)
    raise UsageError(
        f"--share {shown if has_scheme else repr(text)}: hosts can't meet there; give a folder that all of "
        "them see, or postgresql://USER@HOST/DATABASE with @, : and / in the user and the password "
        "percent-encoded (@ as %40)"
    )


class _BeatsFirst(BaseHeartbeat):
    """Sends the first heartbeat before a trial runs, as Optuna never considers a trial without one stale."""

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        if state is TrialState.RUNNING:
            self.record_heartbeat(trial_id)
        return super().set_trial_state_values(trial_id, state, values)  # type: ignore[misc,no-any-return]

    def get_heartbeat_stale_trial_callback(self) -> Callable[[optuna.Study, FrozenTrial], None]:
        return _enqueue_again


class _Database(_BeatsFirst, RDBStorage):
    def record_heartbeat(self, trial_id: int) -> None:
        with suppress(*_UNANSWERED):  # the next one may be answered
            super().record_heartbeat(trial_id)


class _Folder(_BeatsFirst, JournalStorage):
    """Optuna's journal plus heartbeats, which it lacks: files whose times are set by the file server."""

    def __init__(self, folder: Path, beat_s: int, grace_s: int) -> None:
        self._alive, self._beat_s, self._grace_s = folder / _ALIVE_FOLDER, beat_s, grace_s
        self._alive.mkdir(exist_ok=True)
        super().__init__(_Journal(folder / JOURNAL_FILE))

    def record_heartbeat(self, trial_id: int) -> None:
        with suppress(OSError):
            (self._alive / str(trial_id)).touch()

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        now = self._alive / "now"
        now.touch()
        oldest = now.stat().st_mtime - self._grace_s
        running = self.get_all_trials(study_id, deepcopy=False, states=(TrialState.RUNNING,))
        beats = {trial._trial_id: self._alive / str(trial._trial_id) for trial in running}
        return [one for one, beat in beats.items() if beat.exists() and beat.stat().st_mtime < oldest]

    def get_heartbeat_interval(self) -> int:
        return self._beat_s


class _Journal(JournalFileBackend):
    """A journal that raises an error once another host has replaced the file."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._inode = path.stat().st_ino

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        self._require_same_file()
        return super().read_logs(log_number_from)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self._require_same_file()
        super().append_logs(logs)

    def _require_same_file(self) -> None:
        if self._path.stat().st_ino != self._inode:
            raise ShareError(
                f"{self._path} was unreadable, and another host has rebuilt it; start the same command again"
            )


def _enqueue_again(study: optuna.Study, lost: FrozenTrial) -> None:
    """Enqueue a lost host's job again, unless this job has already lost another host."""
    job = lost.user_attrs.get(_JOB)
    if job is not None and job["lost_by"] is None:
        host = _job_of(lost).host or "a host"
        study.enqueue_trial({}, user_attrs={_JOB: {**job, "lost_by": host}})


@contextmanager
def open_place(address: Address, beat_s: int = BEAT_S, grace_s: int = GRACE_S) -> Iterator[BaseStorage]:
    """Open the shared storage, creating it if necessary.

    Args:
        address: the storage's address.
        beat_s: seconds between two heartbeats.
        grace_s: seconds without one after which a job is lost.

    Raises:
        ShareError: it can't be opened.
    """
    logging.getLogger("optuna").setLevel(logging.ERROR)
    try:
        if address.url is None:
            storage = _open_folder(Path(address.shown), beat_s, grace_s)
        else:
            storage = _open_database(address.url, beat_s, grace_s)
    except (ImportError, *_UNANSWERED) as error:
        raise ShareError(
            f"{address.shown} can't be used ({_first_line(error)}); check that the folder is writable, or "
            "that the database exists, its password is right (in the address, PGPASSWORD or ~/.pgpass) and "
            "psycopg is installed (pip install 'psycopg[binary]')"
        ) from error
    try:
        yield storage
    finally:
        if isinstance(database := getattr(storage, "_backend", None), RDBStorage):
            database.engine.dispose()


def _open_folder(folder: Path, beat_s: int, grace_s: int) -> BaseStorage:
    folder.mkdir(parents=True, exist_ok=True)
    lock = JournalFileSymlinkLock(str(folder / JOURNAL_FILE))
    lock.acquire()
    try:
        if _is_unreadable(folder / JOURNAL_FILE):
            _rebuild(folder)
    finally:
        lock.release()
    return _Folder(folder, beat_s, grace_s)


def _is_unreadable(journal: Path) -> bool:
    raw = journal.read_bytes() if journal.exists() else b""
    try:
        for line in raw.splitlines():
            json.loads(line)
    except ValueError:
        return True
    return bool(raw) and not raw.endswith(b"\n")


def _rebuild(folder: Path) -> None:
    """Move the journal aside and write a new one from the saved records."""
    journal, fresh = folder / JOURNAL_FILE, folder / f"{JOURNAL_FILE}.new"
    fresh.unlink(missing_ok=True)
    storage = JournalStorage(JournalFileBackend(str(fresh)))
    for group in sorted((folder / RECORDS_FOLDER).glob("*")):
        study = _study_in(storage, f"{group.name} trials")
        texts = {int(path.stem): path.read_text() for path in group.glob("*.json")}
        for number in range(max(texts, default=-1) + 1):
            attributes = {_RECORD: texts[number]} if number in texts else {}
            study.add_trial(create_trial(state=TrialState.FAIL, user_attrs=attributes))
    journal.rename(folder / f"{JOURNAL_FILE}.unreadable-{time.time_ns()}")
    fresh.rename(journal)


def _open_database(url: URL, beat_s: int, grace_s: int) -> BaseStorage:
    # Optuna treats braces as a template's.
    text = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    with create_engine(url, poolclass=NullPool).connect() as connection, warnings.catch_warnings():
        # Hosts that start together would create the tables at the same time.
        connection.execute(select(func.pg_advisory_xact_lock(_TABLES_LOCK)))
        warnings.simplefilter("ignore", ExperimentalWarning)
        options = {"pool_pre_ping": True}
        return get_storage(_Database(text, options, heartbeat_interval=beat_s, grace_period=grace_s))


def _study_in(storage: BaseStorage, name: str) -> optuna.Study:
    return optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's cause, without secrets."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    cause = getattr(cause, "orig", None) or cause
    lines = str(cause).strip().splitlines()
    return masked_text(lines[0]) if lines else type(cause).__name__


# --- which hosts search together -----------------------------------------------------------


def group_of(run: Run, torch: TorchBuild | None) -> str:
    """Return a fingerprint of the search and of everything except the config that rates depend on.

    Args:
        run: the run before its first trial.
        torch: the training's torch; None if unknown.
    """
    host, target = run.host, run.target
    gpus = () if run.profile.is_cpu else host.accelerators
    facts = (
        [run.tunekit_version, command_words(target), target.script_sha256],
        [*map(binding_text, target.bindings), target.samples_per_step],
        run.options.model_dump(mode="json", exclude=_OWN_OPTIONS),
        [(gpu.name, bytes_text(gpu.memory_bytes), gpu.driver) for gpu in gpus],
        torch and (torch.python_version, torch.version, torch.cuda_version, torch.hip_version),
        [host.cpu_name, host.cpus, sorted(run.thread_variables.items())],
        [round(math.log(max(1, size or 1), _RAM_STEP)) for size in (host.ram_limit_bytes, host.shm_bytes)],
    )
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:8]


# --- the queue and the records -------------------------------------------------------------


def _job_of(trial: optuna.Trial | FrozenTrial) -> Job:
    attributes = trial.user_attrs
    return Job.model_validate({**attributes[_JOB], **attributes.get(_TAKEN_BY, {}), "number": trial.number})


class SharedStudy:
    """The queue and the records of one group of hosts.

    Args:
        address: address of the shared storage.
        storage: the opened storage.
        group: the fingerprint of this host's group.
        host: the name that other hosts show for this process.
        folder: this host's run folder.
    """

    def __init__(self, address: Address, storage: BaseStorage, group: str, host: str, folder: Path) -> None:
        self.address = address
        self._storage = storage
        self.host = host
        self.folder = folder
        self._texts = address.folder / RECORDS_FOLDER / group if address.folder else None
        self._queue = self._ask(lambda: _study_in(storage, f"{group} queue"))
        self._records = self._ask(lambda: _study_in(storage, f"{group} trials"))

    @property
    def is_only_group(self) -> bool:
        """Whether all hosts that have used this storage form one group."""
        names = [one.study_name for one in self._ask(self._storage.get_all_studies)]
        return sum(name.endswith(" queue") for name in names) == 1

    def enqueue(self, job: Job) -> None:
        """Add a job to the queue."""
        self._ask(lambda: self._queue.enqueue_trial({}, user_attrs={_JOB: job.model_dump(mode="json")}))

    def take(self, do: Callable[[Job], None]) -> None:
        """Take the first job and do it; do nothing if another host was faster."""
        raised = list[BaseException]()
        taken_by = {"host": self.host, "folder": str(self.folder.absolute())}

        def objective(trial: optuna.Trial) -> float:
            try:
                if _JOB in trial.user_attrs:
                    job = _job_of(trial)
                    self._ask(lambda: trial.set_user_attr(_TAKEN_BY, taken_by))
                    do(job)
            except (Exception, KeyboardInterrupt) as error:
                raised.append(error)
            # A returned rate would fail an assertion in Optuna if this job was lost; records have the rates.
            raise TrialPruned

        # The queue is read again later; a host that was suspended can't end the job that it has lost.
        with suppress(*_UNANSWERED):
            self._queue.optimize(objective, n_trials=1)
        if raised:
            raise raised[0]

    def jobs(self) -> tuple[Job, ...]:
        """Enqueue the jobs of lost hosts again, then return all waiting and running jobs by number."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            self._ask(lambda: fail_stale_trials(self._queue))
        return self._jobs(TrialState.WAITING, TrialState.RUNNING)

    def lost_configs(self) -> tuple[TrainConfig, ...]:
        """Return the configs whose trials have lost two hosts."""
        return tuple(job.config for job in self._jobs(TrialState.FAIL) if job.lost_by and job.config)

    def _jobs(self, *states: TrialState) -> tuple[Job, ...]:
        trials = self._ask(lambda: self._queue.get_trials(deepcopy=False, states=states))
        return tuple(_job_of(one) for one in trials if _JOB in one.user_attrs)

    def begin_record(self) -> int:
        """Reserve and return a trial number that is unique in the group."""
        begun = self._ask(lambda: self._storage.create_new_trial(self._records._study_id))
        return self._ask(lambda: self._storage.get_trial_number_from_id(begun))

    def land_record(self, number: int, text: str, rate: float | None) -> None:
        """Save the record of a trial, as text, for all hosts."""
        storage = self._storage
        state, values = (TrialState.FAIL, None) if rate is None else (TrialState.COMPLETE, [rate])

        def land() -> None:
            if self._texts is not None:
                self._texts.mkdir(parents=True, exist_ok=True)
                write_text(self._texts / f"{number:04d}.json", text)
            begun = storage.get_trial_id_from_study_id_trial_number(self._records._study_id, number)
            with suppress(UpdateFinishedTrialError):  # an earlier attempt did it, its reply was lost
                storage.set_trial_user_attr(begun, _RECORD, text)
                storage.set_trial_state_values(begun, state, values)

        self._ask(land)

    def records(self) -> dict[int, str]:
        """Return the saved records by number."""
        trials = self._ask(lambda: self._records.get_trials(deepcopy=False))
        return {one.number: one.user_attrs[_RECORD] for one in trials if _RECORD in one.user_attrs}

    def leave_text(self, work: Work, text: str) -> None:
        """Save the result of a job for all hosts."""
        self._ask(lambda: self._queue.set_user_attr(work, text))

    def text_left(self, work: Work) -> str | None:
        """Return the last saved result of a job, or None."""
        return self._ask(lambda: self._queue.user_attrs).get(work)

    def _ask(self, act: Callable[[], _Result]) -> _Result:
        """Return the storage's response, retrying for a while if there is none.

        Raises:
            ShareError: it doesn't respond.
        """
        for pause_s in _PAUSES_S:
            with suppress(*_UNANSWERED):
                return act()
            time.sleep(pause_s)
        try:
            return act()
        except _UNANSWERED as error:
            raise ShareError(
                f"{self.address.shown} does not answer ({_first_line(error)}); what was finished is kept: "
                "start the same command again once it answers"
            ) from error
