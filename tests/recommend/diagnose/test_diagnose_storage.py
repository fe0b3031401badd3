"""Storage under the data set: what is warned of, and what just not."""

from typing import Any

import pytest
from build_checkups import H200, checkup, codes, finding_of, only_finding, storage_of
from build_records import GIB, MIB

from tunekit.recommend.diagnose.storage import storage_findings
from tunekit.records.checkup import Checkup
from tunekit.records.finding import Severity
from tunekit.records.storage import StorageKind


def on(**overrides: Any) -> Checkup:
    return checkup(storage=storage_of(**overrides))


def test_without_a_data_set_nothing_is_said():
    assert storage_findings(checkup(storage=()), H200) == []


@pytest.mark.parametrize("kind", [StorageKind.NVME, StorageKind.SSD, StorageKind.UNKNOWN])
def test_a_local_disk_is_fine(kind: StorageKind):
    assert codes(on(kind=kind)) == []


def test_a_network_is_a_warning():
    finding = only_finding(on(kind=StorageKind.NETWORK, filesystem="nfs4", mount_point="/data", device=None))
    assert (finding.code, finding.severity) == ("network-storage", Severity.WARNING)
    assert finding.evidence == "/data/shards is on nfs4, mounted at /data"
    assert "local disk" in (finding.remedy or "")


def test_a_spinning_disk_is_a_warning():
    finding = only_finding(on(kind=StorageKind.HDD, device="sdb"))
    assert (finding.code, finding.severity) == ("spinning-disk", Severity.WARNING)
    assert finding.evidence == "/data/shards is on ext4, mounted at /data, disk sdb"
    assert "SSD" in (finding.remedy or "")


@pytest.mark.parametrize("kind", [StorageKind.NETWORK, StorageKind.HDD])
def test_what_is_not_known_of_the_storage_is_left_out(kind: StorageKind):
    finding = only_finding(on(kind=kind, filesystem=None, mount_point=None, device=None))
    assert finding.evidence == "/data/shards is on an unknown file system"


def test_slow_storage_is_a_warning_with_the_time_of_an_epoch():
    finding = only_finding(on(random_mb_per_s=99.6, total_bytes=99_600_000_000))
    assert (finding.code, finding.severity) == ("slow-storage", Severity.WARNING)
    assert finding.evidence == (
        "3,120 MB/s in sequence, 99.6 MB/s in random reads of 64.0 KiB; "
        "reading all 92.8 GiB once at the lower rate takes 16m 40s"
    )
    assert finding.value == 99.6
    assert "faster storage" in (finding.remedy or "")


def test_an_unfinished_walk_tells_the_least():
    finding = only_finding(on(sequential_mb_per_s=50, files=1, total_bytes=MIB, is_walk_complete=False))
    assert "takes at least 21 ms" in (finding.evidence or "")


@pytest.mark.parametrize(
    "rates",
    [
        {"random_mb_per_s": 100.0},
        {"sequential_mb_per_s": 100.0, "random_mb_per_s": None},
        {"sequential_mb_per_s": None, "random_mb_per_s": None},
    ],
)
def test_storage_that_is_fast_or_not_measured_is_not_slow(rates: dict[str, Any]):
    assert codes(on(**rates)) == []


@pytest.mark.parametrize("measured_cold", [True, None])
def test_rates_count_unless_they_are_known_to_be_the_caches(measured_cold: bool | None):
    assert codes(on(sequential_mb_per_s=20, measured_cold=measured_cold)) == ["slow-storage"]


def test_a_warm_measurement_is_a_note():
    finding = only_finding(on(sequential_mb_per_s=20, random_mb_per_s=0.4, measured_cold=False))
    assert (finding.code, finding.severity) == ("storage-measured-warm", Severity.INFO)
    assert finding.evidence == "20.0 MB/s in sequence, 0.40 MB/s in random reads of 64.0 KiB"
    assert "reboot" in (finding.remedy or "")


def test_data_that_memory_can_not_hold_is_a_note():
    memory = {"ram_limit_bytes": 500 * GIB, "ram_total_bytes": 500 * GIB, "ram_available_bytes": 450 * GIB}
    finding = only_finding(checkup(storage=storage_of(total_bytes=400 * GIB + 1), **memory))
    assert (finding.code, finding.severity) == ("data-larger-than-ram", Severity.INFO)
    assert finding.evidence == "400.0 GiB of files, 500.0 GiB RAM may be used"
    assert finding.value == 400 * GIB + 1
    assert "cold reads" in (finding.remedy or "")
    assert codes(checkup(storage=storage_of(total_bytes=400 * GIB), **memory)) == []
    in_memory = storage_of(total_bytes=450 * GIB, kind=StorageKind.MEMORY)
    assert codes(checkup(storage=in_memory, **memory)) == []


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        (StorageKind.NVME, Severity.INFO),
        (StorageKind.UNKNOWN, Severity.INFO),
        (StorageKind.HDD, Severity.WARNING),
        (StorageKind.NETWORK, Severity.WARNING),
    ],
)
def test_many_small_files_are_worse_where_opening_is_slow(kind: StorageKind, severity: Severity):
    finding = finding_of("many-small-files", on(kind=kind, files=1_281_167, total_bytes=140_000_000_000))
    assert finding.severity is severity
    assert finding.evidence == "1,281,167 files of 106.7 KiB on average"
    assert "shards" in (finding.remedy or "")
    assert finding.value == 1_281_167


