import os
import socket
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tunekit.errors import UsageError
from tunekit.machine.storage import data_files
from tunekit.machine.storage.data_files import DataFiles, walk


def still() -> float:
    return 0.0


def walked(path: Path, clock: Callable[[], float] = still, max_files: int = 1000) -> DataFiles:
    return walk(os.fsencode(path), 10.0, clock, max_files)


def write(folder: Path, *names: str, size_bytes: int = 10) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * size_bytes)


def test_a_tree_is_counted_whole(tmp_path: Path) -> None:
    write(tmp_path, "a", "deep/b", "deep/er/c")
    write(tmp_path, "empty", size_bytes=0)
    found = walked(tmp_path)
    assert (found.count, found.total_bytes, found.is_complete, found.problem) == (4, 30, True, None)
    assert [Path(os.fsdecode(file.path)).name for file in found.sample] == ["a", "b", "c"]


def test_links_to_files_and_folders_count_and_circles_end(tmp_path: Path) -> None:
    write(tmp_path, "store/a", "store/b")
    data = tmp_path / "data"
    data.mkdir()
    (data / "one").symlink_to("../store/a")
    (data / "all").symlink_to("../store")
    (data / "again").symlink_to("../store")
    (data / "circle").symlink_to(".")
    (data / "self").symlink_to("self")
    (data / "nowhere").symlink_to("nothing")
    (tmp_path / "store/up").symlink_to("../data")
    found = walked(data)
    assert (found.count, found.is_complete, found.problem) == (3, True, None)


def test_pipes_sockets_and_devices_are_neither_counted_nor_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    write(tmp_path, "a")
    with socket.socket(socket.AF_UNIX) as ear:
        ear.bind(os.path.relpath(tmp_path / "ear"))
        assert walked(tmp_path).count == 1


def test_a_walk_ends_at_the_most_files(tmp_path: Path) -> None:
    write(tmp_path, *(f"{number}" for number in range(12)))
    found = walked(tmp_path, max_files=5)
    assert (found.count, found.is_complete) == (5, False)
    assert walked(tmp_path, max_files=12).count == 12
    assert walked(tmp_path, max_files=13).is_complete


def test_a_walk_ends_in_time(tmp_path: Path) -> None:
    write(tmp_path, *(f"{number:03}" for number in range(200)))
    ticks = count(0, 6)
    found = walked(tmp_path, lambda: float(next(ticks)))
    assert 0 < found.count < 200
    assert not found.is_complete


def test_the_sample_is_bounded_and_drawn_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "MAX_SAMPLE", 20)
    write(tmp_path, *(f"{number:03}" for number in range(300)))
    found = walked(tmp_path)
    places = [file.path for file in found.sample]
    order = [os.path.join(os.fsencode(tmp_path), entry) for entry in os.listdir(os.fsencode(tmp_path))]  # noqa: PTH118, PTH208
    assert len(set(places)) == 20
    assert [order.index(place) for place in places] == sorted(order.index(place) for place in places)
    assert max(order.index(place) for place in places) > 150


def test_a_folder_that_can_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a", "closed/b", "gone/c")
    real = os.scandir

    def guarded(folder: bytes) -> object:
        if folder.endswith(b"closed"):
            raise PermissionError(13, "Permission denied", folder)
        if folder.endswith(b"gone"):
            raise FileNotFoundError(2, "No such file or directory", folder)
        return real(folder)

    monkeypatch.setattr(os, "scandir", guarded)
    found = walked(tmp_path)
    assert (found.count, found.is_complete) == (1, False)
    assert found.problem == f"{tmp_path}/closed: Permission denied"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "No such file.*give the file or folder"),
        ("loop", "Too many levels.*give the file or folder"),
        ("pipe", "got a device, pipe or socket.*give the file or folder"),
        ("zero\0byte", "null.*give the file or folder"),
    ],
)
def test_what_is_no_data_set_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=message):
        walked(tmp_path / name)
