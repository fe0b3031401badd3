"""Hosts in one PostgreSQL database, one of which is stopped in a transaction or loses its session."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from real_postgres import PostgresServer
from scripted_search import ScriptedClock
from shared_places import OpenClaims
from sqlalchemy import Pool, event

from tunekit.tune.shared.claims import Claim, Claims
from tunekit.tune.shared.storage import Patience, address_of, close_storage, open_storage


@pytest.fixture
def place(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture
def sessions() -> Iterator[list[Any]]:
    """The session of every question to a database, the last one last."""
    asked: list[Any] = []

    def keep(connection: Any, *about: Any) -> None:
        asked.append(connection)

    event.listen(Pool, "checkout", keep)
    yield asked
    event.remove(Pool, "checkout", keep)


def with_options(place: str, **settings: str) -> str:
    """Return the address with settings of the server's, as a user gives them."""
    words = "%20".join(f"-c%20{name}%3D{value}" for name, value in settings.items())
    return f"{place}&options={words}"


def shown(session: Any, name: str) -> str:
    (value,) = session.execute(f"SHOW {name}").fetchone()
    return str(value)


def test_a_session_is_limited_but_where_the_user_says_otherwise(place: str, sessions: list[Any]):
    usual = open_storage(address_of(place))
    session = sessions[-1]
    assert (shown(session, "lock_timeout"), shown(session, "statement_timeout")) == ("10s", "30s")
    assert shown(session, "idle_in_transaction_session_timeout") == "30s"
    close_storage(usual)
    other = open_storage(
        address_of(with_options(place, lock_timeout="7s", work_mem="8MB") + "&keepalives_idle=77")
    )
    session = sessions[-1]
    assert (shown(session, "lock_timeout"), shown(session, "statement_timeout")) == ("7s", "30s")
    assert shown(session, "work_mem") == "8MB"
    said = session.info.get_parameters()
    assert (said["keepalives_idle"], said["keepalives_interval"]) == ("77", "10")
    assert said["tcp_user_timeout"] == "30000"
    close_storage(other)


def test_a_host_that_is_stopped_in_a_transaction_does_not_hold_the_others_up(
    place: str, claims_of: OpenClaims, sessions: list[Any]
):
    storage = open_storage(address_of(with_options(place, idle_in_transaction_session_timeout="2s")))
    stopped = Claims(storage, "study", "stopped", Patience("the place", print))
    sessions[-1].execute("SELECT 1 FROM studies FOR UPDATE")
    claim = claims_of("other").claim("fit", {})
    assert isinstance(claim, Claim)
    following = stopped.claim("other", {})
    close_storage(storage)
    assert isinstance(following, Claim) and following.number == claim.number + 1


def test_a_row_that_stays_locked_is_asked_for_again(place: str, clock: ScriptedClock):
    import psycopg  # of what few tests need, for all that read this file

    said = list[str]()
    with closing(psycopg.connect(place)) as other:
        storage = open_storage(address_of(with_options(place, lock_timeout="50ms")))
        patience = Patience("the place", said.append, clock, lambda seconds: said and other.rollback())
        host = Claims(storage, "study", "one", patience)
        claim = host.claim("fit", {})
        assert isinstance(claim, Claim)
        other.execute("SELECT 1 FROM trials FOR UPDATE")
        is_kept = host.finish(claim, {}, 1.0)
        close_storage(storage)
    assert is_kept
    assert "lock timeout" in said[0]
    assert said[1:] == ["the place answers again after 0 ms"]


def test_a_session_that_the_server_ends_in_a_transaction_costs_no_claim(
    place: str, claims_of: OpenClaims, sessions: list[Any]
):
    import psycopg

    host = claims_of("one")
    with closing(psycopg.connect(place)) as other, ThreadPoolExecutor(1) as thread:
        other.execute("SELECT 1 FROM studies FOR UPDATE")
        claiming = thread.submit(host.claim, "fit", {})
        with closing(psycopg.connect(place, autocommit=True)) as watcher:
            ended = None
            while ended is None:
                ended = watcher.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                ).fetchone()
        other.rollback()
        claim = claiming.result()
    assert isinstance(claim, Claim) and claim.number == 0
    assert [one.key for one in claims_of("two").pending()] == ["fit"]
