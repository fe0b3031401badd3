"""Where the hosts of a shared search meet: an Optuna journal in a folder, or a PostgreSQL database."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, get_storage
from sqlalchemy import URL, NullPool, create_engine, func, make_url, select
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from tunekit.errors import ShareError, UsageError
from tunekit.secret_words import MASK, masked_text
from tunekit.tune.shared.journal import Journal, JournalLock
from tunekit.units import duration_text

SHARED_JOURNAL = "share.journal"
_DRIVER = "postgresql+psycopg"
_SCHEMES = ("postgresql", "postgres")
_CONNECTION = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""For libpq, in seconds, the last in milliseconds: a lost network is noticed within a minute."""
_LIMITS = {"lock_timeout": "10s", "statement_timeout": "30s", "idle_in_transaction_session_timeout": "30s"}
"""Of a session: a host that is stopped within a transaction holds the others up for no longer."""
_MAKES_TABLES = 0x74756E65
"""Number of PostgreSQL's lock that one host at a time has."""
_TABLES_WAIT = "5min"
"""For that lock: many hosts may start at once."""
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 15.0
PATIENCE_S = 300.0
"""How long a storage that does not answer is asked again: a database or a file server restarts in less."""

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Address:
    """Where the hosts of a search meet: one of the two."""

    folder: Path | None = None
    url: URL | None = None
    """Of a PostgreSQL database."""

    @property
    def shown(self) -> str:
        """The address as it may be shown and stored, without user and password."""
        if self.url is None:
            return str(self.folder)
        host, port, database, query = self.url.host, self.url.port, self.url.database, self.url.query
        bare = URL.create(_SCHEMES[0], host=host, port=port, database=database, query=query)
        who = f"{MASK}@" if self.url.username else ""
        return masked_text(bare.render_as_string().replace("://", f"://{who}", 1))


def address_of(text: str) -> Address:
    """Return what `--share` means.

    Raises:
        UsageError: it is a database that hosts can't share, or one that is not supported.
    """
    meant = "a folder that all hosts see, or postgresql://USER@HOST/DATABASE"
    if not text.strip():
        raise UsageError(f"--share takes {meant}, got nothing")
    scheme, has_scheme, _ = text.partition("://")
    if not has_scheme:
        return Address(folder=Path(text))
    place = _without_user(text)
    if scheme.split("+")[0] == "sqlite":
        raise UsageError(
            f"--share {place}: SQLite's locks do not hold on a network file system, so hosts "
            f"would overwrite each other's trials; give {meant}"
        )
    if scheme not in _SCHEMES:
        raise UsageError(f"--share {place}: {scheme} is not supported; give {meant}")
    url = _url_of(text)
    may_have_user = url is None or url.username is not None
    if text.count("@") > may_have_user:
        raise UsageError(
            f"--share {place}: it is not clear where the host's name begins; percent-encode what stands "
            "before it (@ as %40, : as %3A, / as %2F), or give the password in PGPASSWORD or ~/.pgpass"
        )
    if url is None:
        raise UsageError(f"--share {place}: no address of a database; give {meant}")
    return Address(url=url)


def _url_of(text: str) -> URL | None:
    try:
        return make_url(text).set(drivername=_DRIVER)
    except (ArgumentError, ValueError):
        return None


def _without_user(text: str) -> str:
    """Return a text that may be no address as it may be shown: without all that stands before the last @."""
    scheme, _, rest = text.partition("://")
    _, at, place = rest.rpartition("@")
    return masked_text(f"{scheme}://{MASK}@{place}" if at else text)


def open_storage(address: Address) -> BaseStorage:
    """Return the storage at an address, made if it is not there yet.

    Raises:
        ShareError: the folder can't be written, or the database does not let us in.
    """
    logging.getLogger("optuna").setLevel(logging.ERROR)
    if address.folder is not None:
        return _journal_in(address.folder)
    assert address.url is not None
    try:
        return get_storage(_database_at(address.url))
    except ImportError as error:
        raise ShareError(
            "a search shared in PostgreSQL needs its driver; install it with: pip install "
            "'tunekit[postgresql]'"
        ) from error
    except OperationalError as error:
        raise ShareError(
            f"{address.shown} does not let this host in ({first_line(error)}); check the address, the "
            "password (PGPASSWORD or ~/.pgpass, if not in the address) and that the database is there"
        ) from error
    except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
        raise ShareError(f"{address.shown} can't be used ({first_line(error)})") from error


