"""What the data set lies on, held against what training reads."""

from tunekit.records.checkup import Checkup
from tunekit.records.finding import Finding, Severity
from tunekit.records.profile import Profile
from tunekit.records.storage import Storage, StorageKind
from tunekit.units import KIB, bytes_text, count_text, duration_text

_SLOW_MB_PER_S = 100.0
"""About 900 ImageNet pictures of 110 kB a second."""
_SHORT_READ_S = 30.0
"""Whoever waits no longer than this, once, for files that memory keeps afterwards has no problem."""
_SMALL_FILE_BYTES = 128 * KIB
_TINY_FILE_BYTES = 64 * KIB
"""Below it a low rate is what opening the files costs, on the fastest disk too."""
_MANY_FILES = 10_000
_CACHEABLE_SHARE = 0.8
"""Of the RAM limit; the rest is needed for training itself."""


def storage_findings(checkup: Checkup, profile: Profile | None) -> list[Finding]:
    """Return what is wrong with the storage under each data set."""
    ram_bytes = checkup.host.ram_limit_bytes
    found = [finding for storage in checkup.storage for finding in _findings_of(storage, ram_bytes)]
    return [finding for finding in found if finding is not None]


def _findings_of(storage: Storage, ram_bytes: int) -> list[Finding | None]:
    if storage.kind is StorageKind.NONE:
        return [_no_storage(storage)]
    return [
        _kind(storage),
        _slow(storage, ram_bytes),
        _larger_than_ram(storage, ram_bytes),
        _small_files(storage, ram_bytes),
        _not_measured(storage),
    ]


def _no_storage(storage: Storage) -> Finding:
    return Finding(
        code="no-storage",
        severity=Severity.INFO,
        message=f"{storage.path} is no storage: the kernel makes up its files",
        evidence=_where(storage),
        remedy="name the folder that training reads with --data",
    )


def _where(storage: Storage) -> str:
    where = f"{storage.path} is on {storage.filesystem or 'an unknown file system'}"
    return where + (f", mounted at {storage.mount_point}" if storage.mount_point else "")


def _kind(storage: Storage) -> Finding | None:
    if storage.is_network:
        return Finding(
            code="network-storage",
            severity=Severity.WARNING,
            message=(
                f"{storage.path} is read over a network: every epoch pays its latency, and others share it"
            ),
            evidence=_where(storage),
            remedy="copy it to a local disk, or pack it into large shards and read ahead with more workers",
        )
    if storage.kind is StorageKind.HDD:
        return Finding(
            code="spinning-disk",
            severity=Severity.WARNING,
            message=f"{storage.path} is on a spinning disk: shuffled reads of small files are seeks",
            evidence=_where(storage) + (f", disk {storage.device}" if storage.device else ""),
            remedy="copy it to an SSD, or pack it into large shards that are read in sequence",
        )
    return None


def _slow_rate(storage: Storage, ram_bytes: int) -> float | None:
    """Return the lower of the rates in MB/s if it makes training wait, else None."""
    told = [rate for rate in (storage.sequential_mb_per_s, storage.random_mb_per_s) if rate is not None]
    if not told or storage.measured_cold is False or min(told) >= _SLOW_MB_PER_S:
        return None
    is_kept = storage.is_walk_complete and storage.total_bytes <= _CACHEABLE_SHARE * ram_bytes
    return None if is_kept and _epoch_s(storage, min(told)) < _SHORT_READ_S else min(told)


def _epoch_s(storage: Storage, mb_per_s: float) -> float:
    return storage.total_bytes / (mb_per_s * 1e6)


def _rates_evidence(storage: Storage, mb_per_s: float) -> str:
    at_least = "" if storage.is_walk_complete else "at least "
    return (
        f"{storage.rates_text}; reading all {bytes_text(storage.total_bytes)} once at the lower rate "
        f"takes {at_least}{duration_text(_epoch_s(storage, mb_per_s))}"
    )


def _slow(storage: Storage, ram_bytes: int) -> Finding | None:
    rate, mean = _slow_rate(storage, ram_bytes), storage.mean_file_bytes
    if rate is None or (mean is not None and mean < _TINY_FILE_BYTES):
        return None
    return Finding(
        code="slow-storage",
        severity=Severity.WARNING,
        message=f"the storage under {storage.path} is slow",
        evidence=_rates_evidence(storage, rate),
        remedy="move the data to faster storage, read ahead with more workers, or keep it smaller on disk",
        value=rate,
    )


def _larger_than_ram(storage: Storage, ram_bytes: int) -> Finding | None:
    if storage.kind is StorageKind.MEMORY or storage.total_bytes <= _CACHEABLE_SHARE * ram_bytes:
        return None
    return Finding(
        code="data-larger-than-ram",
        severity=Severity.INFO,
        message=(
            f"{storage.path} does not fit the page cache: every epoch reads storage again, and a short "
            "measurement that re-reads a part of it is too fast"
        ),
        evidence=f"{bytes_text(storage.total_bytes)} of files, {bytes_text(ram_bytes)} RAM may be used",
        remedy="trust rates of cold reads only; keep the data on fast local storage",
        value=storage.total_bytes,
    )


def _small_files(storage: Storage, ram_bytes: int) -> Finding | None:
    mean, rate = storage.mean_file_bytes, _slow_rate(storage, ram_bytes)
    if mean is None or storage.kind is StorageKind.MEMORY:
        return None
    is_slowed = rate is not None and mean < _TINY_FILE_BYTES
    if not is_slowed and (storage.files < _MANY_FILES or mean >= _SMALL_FILE_BYTES):
        return None
    is_far = storage.is_network or storage.kind is StorageKind.HDD
    count = count_text(storage.files, "file") + ("" if storage.is_walk_complete else " or more")
    rates = f"; {_rates_evidence(storage, rate)}" if is_slowed and rate is not None else ""
    return Finding(
        code="many-small-files",
        severity=Severity.WARNING if is_far or is_slowed else Severity.INFO,
        message=f"{storage.path} is many small files: opening them costs more than reading them",
        evidence=f"{count} of {bytes_text(mean)} on average{rates}",
        remedy="pack them into shards (WebDataset, zarr shards, Parquet, LMDB)",
        value=storage.files,
    )


def _not_measured(storage: Storage) -> Finding | None:
    if storage.measured_cold is False:
        return Finding(
            code="storage-measured-warm",
            severity=Severity.INFO,
            message=f"{storage.path} stayed in the page cache while it was read: the rate is the memory's",
            evidence=storage.rates_text,
            remedy="measure on a data set that was not read lately, or after a reboot",
        )
    if storage.problem is None or storage.kind is StorageKind.MEMORY:
        return None
    is_partial = storage.sequential_mb_per_s is not None or storage.random_mb_per_s is not None
    return Finding(
        code="storage-not-measured",
        severity=Severity.INFO,
        message=f"how fast {storage.path} can be read was {'only partly' if is_partial else 'not'} measured",
        evidence=storage.problem,
        remedy="name the whole data set with --data",
    )
