"""The run folders of hosts that share a search: each has one, wherever they are asked to be."""

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from build_records import run

from tunekit.cli.share import joined
from tunekit.errors import UsageError
from tunekit.records.run import Run
from tunekit.session.folder import RunFolder
from tunekit.session.shared import SharedTrialStore

BEFORE = run(trials=())
HOST = BEFORE.host.hostname


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "shared"


def joined_at(
    place: Path, out: Path | None = None, before: Run = BEFORE
) -> AbstractContextManager[SharedTrialStore]:
    return joined(str(place), before, ("python", "train.py"), out)


def folders_of(hosts: int, place: Path, out: Path | None) -> list[Path]:
    """Join as several hosts at once, and return the folder of each."""
    with ExitStack() as stack:
        hosts_in = [joined_at(place, out) for _ in range(hosts)]
        return [stack.enter_context(one).folder for one in hosts_in]


def test_without_out_they_lie_where_the_hosts_meet(place: Path):
    assert folders_of(2, place, None) == [place / HOST, place / f"{HOST}-2"]


def test_hosts_that_are_asked_for_one_folder_have_one_each_beside_it(place: Path, tmp_path: Path):
    out = tmp_path / "runs" / "search"
    assert folders_of(2, place, out) == [out, out.with_name("search-2")]


@pytest.mark.parametrize("spelling", ["shared", "./other/../shared"])
def test_the_place_where_hosts_meet_is_no_run_folder(
    place: Path, tmp_path: Path, spelling: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--share and --out are both"):
        folders_of(1, place, Path(spelling))
    assert not place.exists()


@pytest.mark.parametrize(
    ("out", "names"), [(None, [HOST, f"{HOST}-2"]), ("runs/a", [f"{HOST} (a)", f"{HOST} (a-2)"])]
)
def test_hosts_of_one_machine_are_told_apart_by_their_folders(
    place: Path, tmp_path: Path, out: str | None, names: list[str]
):
    asked = tmp_path / out if out else None
    with joined_at(place, asked) as one, joined_at(place, asked) as two:
        assert [one.host, two.host] == names


def test_where_they_meet_is_kept_as_it_is_from_any_folder(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with joined_at(Path("shared")) as here:
        assert (here.address.shown, here.address.saved) == ("shared", str(place))


@pytest.mark.parametrize("keeps", [True, False])
def test_a_folder_that_is_not_kept_is_gone_when_its_host_leaves(place: Path, keeps: bool):
    with joined_at(place) as late, RunFolder(late.folder) as folder:
        folder.save(BEFORE)
        late.keeps_folder = keeps
    assert late.folder.exists() is keeps
