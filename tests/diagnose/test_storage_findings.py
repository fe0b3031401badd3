"""Storage under the data set: what is warned of, and what just not."""

from collections.abc import Callable
from typing import Any

import pytest
from build_checkups import checkup, codes, found, only_finding, storage_of
from build_records import GIB, MIB
from finding_texts import texts_of

from tunekit.records.checkup import StorageKind

NETWORK, HDD, NVME, MEMORY = StorageKind.NETWORK, StorageKind.HDD, StorageKind.NVME, StorageKind.MEMORY
OF_500_GIB = {
    "ram_limit_bytes": 500 * GIB,
    "ram_total_bytes": 500 * GIB,
    "ram_available_bytes": 450 * GIB,
}
NOT_READ = {"sequential_mb_per_s": None, "random_mb_per_s": None, "measured_cold": None}
PROBLEM = "only 12.0 KiB could be read, too little to measure every rate"


def on(host: dict[str, Any] | None = None, **storage: Any):
    return checkup(storage=storage_of(**storage), **(host or {}))


ROWS = [
    on(kind=NETWORK, filesystem="nfs4", device=None),
    on(kind=NETWORK, filesystem=None, mount_point=None, device=None),
    on(random_mb_per_s=99.6, total_bytes=99_600_000_000),
    on(sequential_mb_per_s=50, files=1, total_bytes=MIB, is_walk_complete=False),
    on(sequential_mb_per_s=20, random_mb_per_s=0.4, measured_cold=False),
    on(OF_500_GIB, total_bytes=400 * GIB + 1),
    *(on(kind=kind, files=1_281_167, total_bytes=140_000_000_000) for kind in (NVME, StorageKind.UNKNOWN)),
    on(files=200_000, total_bytes=200_000, is_walk_complete=False),
    on(files=20_000, total_bytes=20_000 * 3000, sequential_mb_per_s=8.5, random_mb_per_s=6.0),
    on(files=9_000, total_bytes=9_000 * 64_000, random_mb_per_s=6.0),
    on(**NOT_READ, problem=PROBLEM),
]


def test_what_is_wrong_with_storage_is_told(golden: Callable[[str], object]):
    assert texts_of([only_finding(seen) for seen in ROWS]) == golden("storage.txt")


@pytest.mark.parametrize(
    "seen",
    [
        checkup(storage=()),
        *(on(kind=kind) for kind in (NVME, StorageKind.SSD, StorageKind.UNKNOWN)),
        on(random_mb_per_s=100.0),
        on(sequential_mb_per_s=100.0, random_mb_per_s=None),
        on(sequential_mb_per_s=None, random_mb_per_s=None),
        on(OF_500_GIB, total_bytes=400 * GIB),
        on(OF_500_GIB, total_bytes=450 * GIB, kind=MEMORY),
        # What is read once in a moment and fits memory is not slow.
        on(random_mb_per_s=2, files=40, total_bytes=59_999_999),
        on(random_mb_per_s=2, files=4, total_bytes=4 * MIB),
        on(files=10_000, total_bytes=10_000 * 128 * 1024),
        on(files=9_999, total_bytes=9_999),
        on(files=0, total_bytes=0),
        on(files=10_000, total_bytes=10_000, kind=MEMORY),
        on(kind=MEMORY, **NOT_READ, problem="the files are in memory: reading them uses no storage"),
    ],
)
def test_storage_that_suffices_is_no_finding(seen: Any):
    assert codes(seen) == []


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (on(sequential_mb_per_s=20, measured_cold=True), "slow-storage"),
        (on(random_mb_per_s=2, files=40, total_bytes=60_000_000), "slow-storage"),
        (on(random_mb_per_s=2, files=4, total_bytes=4 * MIB, is_walk_complete=False), "slow-storage"),
        (on(files=9_000, total_bytes=9_000 * 65_536, random_mb_per_s=6.0), "slow-storage"),
        (on(files=10_000, total_bytes=10_000 * 128 * 1024 - 1), "many-small-files"),
    ],
)
def test_what_is_just_too_slow_or_too_small(seen: Any, expected: str):
    assert codes(seen) == [expected]


@pytest.mark.parametrize("kind", [HDD, NETWORK])
def test_many_small_files_are_worse_where_opening_is_slow(kind: StorageKind):
    seen = found(on(kind=kind, files=1_281_167, total_bytes=140_000_000_000))
    assert [one.severity for one in seen if one.code == "many-small-files"] == ["warning"]


def test_every_data_set_has_findings_of_its_own():
    far = storage_of(path="/nas/train", kind=NETWORK, filesystem="nfs4")
    slow = storage_of(path="/data/val", random_mb_per_s=20.0)
    seen = found(checkup(storage=(far, slow, storage_of())))
    assert [(one.code, one.message.partition(" is ")[0]) for one in seen] == [
        ("network-storage", "/nas/train"),
        ("slow-storage", "the storage under /data/val"),
    ]
