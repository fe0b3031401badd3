"""Where hosts meet, what they have in common, the queue, and the records that outlast it."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from build_records import GIB, config, host, options, run, target
from real_postgres import PASSWORD, PostgresServer

from tunekit.errors import ShareError, UsageError
from tunekit.tune import shared
from tunekit.tune.jobs import Job, Work
from tunekit.tune.shared import GRACE_S, JOURNAL_FILE, SharedStudy, address_of, group_of, open_place

Join = Callable[..., SharedStudy]
DRIVER = host().accelerators[0].changed(driver="535.2")
FIRST, SECOND = (Job(work=Work.SEARCH, config=config(batch_size=size)) for size in (8, 16))


@pytest.fixture
def join(tmp_path: Path) -> Iterator[Join]:
    """Join the search of a place, a folder unless another one is given."""

    def joined(host: str = "one", place: str = "", group: str = "alike") -> SharedStudy:
        address = address_of(place or str(tmp_path / "shared"))
        return SharedStudy(address, stack.enter_context(open_place(address)), group, host, tmp_path / host)

    with ExitStack() as stack:
        yield joined


def taken(study: SharedStudy) -> list[Job]:
    """Take the first job of the queue and return what was done."""
    done: list[Job] = []
    study.take(done.append)
    return done


def left_running(study: SharedStudy) -> None:
    """Take a job as a host does that is killed while it runs."""

    def killed(job: Job) -> None:
        raise SystemExit  # Optuna leaves the trial running, as after kill -9

    with pytest.raises(SystemExit):
        study.take(killed)


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
        " ",
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
            join(place=str(place))


# --- who searches together -------------------------------------------------------------------


@pytest.mark.parametrize(
    "overrides",
    [
        {"host": host(cpus=4)},
        {"host": host(cpu_name="EPYC")},
        {"host": host(accelerators=())},
        {"host": host(accelerators=(DRIVER,))},
        {"host": host(ram_limit_bytes=8 * GIB)},
        {"thread_variables": {"OMP_NUM_THREADS": "4"}},
        {"target": target(command=("python", "train.py", "--small"))},
        {"target": target(script_sha256="0" * 64)},
        {"target": target(samples_per_step=4)},
        {"tunekit_version": "0.0.1"},
        {"options": options(max_batch=64)},
    ],
)
def test_another_machine_or_another_search_is_another_group(overrides: dict[str, Any]):
    assert group_of(run(**overrides), None) != group_of(run(), None)


def test_names_and_a_few_bytes_of_ram_make_no_other_group():
    other = host(hostname="node-b", ram_limit_bytes=host().ram_limit_bytes - 4096)
    assert group_of(run(host=other), None) == group_of(run(), None)


def test_folders_and_what_a_host_decides_alone_make_no_other_group():
    own = target(command=("/home/ann/venv/bin/python3", "/home/ann/train.py"), script="/home/ann/train.py")
    assert group_of(run(target=own, options=options(wait_quiet_s=60.0)), None) == group_of(run(), None)


# --- the queue -------------------------------------------------------------------------------


def test_a_job_is_done_once_in_the_order_of_the_queue(join: Join):
    one, two = join(), join("two")
    for job in (FIRST, SECOND):
        one.enqueue(job)
    done = taken(two) + taken(one) + taken(two)
    assert done == [FIRST.changed(number=0), SECOND.changed(number=1)]
    assert one.jobs() == () and one.is_only_group
    assert join(group="other").jobs() == () and not one.is_only_group


def test_others_see_who_runs_a_job_and_an_error_ends_it(join: Join, tmp_path: Path):
    one, two = join(), join("two")
    one.enqueue(FIRST)

    def fails(job: Job) -> None:
        assert two.jobs() == (job.changed(host="one", folder=str(tmp_path / "one")),)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one.take(fails)
    assert (two.jobs(), two.lost_configs()) == ((), ())


def test_the_job_of_a_lost_host_is_enqueued_once_more(join: Join, tmp_path: Path):
    one = join()
    one.enqueue(FIRST)
    left_running(join("killed"))
    assert [job.host for job in one.jobs()] == ["killed"], "it may be alive"
    age_heartbeats(tmp_path / "shared")
    assert one.jobs() == (FIRST.changed(lost_by="killed", number=1),)
    left_running(join("next"))
    age_heartbeats(tmp_path / "shared")
    assert (one.jobs(), one.lost_configs()) == ((), (FIRST.config,))


def test_a_record_counts_whatever_became_of_its_job(join: Join, tmp_path: Path):
    stopped, other = join("stopped"), join("other")
    stopped.enqueue(FIRST)

    def is_stopped(job: Job) -> None:
        number = stopped.begin_record()
        age_heartbeats(tmp_path / "shared")
        assert other.jobs() == (FIRST.changed(lost_by="stopped", number=1),)
        assert len(taken(other)) == 1
        stopped.land_record(number, "late", 7.0)

    stopped.take(is_stopped)
    assert other.records() == {0: "late"}


def test_numbers_are_unique_and_only_records_that_landed_are_seen(join: Join):
    one, two = join(), join("two")
    assert [study.begin_record() for study in (one, two, one)] == [0, 1, 2]
    one.land_record(2, "failed", None)
    two.land_record(1, "measured", 5.0)
    assert one.records() == join("late").records() == {1: "measured", 2: "failed"}
    two.leave_text(Work.PREPARE, "text")
    assert (one.text_left(Work.PREPARE), one.text_left(Work.FINISH)) == ("text", None)


# --- a place that fails ----------------------------------------------------------------------


@pytest.mark.parametrize("damage", [b'{"op_code": 4, "stu', b'{"op_code": 4, "stu{}\n{}\n', b"\0\0\0\n"])
def test_an_unreadable_journal_is_moved_aside_and_rebuilt_from_the_records(
    join: Join, tmp_path: Path, damage: bytes
):
    running = join()
    for number in range(3):
        assert running.begin_record() == number
    running.land_record(0, "first", 1.0)
    running.land_record(2, "third", 2.0)
    journal = tmp_path / "shared" / JOURNAL_FILE
    with journal.open("ab") as file:
        file.write(damage)
    kept = journal.read_bytes()
    started = join("two")
    assert started.records() == {0: "first", 2: "third"}
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
        join(place=postgres.new_database().replace(PASSWORD, "wrong-0815"))
    assert "0815" not in str(caught.value)


@pytest.mark.slow
def test_a_database_that_restarts_costs_no_record(join: Join, postgres: PostgresServer):
    study = join(place=postgres.new_database())
    number = study.begin_record()
    postgres.stop()
    postgres.start()
    study.land_record(number, "record", 7.0)
    assert study.records() == {number: "record"}
