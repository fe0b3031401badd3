"""Where the hosts of a shared search meet, in tests: a folder and a real PostgreSQL database."""

from collections.abc import Callable
from pathlib import Path

import pytest
from real_postgres import PostgresServer
from scripted_search import ScriptedClock

from tunekit.tune.shared.claims import Claims
from tunekit.tune.shared.leases import Pace
from tunekit.tune.shared.storage import Patience, address_of, close_storage, open_storage

OpenClaims = Callable[..., Claims]


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `--share` takes, of an empty place."""
    if request.param == "folder":
        return str(tmp_path / "shared")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def clock() -> ScriptedClock:
    return ScriptedClock()


@pytest.fixture
def claims_of(place: str, clock: ScriptedClock, request: pytest.FixtureRequest) -> OpenClaims:
    """Open the claims of a place as a host; each host has a storage of its own."""

    def opened(host: str, study: str = "study") -> Claims:
        storage = open_storage(address_of(place))
        request.addfinalizer(lambda: close_storage(storage))
        patience = Patience("the place", lambda said: None, clock, pause=lambda seconds: None)
        return Claims(storage, study, host, patience, Pace(clock=clock))

    return opened
