"""One search by many hosts: a queue of jobs and the records of trials, as Optuna studies in a common place.

A host enqueues what it wants done and takes the first job by `Study.optimize`, which sends heartbeats while
the job runs. A job whose heartbeats stop is enqueued once more. Records are kept apart from the queue: one
that has landed counts, whatever became of its job. Hosts that are alike in hardware, driver and torch are a
group with studies of its own.
"""

import hashlib
import json
import logging
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
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
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from tunekit.errors import ShareError, TargetChangedError, UsageError
from tunekit.records.codec import write_text
from tunekit.records.host import TorchBuild
from tunekit.records.run import Run
from tunekit.records.target import command_words
from tunekit.secret_words import MASK, masked_text
from tunekit.units import bytes_text

JOURNAL_FILE = "share.journal"
RECORDS_FOLDER = "share.records"
BEAT_S = 10
GRACE_S = 60
"""Seconds without a heartbeat after which a host has lost its job."""
_ALIVE_FOLDER = "share.alive"
_PAUSES_S = (0.5, 1.0, 2.0, 5.0, *[10.0] * 11)
"""Before a place that doesn't answer is asked again, for 2 minutes in all: servers restart in less."""
_DRIVER = "postgresql+psycopg"
_SCHEMES = ("postgresql", "postgres")
_TABLES_LOCK = 0x74756E65
"""PostgreSQL's lock that one host at a time holds while it makes the tables."""
_OWN_OPTIONS = {"wait_quiet_s", "ignored", "epochs_given"}
"""Options that may differ between hosts."""
_RAM_STEP = 1.1
"""RAM sizes within the same step count as equal: kernels and containers keep a little for themselves."""
_JOB, _TAKEN_BY, _LOST_BY, _RECORD, _SEARCH = "job", "taken_by", "lost_by", "record", "search"
_LIVE = (TrialState.WAITING, TrialState.RUNNING)
_UNANSWERED = (OSError, StorageInternalError, SQLAlchemyError, ValueError, RuntimeError)
"""What a storage raises that may answer later; also for a line of the journal that can't be read."""

_Result = TypeVar("_Result")


# --- the place -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Address:
    """Where the hosts of a search meet: a folder or a PostgreSQL database."""

    shown: str
    """The address without user and password."""
    folder: Path | None = None
    url: URL | None = None


def address_of(text: str) -> Address:
    """Return what `--share` means.

    Raises:
        UsageError: hosts can't meet there.
    """
    meant = "a folder that all hosts see, or postgresql://USER@HOST/DATABASE"
    if not text.strip():
        raise UsageError(f"--share takes {meant}, got nothing")
    scheme, has_scheme, rest = text.partition("://")
    if not has_scheme:
        return Address(text, folder=Path(text))
    place = f"{MASK}@{rest.rpartition('@')[2]}" if "@" in rest else rest
    shown = masked_text(f"{_SCHEMES[0] if scheme in _SCHEMES else scheme}://{place}")
    if scheme.startswith("sqlite"):
        raise UsageError(
            f"--share {shown}: SQLite's locks do not hold on a network file system; give {meant}"
        )
    if scheme not in _SCHEMES:
        raise UsageError(f"--share {shown}: {scheme} is not supported; give {meant}")
    try:
        url = make_url(text).set(drivername=_DRIVER)
    except (ArgumentError, ValueError):
        url = None
    if url is None or text.count("@") > (url.username is not None):
        raise UsageError(
            f"--share {shown} can't be read as an address; percent-encode @, : and / in the user and the "
            "password (@ as %40), or give the password in PGPASSWORD or ~/.pgpass"
        )
    return Address(shown, url=url)