def test_files_that_were_not_all_counted_are_at_least_so_many():
    finding = only_finding(on(files=200_000, total_bytes=200_000, is_walk_complete=False))
    assert finding.evidence == "200,000 files or more of 1 B on average"


def test_what_is_read_once_in_a_moment_and_fits_memory_is_not_slow():
    assert codes(on(random_mb_per_s=2, files=40, total_bytes=59_999_999)) == []
    assert codes(on(random_mb_per_s=2, files=40, total_bytes=60_000_000)) == ["slow-storage"]
    assert codes(on(random_mb_per_s=2, files=4, total_bytes=4 * MIB)) == []
    endless = on(random_mb_per_s=2, files=4, total_bytes=4 * MIB, is_walk_complete=False)
    assert codes(endless) == ["slow-storage"]


def test_what_memory_can_not_hold_is_slow_however_short_the_reading():
    small = {"ram_limit_bytes": GIB, "ram_total_bytes": GIB, "ram_available_bytes": GIB}
    seen = checkup(storage=storage_of(random_mb_per_s=99, files=10, total_bytes=GIB), **small)
    assert "slow-storage" in codes(seen)


def test_small_files_on_a_fast_disk_are_the_files_fault():
    finding = only_finding(
        on(files=20_000, total_bytes=20_000 * 3000, sequential_mb_per_s=8.5, random_mb_per_s=6.0)
    )
    assert (finding.code, finding.severity) == ("many-small-files", Severity.INFO)
    assert finding.evidence == "20,000 files of 2.9 KiB on average"


def test_small_files_that_make_training_wait_are_a_warning_with_the_time_of_an_epoch():
    finding = only_finding(on(files=9_000, total_bytes=9_000 * 64_000, random_mb_per_s=6.0))
    assert (finding.code, finding.severity) == ("many-small-files", Severity.WARNING)
    assert finding.evidence == (
        "9,000 files of 62.5 KiB on average; 3,120 MB/s in sequence, 6.00 MB/s in random reads of 64.0 KiB; "
        "reading all 549.3 MiB once at the lower rate takes 1m 36s"
    )
    assert codes(on(files=9_000, total_bytes=9_000 * 65_536, random_mb_per_s=6.0)) == ["slow-storage"]


def test_every_data_set_has_findings_of_its_own():
    far = storage_of(path="/nas/train", kind=StorageKind.NETWORK, filesystem="nfs4")
    slow = storage_of(path="/data/val", random_mb_per_s=20.0)
    found = storage_findings(checkup(storage=(far, slow, storage_of())), H200)
    assert [(one.code, one.message.split(" is ")[0]) for one in found] == [
        ("network-storage", "/nas/train"),
        ("slow-storage", "the storage under /data/val"),
    ]


def test_what_the_kernel_makes_up_is_a_note_of_its_own():
    finding = only_finding(
        on(path="/sys", kind=StorageKind.NONE, filesystem="sysfs", mount_point="/sys", files=0, total_bytes=0)
    )
    assert (finding.code, finding.severity) == ("no-storage", Severity.INFO)
    assert finding.message == "/sys is no storage: the kernel makes up its files"
    assert finding.evidence == "/sys is on sysfs, mounted at /sys"
    assert finding.remedy == "name the folder that training reads with --data"


@pytest.mark.parametrize(
    ("files", "total_bytes", "kind", "expected"),
    [
        (10_000, 10_000 * 128 * 1024 - 1, StorageKind.NVME, ["many-small-files"]),
        (10_000, 10_000 * 128 * 1024, StorageKind.NVME, []),
        (9_999, 9_999, StorageKind.NVME, []),
        (0, 0, StorageKind.NVME, []),
        (10_000, 10_000, StorageKind.MEMORY, []),
    ],
)
def test_how_many_files_are_many_and_small(
    files: int, total_bytes: int, kind: StorageKind, expected: list[str]
):
    assert codes(on(files=files, total_bytes=total_bytes, kind=kind)) == expected


@pytest.mark.parametrize(
    ("sequential", "message"), [(None, "was not measured"), (500.0, "was only partly measured")]
)
def test_a_rate_that_is_missing_is_a_note(sequential: float | None, message: str):
    problem = "12.0 KiB could be read, too little to tell every rate"
    finding = only_finding(
        on(sequential_mb_per_s=sequential, random_mb_per_s=None, measured_cold=None, problem=problem)
    )
    assert (finding.code, finding.severity) == ("storage-not-measured", Severity.INFO)
    assert message in finding.message
    assert finding.evidence == problem
    assert "--data" in (finding.remedy or "")


def test_files_in_memory_need_no_measurement():
    lying = on(
        kind=StorageKind.MEMORY,
        sequential_mb_per_s=None,
        random_mb_per_s=None,
        measured_cold=None,
        problem="the files lie in memory: reading them needs no storage",
    )
    assert codes(lying) == []


@pytest.mark.parametrize(
    ("rates", "text"),
    [
        ({}, "3,120 MB/s in sequence, 412 MB/s in random reads of 64.0 KiB"),
        ({"random_mb_per_s": None}, "3,120 MB/s in sequence"),
        ({"sequential_mb_per_s": None, "random_mb_per_s": 3.5}, "3.50 MB/s in random reads of 64.0 KiB"),
        ({"sequential_mb_per_s": None, "random_mb_per_s": None}, "n/a"),
    ],
)
def test_rates_in_one_line(rates: dict[str, Any], text: str):
    assert storage_of(**rates).rates_text == text
