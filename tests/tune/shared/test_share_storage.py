"""What `--share` takes, and what becomes of a database that is not there, or not for a while."""

from pathlib import Path
from urllib.parse import quote

import pytest
from real_postgres import PASSWORD, PostgresServer
from scripted_search import ScriptedClock

from tunekit.errors import ShareError, UsageError
from tunekit.tune.shared.claims import Claim, Claims
from tunekit.tune.shared.storage import PATIENCE_S, Patience, address_of, close_storage, open_storage


@pytest.mark.parametrize("text", ["/mnt/nfs/search", "runs/one", "C: drive"])
def test_a_path_is_a_folder(text: str):
    assert address_of(text).folder == Path(text)
    assert address_of(text).shown == text


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_an_address_is_shown_without_who_and_with_what(scheme: str):
    address = address_of(f"{scheme}://ann:{PASSWORD}@db.example.org:5433/runs")
    assert address.shown == "postgresql://***@db.example.org:5433/runs"
    assert address.url is not None and address.url.password == PASSWORD


@pytest.mark.parametrize("sign", "/#?")
def test_a_password_with_a_sign_of_addresses_is_taken_whole_and_not_shown(sign: str):
    address = address_of(f"postgresql://ann:4711{sign}open@db.example.org/runs")
    assert address.shown == "postgresql://***@db.example.org/runs"
    assert address.url is not None and address.url.password == f"4711{sign}open"


@pytest.mark.parametrize("secret", ["47@open", "47@open/x", "47@open?x", "47@open:x", "@open#"])
def test_a_password_with_an_at_sign_is_refused_with_the_remedy_and_not_shown(secret: str):
    with pytest.raises(UsageError, match=r"postgresql://\*\*\*@db/runs: .* percent-encode .*%40") as caught:
        address_of(f"postgresql://ann:{secret}@db/runs")
    assert "open" not in str(caught.value) and "47" not in str(caught.value)
    assert (
        address_of(f"postgresql://ann:{quote(secret, safe='')}@db/runs").shown == "postgresql://***@db/runs"
    )


@pytest.mark.parametrize("user", ["ann/x", "ann@corp"])
def test_a_user_with_a_sign_of_addresses_does_not_show_the_password(user: str):
    with pytest.raises(UsageError, match="percent-encode") as caught:
        address_of(f"postgresql://{user}:{PASSWORD}@db/runs")
    assert PASSWORD not in str(caught.value)


def test_a_password_in_the_query_is_not_shown():
    assert PASSWORD not in address_of(f"postgresql://db/runs?user=ann&password={PASSWORD}").shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "got nothing"),
        ("sqlite:///runs.db", "do not hold on a network file system"),
        ("sqlite+pysqlite:///runs.db", "do not hold on a network file system"),
        (f"mysql://ann:{PASSWORD}@db/runs", "mysql is not supported"),
        *((f"mysql://ann:{sign}{PASSWORD}@db/runs", "mysql is not supported") for sign in "/#?@"),
        *((f"sqlite://ann:{sign}{PASSWORD}@db/runs", "do not hold on") for sign in "/#?@"),
        *((f"postgresql://ann:{sign}{PASSWORD}@db:port/runs", "--share postgresql") for sign in "/#?@"),
        ("postgresql+psycopg2://db/runs", r"postgresql\+psycopg2 is not supported"),
        ("postgresql://db:port/runs", "no address of a database"),
    ],
)
def test_what_can_not_be_shared_is_refused_with_the_reason(text: str, why: str):
    with pytest.raises(UsageError, match=why) as caught:
        address_of(text)
    assert PASSWORD not in str(caught.value)


def test_a_folder_that_can_not_be_made_is_said(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ShareError, match=r"file/below can't be used"):
        open_storage(address_of(str(tmp_path / "file" / "below")))


@pytest.mark.parametrize("sign", ["-", "/", "#", "?", "%40", "%2F"])
def test_a_wrong_password_is_refused_at_once_and_not_said(postgres: PostgresServer, sign: str):
    wrong = postgres.new_database().replace(PASSWORD, f"wrong{sign}0815")
    with pytest.raises(ShareError, match="does not let this host in") as caught:
        open_storage(address_of(wrong))
    assert "wrong" not in str(caught.value) and "0815" not in str(caught.value)


def test_a_database_that_restarts_is_waited_for(postgres: PostgresServer):
    clock, said = ScriptedClock(), list[str]()

    def pause(seconds: float) -> None:
        clock.now += seconds
        if clock.now == 1000.75:
            postgres.start()

    patience = Patience("the database", said.append, clock, pause)
    storage = open_storage(address_of(postgres.new_database()))
    host = Claims(storage, "study", "one", patience)
    assert isinstance(host.claim("before", {}), Claim)
    postgres.stop()
    assert host.beat() == ()
    claim = host.claim("after", {})
    close_storage(storage)
    assert isinstance(claim, Claim) and claim.number == 1
    assert [text.split(" (")[0] for text in said] == [
        "the database does not answer",
        "the database answers again after 750 ms",
    ]


def test_a_storage_that_stays_away_ends_in_an_error_with_what_to_do():
    clock = ScriptedClock()

    def pause(seconds: float) -> None:
        clock.now += seconds

    def away() -> None:
        raise OSError("Stale file handle")

    with pytest.raises(ShareError, match=r"did not answer for 5m .*\(Stale file handle\).* start the same"):
        Patience("/mnt/nfs", lambda said: None, clock, pause)(away)
    assert PATIENCE_S <= clock.now - 1000.0 < 1.1 * PATIENCE_S


def test_what_is_answered_at_the_second_attempt_is_not_worth_a_word():
    said, answers = list[str](), [OSError("once"), None]

    def act() -> int:
        if (error := answers.pop(0)) is not None:
            raise error
        return 7

    assert Patience("/mnt/nfs", said.append, pause=lambda seconds: None)(act) == 7
    assert said == []