class _BeatsFirst(BaseHeartbeat):
    """Sends the first heartbeat before a trial runs: Optuna never calls a trial without one stale."""

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
    """Optuna's journal with the heartbeats that it lacks: files whose times the file server sets."""

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
    """A journal that is given up when another host has put a new one in its place."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._inode = path.stat().st_ino

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        self._insist()
        return super().read_logs(log_number_from)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self._insist()
        super().append_logs(logs)

    def _insist(self) -> None:
        if self._path.stat().st_ino != self._inode:
            raise ShareError(
                f"{self._path} was unreadable, and another host has rebuilt it; start the same command again"
            )


def _enqueue_again(study: optuna.Study, lost: FrozenTrial) -> None:
    """Enqueue the job of a host that was lost, unless it is the second one that this job has cost."""
    job = lost.user_attrs.get(_JOB)
    if job is not None and _LOST_BY not in job:
        host = lost.user_attrs.get(_TAKEN_BY, {}).get("host", "a host")
        study.enqueue_trial({}, user_attrs={_JOB: {**job, _LOST_BY: host}})


def _open_folder(folder: Path, beat_s: int, grace_s: int) -> BaseStorage:
    if folder.is_file():
        raise ShareError(f"--share {folder} is a file; give a folder that all hosts see, or one to be made")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = JournalFileSymlinkLock(str(folder / JOURNAL_FILE))
        lock.acquire()
        try:
            if _is_unreadable(folder / JOURNAL_FILE):
                _rebuild(folder)
        finally:
            lock.release()
        return _Folder(folder, beat_s, grace_s)
    except OSError as error:
        raise ShareError(f"the shared folder {folder} can't be used ({_first_line(error)})") from error


def _is_unreadable(journal: Path) -> bool:
    raw = journal.read_bytes() if journal.exists() else b""
    try:
        for line in raw.splitlines():
            json.loads(line)
    except ValueError:
        return True
    return bool(raw) and not raw.endswith(b"\n")


def _rebuild(folder: Path) -> None:
    """Move the journal aside and write another one with the records that the hosts have left."""
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


def _open_database(address: Address, beat_s: int, grace_s: int) -> BaseStorage:
    assert address.url is not None
    # Optuna takes braces for a template's.
    text = address.url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    try:
        with create_engine(address.url, poolclass=NullPool).connect() as connection:
            # Hosts that start together would make the tables at the same time.
            connection.execute(select(func.pg_advisory_xact_lock(_TABLES_LOCK)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                options = {"pool_pre_ping": True}
                database = _Database(text, options, heartbeat_interval=beat_s, grace_period=grace_s)
        return get_storage(database)
    except ImportError as error:
        raise ShareError(
            "a search shared in PostgreSQL needs its driver; install it with: pip install "
            "'tunekit[postgresql]'"
        ) from error
    except OperationalError as error:
        raise ShareError(
            f"{address.shown} does not let this host in ({_first_line(error)}); check the address, the "
            "password (PGPASSWORD or ~/.pgpass, if not in the address) and that the database exists"
        ) from error
    except _UNANSWERED as error:
        raise ShareError(f"{address.shown} can't be used ({_first_line(error)})") from error


def _study_in(storage: BaseStorage, name: str) -> optuna.Study:
    return optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's cause, without secrets."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    cause = getattr(cause, "orig", None) or cause
    lines = str(cause).strip().splitlines()
    return masked_text(lines[0]) if lines else type(cause).__name__


# --- which hosts search together -----------------------------------------------------------


def search_facts(run: Run) -> dict[str, str]:
    """Return what every host that shares a search must be asked for, by name."""
    target = run.target
    facts = {
        "tunekit": run.tunekit_version,
        "command": " ".join(command_words(target)) if target.builtin is None else target.builtin,
        "script": target.script_sha256,
        "bindings": ", ".join(map(str, target.bindings)),
        "samples_per_step": target.samples_per_step,
        **run.options.model_dump(mode="json", exclude=_OWN_OPTIONS),
    }
    return {name: "not given" if value in (None, "", []) else str(value) for name, value in facts.items()}


def group_of(run: Run, torch: TorchBuild | None) -> str:
    """Return the fingerprint of what rates depend on beside the config: hosts that share it are alike.

    Args:
        run: before its first trial.
        torch: that the training has; None where it is not known.
    """
    host = run.host
    gpus = () if run.profile.is_cpu else host.accelerators
    facts = (
        [(gpu.name, bytes_text(gpu.memory_bytes), gpu.driver) for gpu in gpus],
        torch and (torch.python_version, torch.version, torch.cuda_version, torch.hip_version),
        (host.cpu_name, host.cpus),
        [round(math.log(max(1, size or 1), _RAM_STEP)) for size in (host.ram_limit_bytes, host.shm_bytes)],
        sorted((run.thread_variables or {}).items()),
    )
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:8]


# --- the queue and the records -------------------------------------------------------------


@dataclass(frozen=True)
class QueuedJob:
    """A job that waits or runs."""

    number: int
    job: dict[str, Any]
    """JSON that the host that enqueued it gave."""
    taken_by: dict[str, Any]
    """JSON that the host that runs it gave; empty while it waits."""


class SharedStudy:
    """The queue and the records of one group of hosts.

    Args:
        address: where the hosts meet.
        search: what this host was asked to search.
        group: fingerprint of hosts like this one.
        beat_s: seconds between two heartbeats.
        grace_s: seconds without one after which a job is lost.

    Raises:
        ShareError: the place can't be opened.
        TargetChangedError: another search is shared there.
    """

    def __init__(
        self,
        address: Address,
        search: dict[str, str],
        group: str,
        beat_s: int = BEAT_S,
        grace_s: int = GRACE_S,
    ) -> None:
        logging.getLogger("optuna").setLevel(logging.ERROR)
        self._address = address
        self.grace_s = grace_s
        if address.folder is not None:
            self._storage = _open_folder(address.folder, beat_s, grace_s)
        else:
            self._storage = _open_database(address, beat_s, grace_s)
        self._texts = address.folder / RECORDS_FOLDER / group if address.folder else None
        self._insist_on(search)
        self._queue = self._ask(lambda: _study_in(self._storage, f"{group} queue"))
        self._records = self._ask(lambda: _study_in(self._storage, f"{group} trials"))

    def close(self) -> None:
        """Close the connections."""
        if isinstance(database := getattr(self._storage, "_backend", None), RDBStorage):
            database.engine.dispose()

    @property
    def is_only_group(self) -> bool:
        """Whether all hosts that have met here are alike."""
        names = [one.study_name for one in self._ask(self._storage.get_all_studies)]
        return sum(name.endswith(" queue") for name in names) == 1

    def _insist_on(self, search: dict[str, str]) -> None:
        """Check that the hosts that meet here search the same; the first one decides what."""
        study = self._ask(lambda: _study_in(self._storage, _SEARCH))
        if not study.trials:
            facts = create_trial(state=TrialState.FAIL, user_attrs={_SEARCH: search})
            self._ask(lambda: study.add_trial(facts))
        first = self._ask(lambda: study.trials[0]).user_attrs[_SEARCH]
        names = sorted(name for name in {*first, *search} if first.get(name) != search.get(name))
        if names:
            differing = [f"{name} is {search.get(name)} here, {first.get(name)} there" for name in names]
            raise TargetChangedError(
                f"{self._address.shown} holds another search: {'; '.join(differing)}; start every host with "
                "the same command and flags, or share this search in another place"
            )

    def enqueue(self, job: dict[str, Any]) -> None:
        """Add a job to the queue."""
        self._ask(lambda: self._queue.enqueue_trial({}, user_attrs={_JOB: job}))

    def take(self, do: Callable[[int, dict[str, Any]], float | None], taken_by: dict[str, Any]) -> None:
        """Take the first job of the queue and do it; do nothing where another host was faster.

        Args:
            do: takes the job's number and the job; returns what Optuna shows as its value, if there is one.
            taken_by: JSON that other hosts see while it runs.
        """
        raised = list[BaseException]()

        def objective(trial: optuna.Trial) -> float:
            job, value = trial.user_attrs.get(_JOB), None
            try:
                if job is not None:
                    trial.set_user_attr(_TAKEN_BY, taken_by)
                    value = do(trial.number, job)
            except (Exception, KeyboardInterrupt) as error:
                raised.append(error)
            if value is None:
                raise TrialPruned
            return value

        # The next look at the queue asks again; a host that was stopped can't end the job that it has lost.
        with suppress(*_UNANSWERED):
            self._queue.optimize(objective, n_trials=1)
        if raised:
            raise raised[0]

    def jobs(self) -> tuple[QueuedJob, ...]:
        """Return the jobs that wait or run, by number, after those of lost hosts were enqueued once more."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            self._ask(lambda: fail_stale_trials(self._queue))
        trials = self._ask(lambda: self._queue.get_trials(deepcopy=False, states=_LIVE))
        return tuple(
            QueuedJob(one.number, one.user_attrs[_JOB], one.user_attrs.get(_TAKEN_BY, {}))
            for one in trials
            if _JOB in one.user_attrs
        )

    def lost_jobs(self) -> tuple[dict[str, Any], ...]:
        """Return the jobs that have cost two hosts."""
        failed = (TrialState.FAIL,)
        trials = self._ask(lambda: self._queue.get_trials(deepcopy=False, states=failed))
        jobs = (one.user_attrs.get(_JOB, {}) for one in trials)
        return tuple(job for job in jobs if _LOST_BY in job)

    def begin_record(self) -> int:
        """Return a number that no other trial of the group has."""
        begun = self._ask(lambda: self._storage.create_new_trial(self._records._study_id))
        return self._ask(lambda: self._storage.get_trial_number_from_id(begun))

    def land_record(self, number: int, record: dict[str, Any], value: float | None) -> None:
        """Leave the record of a trial for all hosts.

        Args:
            number: from `begin_record`.
            record: JSON.
            value: that Optuna shows; None where nothing was measured.
        """
        text, storage = json.dumps(record), self._storage
        state, values = (TrialState.FAIL, None) if value is None else (TrialState.COMPLETE, [value])

        def land() -> None:
            if self._texts is not None:
                self._texts.mkdir(parents=True, exist_ok=True)
                write_text(self._texts / f"{number:04d}.json", text)
            begun = storage.get_trial_id_from_study_id_trial_number(self._records._study_id, number)
            with suppress(UpdateFinishedTrialError):  # an earlier attempt landed, but its answer was lost
                storage.set_trial_user_attr(begun, _RECORD, text)
                storage.set_trial_state_values(begun, state, values)

        self._ask(land)

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Return the records that have landed, by number."""
        for one in self._ask(lambda: self._records.get_trials(deepcopy=False)):
            if _RECORD in one.user_attrs:
                yield one.number, json.loads(one.user_attrs[_RECORD])

    def leave(self, name: str, text: str) -> None:
        """Leave a text for all hosts."""
        self._ask(lambda: self._queue.set_user_attr(name, text))

    def left(self, name: str) -> str | None:
        """Return the text that a host left last under a name."""
        text = self._ask(lambda: self._queue.user_attrs).get(name)
        return None if text is None else str(text)

    def _ask(self, act: Callable[[], _Result]) -> _Result:
        """Return what the storage answers; where it doesn't, ask again for a while.

        Raises:
            ShareError: it doesn't answer.
        """
        for pause_s in _PAUSES_S:
            with suppress(*_UNANSWERED):
                return act()
            time.sleep(pause_s)
        try:
            return act()
        except _UNANSWERED as error:
            raise ShareError(
                f"{self._address.shown} does not answer ({_first_line(error)}); what was finished is kept: "
                "start the same command again once it answers"
            ) from error
