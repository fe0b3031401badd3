"""Arrays as a loader reads them, and where to keep them: what is said, and what just not."""

from collections.abc import Callable

import pytest
from build_checkups import storage_of
from build_data import RATES, array_access
from build_records import GIB, MIB
from finding_texts import texts_of

from tunekit.diagnose.data_layout import data_findings
from tunekit.diagnose.places import places
from tunekit.records.checkup import StorageKind
from tunekit.records.data_layout import DataAccess, FilesOfKind, Place, PlaceKind

RAM = 500 * GIB
FEW = {"read_amplification": 7.9}
SLOW = RATES.changed(decode_mb_per_s=199)


def found(access: DataAccess) -> tuple:
    return data_findings(storage_of(), access, RAM)


def test_what_is_wrong_with_a_layout_is_reported(golden: Callable[[str], object]) -> None:
    arrays = (
        array_access(),
        array_access(**FEW, rates=SLOW),
        array_access(**FEW, chunks_per_sample=8, read_bytes_per_sample=8 * 1000),
    )
    assert texts_of(found(DataAccess(arrays=arrays))) == golden("data_layout.txt")


@pytest.mark.parametrize(
    "access",
    [
        DataAccess(arrays=(array_access(**FEW),)),
        DataAccess(arrays=(array_access(decoded_bytes=16 * MIB, rates=SLOW),)),
        DataAccess(arrays=(array_access(**FEW, rates=SLOW, codecs=()),)),
        DataAccess(arrays=(array_access(**FEW, chunks_per_sample=7, read_bytes_per_sample=7),)),
    ],
)
def test_what_is_good_is_not(access: DataAccess) -> None:
    assert not found(access)


def place_of(wanted: PlaceKind, *arguments: object, **storage: object) -> Place:
    seen = places(storage_of(**storage), DataAccess(arrays=(array_access(),)), *arguments)  # type: ignore[arg-type]
    return next(one for one in seen if one.kind is wanted)


def test_a_local_disk_saves_its_share_of_the_reading_time() -> None:
    local = storage_of(random_mb_per_s=400.0)
    far = {"kind": StorageKind.NETWORK, "random_mb_per_s": 40.0, "total_bytes": 8 * GIB}
    place = place_of(PlaceKind.LOCAL_DISK, local, 10 * GIB, None, None, **far)
    # Of the 5 ms of a cold sample, 1.67 ms are reading; a tenth of that remains.
    assert (place.verdict, place.speedup) == ("yes", pytest.approx(5 / (5 - (5 - 10 / 3) * 0.9)))
    assert place_of(PlaceKind.LOCAL_DISK, local, 9 * GIB, None, None, **far).verdict == "does not fit"
    same = far | {"random_mb_per_s": 390.0}
    assert place_of(PlaceKind.LOCAL_DISK, local, 10 * GIB, None, None, **same).verdict == "no gain"


def test_memory_needs_the_decoded_size() -> None:
    ram = [place_of(PlaceKind.RAM, None, 0, free, None) for free in (500 * MIB, 499 * MIB, None)]
    assert [one.verdict for one in ram] == ["yes", "does not fit", "unknown"]
    assert (ram[0].needs_bytes, ram[0].free_bytes, ram[0].speedup) == (400 * MIB, 400 * MIB, 5000)
    vram = [place_of(PlaceKind.VRAM, None, 0, None, size).verdict for size in (800 * MIB, 799 * MIB)]
    assert vram == ["yes", "does not fit"]


def test_whether_a_data_set_that_was_counted_in_part_fits_is_unknown() -> None:
    part = storage_of(is_walk_complete=False, total_bytes=GIB)
    access = DataAccess(kinds=(FilesOfKind(extension=".jpg", share=1.0, mean_bytes=1.0),))
    seen = places(part, access, storage_of(), 10 * GIB, 10 * GIB, 10 * GIB)
    assert [one.verdict for one in seen] == ["unknown"] * 3


def test_files_of_rare_kinds_need_memory_too() -> None:
    kinds = [FilesOfKind(extension=f".{one:03}", share=0.01, mean_bytes=MIB) for one in range(6)]
    parts = storage_of(files=100, total_bytes=100 * MIB)
    (ram,) = places(parts, DataAccess(kinds=tuple(kinds)), None, 0, GIB, None)
    assert ram.needs_bytes == 100 * MIB
