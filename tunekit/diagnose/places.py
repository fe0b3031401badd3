"""Where to keep a data set: on a local disk, in RAM or in the GPU's memory. Pure."""

from typing import Literal

from tunekit.diagnose.policy import CACHEABLE_SHARE, PLACE_GAIN, VRAM_SHARE
from tunekit.records.checkup import Storage
from tunekit.records.data_layout import DataAccess, Place, PlaceKind


def places(
    storage: Storage,
    access: DataAccess,
    local: Storage | None,
    local_free_bytes: int,
    ram_free_bytes: int | None,
    vram_bytes: int | None,
) -> tuple[Place, ...]:
    """Return a verdict on each place where the data set could be kept.

    Args:
        storage: where it is now.
        access: what reading it costs there.
        local: the local disk, measured; None if the data set is on it.
        local_free_bytes: free space there.
        ram_free_bytes: RAM that is not in use; None if unknown.
        vram_bytes: memory of the GPU; None without one.
    """
    found = []
    needs, spent_s = _decoded_bytes(storage, access), _sample_s(access)
    if local is not None:
        found.append(_local_disk(storage, spent_s, local, int(local_free_bytes * CACHEABLE_SHARE)))
    free = None if ram_free_bytes is None else int(ram_free_bytes * CACHEABLE_SHARE)
    cold_s, _, ram_s = spent_s
    gain = cold_s / ram_s if cold_s and ram_s else None
    is_whole = storage.is_walk_complete or bool(access.arrays)
    found.append(_place(PlaceKind.RAM, needs, free, gain, is_whole))
    if vram_bytes is not None:
        found.append(_place(PlaceKind.VRAM, needs, int(vram_bytes * VRAM_SHARE), None, is_whole))
    return tuple(found)


def _place(
    kind: PlaceKind,
    needs: int | None,
    free: int | None,
    gain: float | None,
    is_whole: bool,
    rates: tuple[float | None, float | None] = (None, None),
) -> Place:
    """Return a place with its verdict; unless `is_whole`, the data set needs at least so much."""
    verdict: Literal["yes", "no gain", "does not fit", "unknown"] = "yes"
    if needs is None or free is None:
        verdict = "unknown"
    elif needs > free:
        verdict = "does not fit"
    elif not is_whole:
        verdict = "unknown"
    elif gain is not None and gain < PLACE_GAIN:
        verdict = "no gain"
    return Place(
        kind=kind,
        verdict=verdict,
        needs_bytes=needs,
        free_bytes=free,
        speedup=gain,
        source_mb_per_s=rates[0],
        place_mb_per_s=rates[1],
    )


def _local_disk(storage: Storage, spent_s: tuple[float, float, float], local: Storage, free: int) -> Place:
    here, there, (cold_s, warm_s, _) = storage.random_mb_per_s, local.random_mb_per_s, spent_s
    gain = None
    if here and there and cold_s and warm_s:
        reading_s = max(0.0, cold_s - warm_s)  # the page cache saves it
        gain = cold_s / (cold_s - reading_s * (1 - here / there))
    place = _place(
        PlaceKind.LOCAL_DISK, storage.total_bytes, free, gain, storage.is_walk_complete, (here, there)
    )
    is_open = place.verdict == "yes" and gain is None and not storage.is_network
    return place.changed(verdict="unknown") if is_open else place


def _decoded_bytes(storage: Storage, access: DataAccess) -> int | None:
    if access.arrays:
        return None if access.arrays_left_out else sum(one.decoded_bytes for one in access.arrays)
    added = sum(one.share * (one.decoded_bytes - one.mean_bytes) for one in access.kinds if one.decoded_bytes)
    return max(0, round(storage.total_bytes + storage.files * added)) or None


def _sample_s(access: DataAccess) -> tuple[float, float, float]:
    """Return the seconds of one sample, cold, warm and in RAM; 0 where they were not measured.

    A sample of a store is one of each array that is as long as the largest; of a folder it is a file.
    """
    rates = [one.rates for one in access.arrays if one.shape[:1] == access.arrays[0].shape[:1]]
    terms: list[tuple[float, tuple[float | None, ...]]] = [
        *((1.0, (one.random_cold, one.random_warm, one.in_ram)) for one in rates),
        *((one.share, (one.cold_files_per_s, one.warm_files_per_s, None)) for one in access.kinds),
    ]
    cold_s, warm_s, ram_s = (
        sum(weight / rate for weight, each in terms if (rate := each[place])) for place in range(3)
    )
    return cold_s, warm_s, ram_s
