"""The run folders of hosts that share a search: each has its own, wherever they are asked to be."""

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from build_records import run

from tunekit.cli.share import Joined, joined
from tunekit.errors import UsageError
from tunekit.records.run import Run, RunStatus
from tunekit.session.book import Phase, Turn
from tunekit.session.folder import RunFolder

BEFORE = run(trials=())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "shared"


def joined_at(place: Path, out: Path | None = None, before: Run = BEFORE) -> AbstractContextManager[Joined]:
    return joined(str(place), before, ("python", "train.py"), out, lambda said: None)


def folders_of(hosts: int, place: Path, out: Path | None) -> list[Path]:
    """Join as several hosts at once, and return the folder of each."""
    with ExitStack() as stack:
        hosts_in = [joined_at(place, out) for _ in range(hosts)]
        return [stack.enter_context(one).book.folder for one in hosts_in]


def test_without_out_they_lie_where_the_hosts_meet(place: Path):
    name = BEFORE.host.hostname
    assert folders_of(2, place, None) == [place / name, place / f"{name}-2"]


def test_hosts_that_are_asked_for_one_folder_have_one_each_beside_it(place: Path, tmp_path: Path):
    out = tmp_path / "runs" / "search"
    assert folders_of(3, place, out) == [out, out.with_name("search-2"), out.with_name("search-3")]
    # The same command again shows the answer: in a folder of its own.
    assert folders_of(1, place, out) == [out.with_name("search-4")]


@pytest.mark.parametrize("spelling", ["shared", "./other/../shared"])
def test_the_place_where_hosts_meet_is_no_run_folder(
    place: Path, tmp_path: Path, spelling: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    folders_of(1, place, None)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="--share and --out are both"):
        folders_of(1, place, Path(spelling))
    assert before == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert before


@pytest.mark.parametrize(
    ("out", "names"), [(None, ["{host}", "{host}-2"]), ("runs/a", ["{host} (a)", "{host} (a-2)"])]
)
def test_hosts_of_one_machine_are_told_apart_by_their_folders(
    place: Path, tmp_path: Path, out: str | None, names: list[str]
):
    asked = tmp_path / out if out else None
    with joined_at(place, asked) as one, joined_at(place, asked) as two:
        assert [one.name, two.name] == [name.format(host=BEFORE.host.hostname) for name in names]


def test_where_they_meet_is_kept_as_it_is_from_any_folder(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with joined_at(Path("shared")) as here:
        assert (here.shown, here.place) == ("shared", str(place))


# --- where another host finishes -------------------------------------------------------------


@pytest.fixture
def whole(place: Path) -> Run:
    """What a host has found and written, that has finished the search alone."""
    found = BEFORE.changed(status=RunStatus.FINISHED)
    with joined_at(place) as first:
        assert first.book.turn(Phase.FINISH) is Turn.OURS
        with RunFolder(first.book.folder) as folder:
            folder.save(found)
        (first.book.folder / "report.html").write_text("")
        assert first.book.end(Phase.FINISH, found)
    return found


def test_who_measured_nothing_finds_the_whole_run_in_the_others_folder(
    place: Path, whole: Run, monkeypatch: pytest.MonkeyPatch
):
    with joined_at(place) as late:
        assert late.holds_nothing_of_its_own(whole)
        assert late.report_folder == place / BEFORE.host.hostname
        monkeypatch.chdir(place)
        assert late.report_folder == Path(BEFORE.host.hostname)
        late.book.trials_run = 1
        assert not late.holds_nothing_of_its_own(whole)


@pytest.mark.parametrize("missing", ["report.html", "run.json"])
def test_what_can_not_be_read_from_here_is_kept_here(place: Path, whole: Run, missing: str):
    (place / BEFORE.host.hostname / missing).unlink()
    with joined_at(place) as late:
        assert not late.holds_nothing_of_its_own(whole)


def test_another_run_in_a_folder_of_that_name_is_not_the_answer(place: Path, whole: Run):
    with joined_at(place) as late:
        assert not late.holds_nothing_of_its_own(whole.changed(created_at="2020-01-01T00:00:00+00:00"))


@pytest.mark.parametrize("keeps", [True, False])
def test_a_folder_that_is_not_kept_is_gone_when_its_host_leaves(place: Path, keeps: bool):
    with joined_at(place) as late, RunFolder(late.book.folder) as folder:
        folder.save(BEFORE)
        late.keeps_folder = keeps
    assert late.book.folder.exists() is keeps
