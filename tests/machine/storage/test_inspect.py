import os
import random
from itertools import count
from pathlib import Path

import pytest

from tunekit.machine.storage import read_probe
from tunekit.machine.storage.inspect import inspect_storage
from tunekit.records.checkup import Storage, StorageKind
from tunekit.units import KIB, MIB


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A copied tree in which everything lies on an NVMe drive and /nas is a file server's."""
    root = tmp_path / "machine"
    (root / "proc/self").mkdir(parents=True)
    disk = root / "sys/devices/nvme/nvme0/nvme0n1"
    (disk / "device").mkdir(parents=True)
    (disk / "device/model").write_text("Samsung SSD 990 PRO\n", encoding="utf-8")
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block/259:1").symlink_to(disk)
    return root


def mount(root: Path, *lines: str) -> None:
    (root / "proc/self/mountinfo").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def fill(folder: Path, files: int, size_bytes: int) -> None:
    chance = random.Random(7)
    for number in range(files):
        with (folder / f"{number:05}").open("wb") as file:
            file.write(chance.randbytes(size_bytes))
            os.fsync(file.fileno())


def measured(folder: Path, root: Path) -> Storage:
    """Measure on a disk, whatever the temporary folder lies on."""
    mount(root, "1 0 259:1 / / rw - ext4 /dev/root rw")
    return inspect_storage(folder, root=root)


def test_one_large_file_is_measured_both_ways(data: Path, machine: Path) -> None:
    fill(data, 1, 24 * MIB)
    storage = measured(data / "00000", machine)
    assert (storage.files, storage.total_bytes, storage.is_walk_complete) == (1, 24 * MIB, True)
    assert storage.mean_file_bytes == 24 * MIB
    assert storage.sequential_mb_per_s is not None
    assert storage.random_mb_per_s is not None
    assert storage.random_read_bytes == 64 * KIB
    assert 0 < storage.bytes_read <= 24 * MIB
    assert storage.problem is None
    assert (storage.filesystem, storage.mount_point, storage.device) == ("ext4", "/", "nvme0n1")
    assert storage.kind is StorageKind.NVME
    assert not storage.is_network


def test_a_store_of_small_chunks_is_measured_chunk_by_chunk(data: Path, machine: Path) -> None:
    fill(data, 300, 3000)
    storage = measured(data, machine)
    assert (storage.files, storage.mean_file_bytes) == (300, 3000)
    assert storage.random_read_bytes == 3000
    assert storage.random_mb_per_s is not None
    assert storage.bytes_read == 300 * 3000


def test_pages_leave_the_page_cache_before_storage_is_measured(data: Path, machine: Path) -> None:
    fill(data, 40, 100 * KIB)
    for path in data.iterdir():
        path.read_bytes()
    before = read_probe.fetched_bytes()
    storage = measured(data, machine)
    if read_probe.fetched_bytes() == before:
        pytest.skip("the file system of the temporary folder keeps its pages (tmpfs, overlay on tmpfs)")
    assert storage.measured_cold is True


def test_a_rate_from_the_page_cache_is_called_so(
    data: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(data, 40, 100 * KIB)
    counts = count(step=KIB)
    monkeypatch.setattr(read_probe, "fetched_bytes", lambda: next(counts))
    assert measured(data, machine).measured_cold is False


@pytest.mark.parametrize("made_up", ["proc", "sysfs"])
def test_links_out_of_what_the_kernel_makes_up_are_not_followed(
    tmp_path: Path, data: Path, machine: Path, made_up: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    fill(elsewhere, 3, 1000)
    (data / "cwd").symlink_to(elsewhere)
    for path in elsewhere.iterdir():
        (data / path.name).symlink_to(path)
    mount(machine, "1 0 259:1 / / rw - ext4 /dev/root rw", f"2 1 0:5 / {data} rw - {made_up} {made_up} rw")
    storage = inspect_storage(data, root=machine)
    assert (storage.filesystem, storage.mount_point, storage.device) == (made_up, str(data), None)
    assert (storage.kind, storage.files, storage.bytes_read) == (StorageKind.NONE, 0, 0)
    assert storage.problem == f"{made_up} is not storage: the kernel generates its files"


def test_the_mount_is_that_of_the_files_and_not_of_links_to_them(data: Path, machine: Path) -> None:
    store = data / "store"
    store.mkdir()
    fill(store, 3, 1000)
    links = data / "links"
    links.mkdir()
    for path in store.iterdir():
        (links / path.name).symlink_to(path)
    mount(machine, "1 0 259:1 / / rw - ext4 /dev/root rw", f"2 1 0:50 / {store} rw - nfs4 server:/x rw")
    storage = inspect_storage(links, root=machine)
    assert (storage.mount_point, storage.filesystem, storage.is_network) == (str(store), "nfs4", True)
    assert storage.path == str(links)


def test_files_that_can_not_be_opened_say_why(
    data: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(data, 4, 1000)

    def refusing(path: bytes, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refusing)
    storage = measured(data, machine)
    assert storage.files == 4
    assert storage.problem is not None
    assert storage.problem.startswith("only 0 B could be read, too little to measure every rate; ")
    assert storage.problem.endswith("Permission denied")
    assert storage.measured_cold is None


def test_the_budget_bounds_every_part(data: Path, machine: Path) -> None:
    fill(data, 2, 24 * MIB)
    mount(machine, "1 0 259:1 / / rw - ext4 /dev/root rw")
    ticks = count()
    storage = inspect_storage(data, 4.0, machine, clock=lambda: float(next(ticks)))
    # Half of the budget is two seconds: with a second between any two looks that is one block each way.
    assert storage.bytes_read <= 2 * MIB
    assert next(ticks) < 20


def test_nothing_in_the_data_set_changes(data: Path, machine: Path) -> None:
    fill(data, 30, 10 * KIB)
    paths = sorted(data.iterdir())
    before = [(10**9, 2 * 10**9, path.read_bytes()) for path in paths]
    for path in paths:
        os.utime(path, ns=(10**9, 2 * 10**9))
    assert measured(data, machine).bytes_read
    after = [(path.stat().st_atime_ns, path.stat().st_mtime_ns, path.read_bytes()) for path in paths]
    assert after == before
    assert sorted(data.iterdir()) == paths
