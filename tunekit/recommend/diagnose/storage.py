"""What the data set lies on, held against what training reads."""

from tunekit.records.checkup import Checkup
from tunekit.records.finding import Finding, Severity
from tunekit.records.profile import Profile
from tunekit.records.storage import Storage, StorageKind
from tunekit.units import KIB, bytes_text, duration_text

_SLOW_MB_PER_S = 100.0
"""About 900 ImageNet pictures of 110 kB a second."""
_SMALL_FILE_BYTES = 128 * KIB
_MANY_FILES = 10_000
_CACHED_RAM_SHARE = 0.8
"""Of the memory; the page cache gets what processes leave, and they need some."""


def storage_findings(checkup: Checkup, profile: Profile | None) -> list[Finding]:
    """Return what is wrong with the storage under the data set."""
    storage = checkup.storage
    if storage is None:
        return []
    found = [
        _kind(storage),
        _slow(storage),
        _larger_than_ram(storage, checkup.host.ram_limit_bytes),
        _small_files(storage),
        _not_measured(storage),
    ]
    return [finding for finding in found if finding is not None]


def _kind(storage: Storage) -> Finding | None:
    where = f"{storage.path} is on {storage.filesystem or 'an unknown file system'}"
    where += f", mounted at {storage.mount_point}" if storage.mount_point else ""
    if storage.is_network:
        return Finding(
            code="network-storage",
            severity=Severity.WARNING,
            message="the data set is read over a network: every epoch pays its latency, and others share it",
            evidence=where,
            remedy="copy it to a local disk, or pack it into large shards and read ahead with more workers",
        )
    if storage.kind is StorageKind.HDD:
        return Finding(
            code="spinning-disk",
            severity=Severity.WARNING,
            message="the data set is on a spinning disk: shuffled reads of small files are seeks",
            evidence=where + (f", disk {storage.device}" if storage.device else ""),
            remedy="copy it to an SSD, or pack it into large shards that are read in sequence",
        )
    return None


def _slow(storage: Storage) -> Finding | None:
    told = [rate for rate in (storage.sequential_mb_per_s, storage.random_mb_per_s) if rate is not None]
    if not told or storage.measured_cold is False or min(told) >= _SLOW_MB_PER_S:
        return None
    rate = min(told)
    epoch_s = storage.total_bytes / (rate * 1e6)
    at_least = "" if storage.is_walk_complete else "at least "
    return Finding(
        code="slow-storage",
        severity=Severity.WARNING,
        message="the storage under the data set is slow",
        evidence=(
            f"{storage.rates_text}; reading all {bytes_text(storage.total_bytes)} once at the lower rate "
            f"takes {at_least}{duration_text(epoch_s)}"
        ),
        remedy="move the data to faster storage, read ahead with more workers, or keep it smaller on disk",
        value=rate,
    )


def _larger_than_ram(storage: Storage, ram_bytes: int) -> Finding | None:
    if storage.kind is StorageKind.MEMORY or storage.total_bytes <= _CACHED_RAM_SHARE * ram_bytes:
        return None
    return Finding(
        code="data-larger-than-ram",
        severity=Severity.INFO,
        message=(
            "the data set does not fit the page cache: every epoch reads storage again, and a short "
            "measurement that re-reads a part of it is too fast"
        ),
        evidence=f"{bytes_text(storage.total_bytes)} of files, {bytes_text(ram_bytes)} RAM may be used",
        remedy="trust rates of cold reads only; keep the data on fast local storage",
        value=storage.total_bytes,
    )


def _small_files(storage: Storage) -> Finding | None:
    mean = storage.mean_file_bytes
    if mean is None or storage.files < _MANY_FILES or mean >= _SMALL_FILE_BYTES:
        return None
    if storage.kind is StorageKind.MEMORY:
        return None
    far = storage.is_network or storage.kind is StorageKind.HDD
    count = f"{storage.files:,}" + ("" if storage.is_walk_complete else " or more")
    return Finding(
        code="many-small-files",
        severity=Severity.WARNING if far else Severity.INFO,
        message="the data set is many small files: opening them costs more than reading them",
        evidence=f"{count} files of {bytes_text(mean)} on average",
        remedy="pack them into shards (WebDataset, zarr shards, Parquet, LMDB)",
        value=storage.files,
    )


def _not_measured(storage: Storage) -> Finding | None:
    if storage.measured_cold is False:
        return Finding(
            code="storage-measured-warm",
            severity=Severity.INFO,
            message="the files stayed in the page cache while they were read: the rate is the memory's",
            evidence=storage.rates_text,
            remedy="measure on a data set that was not read lately, or after a reboot",
        )
    if storage.problem is None or storage.kind is StorageKind.MEMORY:
        return None
    is_partial = storage.sequential_mb_per_s is not None or storage.random_mb_per_s is not None
    return Finding(
        code="storage-not-measured",
        severity=Severity.INFO,
        message=f"how fast the data set can be read was {'only partly' if is_partial else 'not'} measured",
        evidence=storage.problem,
        remedy="name the whole data set with --data",
    )
