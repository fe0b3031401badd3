"""The run folders of hosts that share a search: each has its own, wherever they are asked to be."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from build_records import run

from tunekit.cli.share import joined
from tunekit.errors import UsageError

BEFORE = run(trials=())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "shared"


def folders_of(hosts: int, place: Path, out: Path | None) -> list[Path]:
    """Join as several hosts at once, and return the folder of each."""
    command = ("python", "train.py")
    with ExitStack() as stack:
        hosts_in = [joined(str(place), BEFORE, command, out, lambda said: None) for _ in range(hosts)]
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
