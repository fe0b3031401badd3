"""Checks whether a data set's storage is fast enough for training."""

from tunekit.diagnose.machine import DataSet
from tunekit.diagnose.policy import (
    CACHEABLE_SHARE,
    MANY_FILES,
    SHORT_READ_S,
    SLOW_MB_PER_S,
    SMALL_FILE_BYTES,
    TINY_FILE_BYTES,
)
from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check
from tunekit.records.checkup import Storage, StorageKind
from tunekit.units import bytes_text, count_text, duration_text


@check("network-storage", WARNING, "{} is read over a network: every epoch pays its latency")
def _network_storage(data: DataSet) -> Hits:
    if data.storage.is_network:
        seen = f"{data.storage.filesystem or 'n/a'}, mounted at {data.storage.mount_point or 'n/a'}"
        yield Hit(
            seen, "copy it to a local disk, or pack it into large shards and read ahead with more workers"
        )


def _slow_rate(data: DataSet) -> float | None:
    """Return the lower of the rates in MB/s if it may make training wait, else None."""
    storage = data.storage
    rates = [rate for rate in (storage.sequential_mb_per_s, storage.random_mb_per_s) if rate is not None]
    if not rates or storage.measured_cold is False or min(rates) >= SLOW_MB_PER_S:
        return None
    is_kept = storage.is_walk_complete and storage.total_bytes <= CACHEABLE_SHARE * data.ram_bytes
    return None if is_kept and storage.total_bytes < SHORT_READ_S * min(rates) * 1e6 else min(rates)


def _rates_text(storage: Storage, mb_per_s: float) -> str:
    at_least = "" if storage.is_walk_complete else "at least "
    read_s = duration_text(storage.total_bytes / (mb_per_s * 1e6))
    return f"{storage.rates_text}; reading all {bytes_text(storage.total_bytes)} takes {at_least}{read_s}"


@check("slow-storage", WARNING, "the storage under {} is slow")
def _slow_storage(data: DataSet) -> Hits:
    rate, mean = _slow_rate(data), data.storage.mean_file_bytes
    if rate is not None and (mean is None or mean >= TINY_FILE_BYTES):
        remedy = "move the data to faster storage, read ahead with more workers, or keep it smaller on disk"
        yield Hit(_rates_text(data.storage, rate), remedy, rate)


@check(
    "data-larger-than-ram", INFO, "{} does not fit the page cache: every epoch reads it from storage again"
)
def _data_larger_than_ram(data: DataSet) -> Hits:
    storage = data.storage
    if storage.kind is not StorageKind.MEMORY and storage.total_bytes > CACHEABLE_SHARE * data.ram_bytes:
        seen = f"{bytes_text(storage.total_bytes)} of files, {bytes_text(data.ram_bytes)} RAM are usable"
        yield Hit(seen, "keep the data on fast local storage", storage.total_bytes)


@check("many-small-files", (WARNING, INFO), "{} is many small files, whose opening takes most of the time")
def _many_small_files(data: DataSet) -> Hits:
    storage, mean, rate = data.storage, data.storage.mean_file_bytes, _slow_rate(data)
    if mean is None or storage.kind is StorageKind.MEMORY:
        return
    is_slowed = rate is not None and mean < TINY_FILE_BYTES
    if not is_slowed and (storage.files < MANY_FILES or mean >= SMALL_FILE_BYTES):
        return
    is_far = storage.is_network or storage.kind is StorageKind.HDD
    count = count_text(storage.files, "file") + ("" if storage.is_walk_complete else " or more")
    rates = f"; {_rates_text(storage, rate)}" if is_slowed and rate is not None else ""
    yield Hit(
        f"{count} of {bytes_text(mean)} on average{rates}",
        "pack them into shards (WebDataset, zarr shards, Parquet, LMDB)",
        storage.files,
        severity=WARNING if is_far or is_slowed else INFO,
    )


@check("storage-not-measured", INFO, "how fast {} can be read was not fully measured")
def _storage_not_measured(data: DataSet) -> Hits:
    storage = data.storage
    problem = (
        f"{storage.rates_text}, from the page cache" if storage.measured_cold is False else storage.problem
    )
    if storage.kind is not StorageKind.MEMORY and problem is not None:
        yield Hit(problem, "`tunekit doctor --data PATH` measures it, cold if it was not read lately")