def _database_at(url: URL) -> RDBStorage:
    own = {name: value for name, value in _CONNECTION.items() if name not in url.query}
    options: dict[str, Any] = {"connect_args": own, "pool_events": [(_limit, "connect")]}
    # One connection a host: 64 of them are within PostgreSQL's usual 100.
    ours = options | {"pool_pre_ping": True, "pool_size": 1, "max_overflow": 1}
    # Optuna takes braces for a template's.
    text = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    with create_engine(url, poolclass=NullPool, **options).connect() as connection:
        # Hosts that start together would make the tables at the same time.
        limits = (func.set_config(name, _TABLES_WAIT, True) for name in _LIMITS)
        connection.execute(select(*limits))
        connection.execute(select(func.pg_advisory_xact_lock(_MAKES_TABLES)))
        return RDBStorage(text, engine_kwargs=ours)


def _limit(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
    """Limit a new session, where neither the address nor the server does."""
    cursor = connection.cursor()
    for name, limit in _LIMITS.items():
        cursor.execute(f"SELECT set_config('{name}', '{limit}', false) WHERE current_setting('{name}') = '0'")
    cursor.close()
    connection.commit()


def close_storage(storage: BaseStorage) -> None:
    """Give up the connections of a storage."""
    database = getattr(storage, "_backend", None)
    if isinstance(database, RDBStorage):
        database.engine.dispose()


def _journal_in(folder: Path) -> JournalStorage:
    path, lock = folder / SHARED_JOURNAL, JournalLock(folder / f"{SHARED_JOURNAL}.lock")
    if folder.is_file():
        raise ShareError(f"--share {folder} is a file; give a folder that all hosts see, or one to be made")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return JournalStorage(Journal(path, lock))
    except OSError as error:
        raise ShareError(f"the shared folder {folder} can't be used ({first_line(error)})") from error


def first_line(error: Exception) -> str:
    """Return what an error says first, without secrets."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    cause = getattr(cause, "orig", None) or cause
    lines = str(cause).strip().splitlines()
    return masked_text(lines[0]) if lines else type(cause).__name__


class Patience:
    """Asks a storage again that does not answer, with a growing pause.

    Args:
        shown: where the storage is, for messages.
        say: hears that it does not answer, and when it does again.
        clock: returns seconds.
        pause: waits for so many.
        most_s: how long it is asked.
    """

    def __init__(
        self,
        shown: str,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        most_s: float = PATIENCE_S,
    ) -> None:
        self._shown = shown
        self._say = say
        self._clock = clock
        self._pause = pause
        self._most_s = most_s

    def __call__(self, act: Callable[[], _Result]) -> _Result:
        """Return what a question to the storage returns; it may be asked more than once.

        Raises:
            ShareError: it was asked for as long as there is patience.
        """
        began_at, pause_s = self._clock(), _FIRST_PAUSE_S
        has_said = False
        while True:
            try:
                result = act()
            except UNANSWERED as error:
                waited_s = self._clock() - began_at
                if waited_s >= self._most_s:
                    raise ShareError(
                        f"{self._shown} did not answer for {duration_text(waited_s)} ({first_line(error)}); "
                        "what was finished is kept there: start the same command again once it answers"
                    ) from error
                if not has_said and pause_s > _FIRST_PAUSE_S:
                    has_said = True
                    most = duration_text(self._most_s)
                    self._say(
                        f"{self._shown} does not answer ({first_line(error)}); asking again for up to {most}"
                    )
                self._pause(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                if has_said:
                    self._say(f"{self._shown} answers again after {duration_text(self._clock() - began_at)}")
                return result


UNANSWERED = (OSError, StorageInternalError, SQLAlchemyError)
"""What a storage raises that may answer later."""
