"""Where hosts meet, what they have in common, the queue, and the records that outlast it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from build_records import GIB, host, options, run, target
from real_postgres import PASSWORD, PostgresServer

from tunekit.errors import ShareError, TargetChangedError, UsageError
from tunekit.records.run import FixedKnob, Run
from tunekit.tune import shared
from tunekit.tune.shared import GRACE_S, JOURNAL_FILE, SharedStudy, address_of, group_of, search_facts

Join = Callable[..., SharedStudy]
DRIVER = host().accelerators[0].changed(driver="535.2")


@pytest.fixture
def join(tmp_path: Path) -> Iterator[Join]:
    """Join the search of a place, a folder unless another one is given."""
    opened: list[SharedStudy] = []

    def joined(place: str = "", group: str = "alike", before: Run | None = None) -> SharedStudy:
        address = address_of(place or str(tmp_path / "shared"))
        study = SharedStudy(address, search_facts(before or run(trials=())), group)
        opened.append(study)
        return study

    yield joined
    for study in opened:
        study.close()


def taken(study: SharedStudy, host_name: str = "one") -> list[tuple[int, dict[str, Any]]]:
    """Take the first job of the queue and return what was done."""
    done: list[tuple[int, dict[str, Any]]] = []
    study.take(lambda number, job: done.append((number, job)), {"host": host_name})
    return done


def left_running(study: SharedStudy) -> None:
    """Take a job as a host does that is killed while it runs."""

    def killed(number: int, job: dict[str, Any]) -> None:
        raise SystemExit  # Optuna leaves the trial running, as after kill -9

    with pytest.raises(SystemExit):
        study.take(killed, {"host": "killed"})


def age_heartbeats(folder: Path, by_s: float = 2 * GRACE_S) -> None:
    for beat in (folder / "share.alive").iterdir():
        at = beat.stat().st_mtime - by_s
        os.utime(beat, (at, at))


# --- the address -----------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["/mnt/nfs/search", "runs/one", "C: drive"])
def test_a_path_is_a_folder(text: str):
    assert (address_of(text).folder, address_of(text).shown) == (Path(text), text)


@pytest.mark.parametrize("secret", [PASSWORD, "4711/open", "4711#open", "4711?open", "47%40open"])
@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_an_address_is_shown_without_user_and_password(scheme: str, secret: str):
    address = address_of(f"{scheme}://ann:{secret}@db.example.org:5433/runs")
    assert address.shown == "postgresql://***@db.example.org:5433/runs"
    assert address.url is not None and quote(str(address.url.password), safe="/#?") == secret


@pytest.mark.parametrize(
    "place",
    [
        "",
        "sqlite:///runs.db",
        "postgresql+psycopg2://db/runs",
        "postgresql://db:port/runs",
        f"mysql://ann:{PASSWORD}@db/runs",
        f"postgresql://ann/x:{PASSWORD}@db/runs",
        f"postgresql://ann@corp:{PASSWORD}@db/runs",
        f"postgresql://ann:47@{PASSWORD}@db/runs",
    ],
)
def test_what_can_not_be_shared_is_refused_and_no_password_is_shown(place: str):
    with pytest.raises(UsageError) as caught:
        address_of(place)
    assert PASSWORD not in str(caught.value)


def test_a_password_in_the_query_is_not_shown():
    assert PASSWORD not in address_of(f"postgresql://db/runs?user=ann&password={PASSWORD}").shown


def test_a_folder_that_can_not_be_made_is_refused(join: Join, tmp_path: Path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ShareError):
            join(str(place))


# --- who searches together -------------------------------------------------------------------


@pytest.mark.parametrize(
    "machine",
    [
        {"cpus": 4},
        {"cpu_name": "EPYC"},
        {"accelerators": ()},
        {"accelerators": (DRIVER,)},
        {"ram_limit_bytes": 8 * GIB},
    ],
)
def test_a_machine_that_differs_is_of_another_group(machine: dict[str, Any]):
    assert group_of(run(host=host(**machine)), None) != group_of(run(), None)


def test_names_folders_and_a_few_bytes_of_ram_make_no_other_group():
    other = host(hostname="node-b", ram_limit_bytes=host().ram_limit_bytes - 4096)
    assert group_of(run(host=other), None) == group_of(run(), None)
    assert group_of(run(thread_variables={"OMP_NUM_THREADS": "4"}), None) != group_of(run(), None)


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ({"target": target(command=("python", "train.py", "--small"))}, "command is python train.py --small"),
        ({"target": target(script_sha256="0" * 64)}, "script is 000"),
        ({"tunekit_version": "0.0.1"}, "tunekit is 0.0.1 here"),
        ({"options": options(max_batch=64)}, "max_batch is 64 here, not given there"),
        ({"options": options(fixed=(FixedKnob(knob="compile", value=False),))}, "fixed is "),
    ],
)
def test_another_search_in_the_same_place_is_refused(join: Join, overrides: dict[str, Any], name: str):
    join()
    with pytest.raises(TargetChangedError) as caught:
        join(group="other", before=run(**({"trials": ()} | overrides)))
    assert name in str(caught.value)
    assert join().is_only_group


def test_folders_and_what_a_host_decides_alone_are_no_other_search(join: Join):
    join()
    own = target(command=("/home/ann/venv/bin/python3", "/home/ann/train.py"), script="/home/ann/train.py")
    join(before=run(trials=(), target=own, options=options(wait_quiet_s=60.0)))


# --- the queue -------------------------------------------------------------------------------


def test_a_job_is_done_once_in_the_order_of_the_queue(join: Join):
    one, two = join(), join()
    for name in ("first", "second"):
        one.enqueue({"name": name})
    assert [job for _, job in taken(two) + taken(one) + taken(two)] == [{"name": "first"}, {"name": "second"}]
    assert one.jobs() == ()
    assert join(group="other").jobs() == () and not join().is_only_group


def test_others_see_who_runs_a_job_and_an_error_ends_it(join: Join):
    one, two = join(), join()
    one.enqueue({"name": "job"})

    def fails(number: int, job: dict[str, Any]) -> None:
        assert [(seen.job, seen.taken_by) for seen in two.jobs()] == [(job, {"host": "one"})]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one.take(fails, {"host": "one"})
    assert (two.jobs(), two.lost_jobs()) == ((), ())


def test_the_job_of_a_lost_host_is_enqueued_once_more(join: Join, tmp_path: Path):
    one = join()
    one.enqueue({"name": "deadly"})
    again = {"name": "deadly", "lost_by": "killed"}
    left_running(join())
    assert [job.job for job in one.jobs()] == [{"name": "deadly"}], "it may be alive"
    age_heartbeats(tmp_path / "shared")
    assert [(job.job, job.taken_by) for job in one.jobs()] == [(again, {})]
    left_running(join())
    age_heartbeats(tmp_path / "shared")
    assert (one.jobs(), one.lost_jobs()) == ((), (again,))


def test_a_record_counts_whatever_became_of_its_job(join: Join, tmp_path: Path):
    stopped, other = join(), join()
    stopped.enqueue({"name": "slow"})

    def is_stopped(number: int, job: dict[str, Any]) -> float:
        record = stopped.begin_record()
        age_heartbeats(tmp_path / "shared")
        assert len(taken(other)) == 1
        stopped.land_record(record, {"rate": 7.0}, 7.0)
        return 7.0

    stopped.take(is_stopped, {"host": "stopped"})
    assert list(other.records()) == [(0, {"rate": 7.0})]


def test_numbers_are_unique_and_only_records_that_landed_are_seen(join: Join):
    one, two = join(), join()
    numbers = [study.begin_record() for study in (one, two, one)]
    assert numbers == [0, 1, 2]
    one.land_record(2, {"rate": None}, None)
    two.land_record(1, {"rate": 5.0}, 5.0)
    assert list(one.records()) == list(join().records()) == [(1, {"rate": 5.0}), (2, {"rate": None})]
    two.leave("prepare", "text")
    assert (one.left("prepare"), one.left("finish")) == ("text", None)


# --- a place that fails ----------------------------------------------------------------------


@pytest.mark.parametrize("damage", [b'{"op_code": 4, "stu', b'{"op_code": 4, "stu{}\n{}\n', b"\0\0\0\n"])
def test_an_unreadable_journal_is_moved_aside_and_rebuilt_from_the_records(
    join: Join, tmp_path: Path, damage: bytes
):
    running = join()
    for number in range(3):
        assert running.begin_record() == number
    running.land_record(0, {"rate": 1.0}, 1.0)
    running.land_record(2, {"rate": 2.0}, 2.0)
    journal = tmp_path / "shared" / JOURNAL_FILE
    with journal.open("ab") as file:
        file.write(damage)
    kept = journal.read_bytes()
    started = join()
    assert list(started.records()) == [(0, {"rate": 1.0}), (2, {"rate": 2.0})]
    assert started.begin_record() == 3
    assert [path.read_bytes() for path in journal.parent.glob(f"{JOURNAL_FILE}.unreadable-*")] == [kept]
    with pytest.raises(ShareError, match="start the same command again"):
        running.jobs()


def test_a_place_that_does_not_answer_is_asked_again(
    join: Join, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    study, journal = join(), tmp_path / "shared" / JOURNAL_FILE
    away, pauses = journal.with_name("away"), list[float]()

    def comes_back_at_the_third(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            away.rename(journal)

    monkeypatch.setattr(shared.time, "sleep", comes_back_at_the_third)
    journal.rename(away)
    assert study.jobs() == () and len(pauses) == 3
    journal.rename(away)
    with pytest.raises(ShareError, match="start the same command again"):
        study.jobs()
    assert sum(pauses[3:]) > 100.0


def test_a_wrong_password_is_refused_and_not_shown(join: Join, postgres: PostgresServer):
    with pytest.raises(ShareError) as caught:
        join(postgres.new_database().replace(PASSWORD, "wrong-0815"))
    assert "0815" not in str(caught.value)


@pytest.mark.slow
def test_a_database_that_restarts_costs_no_record(join: Join, postgres: PostgresServer):
    study = join(postgres.new_database())
    number = study.begin_record()
    postgres.stop()
    postgres.start()
    study.land_record(number, {"rate": 7.0}, 7.0)
    assert list(study.records()) == [(number, {"rate": 7.0})]
