"""The RAM buffer of a loader before it is built: predicted bytes and a verdict."""

import math
from enum import StrEnum
from typing import Protocol

from tunekit.records.host import Host
from tunekit.records.measurement import LoopMeasurement
from tunekit.units import bytes_text

SAFE_BUFFER_SHARE = 0.20
"""A buffer up to this share of the RAM limit is safe: the rest serves page cache, forks, spikes."""

OOM_SHARE = 0.85
"""Base and buffer above this share of the RAM limit count as out of memory."""


class RamVerdict(StrEnum):
    """What a loader's buffer means for this host."""

    SAFE = "Safe"
    RISKY = "Risky"
    OOM = "OOM"


class Loader(Protocol):
    """What a loader's memory follows from: a config, a plan or a measured loop."""

    @property
    def num_workers(self) -> int:
        """Of one training process."""

    @property
    def prefetch_factor(self) -> int | None:
        """Batches that each worker keeps ready."""


class BatchLoader(Loader, Protocol):
    """A loader with the batch that it makes."""

    @property
    def batch_size(self) -> int:
        """Samples in it."""


def buffer_bytes(loader: Loader, batch_bytes: float) -> int:
    """Return the RAM that one training process's loader holds: workers x prefetch batches.

    Args:
        loader: its workers and prefetch.
        batch_bytes: of a batch while it waits: `held_per_sample` of its samples.
    """
    return round(loader.num_workers * (loader.prefetch_factor or 0) * batch_bytes)


class Pinning(Protocol):
    """What decides about a batch in pinned memory: a config, or a measured loop."""

    @property
    def batch_size(self) -> int | None:
        """Samples in it."""

    @property
    def pin_memory(self) -> bool:
        """Whether the loader copies it there."""


def pinned_growth(loader: Pinning, loop: LoopMeasurement) -> float:
    """Return how many times its data a batch takes while it waits: 1, or more in pinned memory.

    There all of workers x prefetch batches come to wait, and stay taken: torch's host allocator gives each
    tensor a block of the next power of two, and keeps every block. PYTORCH_ALLOC_CONF's
    pinned_max_round_threshold_mb, which newer versions know, is not counted on.

    Args:
        loader: whose batches.
        loop: measured on this device with any loader of the same data.
    """
    batch, samples = loop.batch, loader.batch_size
    if not loader.pin_memory or loop.device.type != "cuda" or batch is None or samples is None:
        return 1.0
    scale = samples / batch.samples
    tensors = [round(leaf.bytes * scale) for leaf in batch.leaves if leaf.kind == "tensor"]
    added_bytes = sum((1 << (size - 1).bit_length()) - size for size in tensors if size)
    data_bytes = batch.total_bytes * scale
    return 1 + added_bytes / data_bytes if data_bytes else 1.0


def held_per_sample(loader: Pinning, loop: LoopMeasurement) -> float:
    """Return what one sample of a batch takes while it waits, in bytes: see `pinned_growth`."""
    return loop.bytes_per_sample * pinned_growth(loader, loop)


def held_bytes(loop: LoopMeasurement) -> float:
    """Return what a batch of a measured loop takes while it waits."""
    return loop.batch_bytes * pinned_growth(loop, loop)


def queue_bytes(loader: Loader, batch_bytes: float) -> int:
    """Return the bytes in /dev/shm once the queue is full: workers x prefetch + 1 batches.

    The last one is the batch that the training process holds.
    """
    if loader.num_workers == 0:
        return 0
    return round((loader.num_workers * (loader.prefetch_factor or 0) + 1) * batch_bytes)


def buffer_verdict(buffered_bytes: int, base_bytes: int, ram_limit_bytes: int) -> RamVerdict:
    """Return what a buffer means for a machine's RAM, /dev/shm left aside.

    Args:
        buffered_bytes: of all loaders that share the limit.
        base_bytes: host memory of their processes without the buffer; 0 if unknown.
        ram_limit_bytes: what may be used.
    """
    if base_bytes + buffered_bytes > math.floor(OOM_SHARE * ram_limit_bytes):
        return RamVerdict.OOM
    return RamVerdict.SAFE if buffered_bytes <= SAFE_BUFFER_SHARE * ram_limit_bytes else RamVerdict.RISKY


def fits_shm(queued_bytes: int, host: Host) -> bool:
    """Return whether /dev/shm has room for a full queue beside what others keep there."""
    return not queued_bytes or host.shm_free_bytes is None or queued_bytes <= host.shm_free_bytes


def ram_verdict(
    loader: BatchLoader,
    bytes_per_sample: float,
    base_bytes: int,
    host: Host,
    shared_per_sample: float | None = None,
) -> RamVerdict:
    """Return the verdict on a loader's buffer.

    Args:
        loader: a config, or another loader with its batch.
        bytes_per_sample: of one sample in a batch that waits, see `held_per_sample`.
        base_bytes: host memory of the process tree without the buffer.
        host: its RAM limit and what is free of /dev/shm are the limits.
        shared_per_sample: what one sample takes in /dev/shm: whole pages of tensors; None where that is not
            known to be another figure.
    """
    if not fits_shm(_queued_bytes(loader, bytes_per_sample, shared_per_sample), host):
        return RamVerdict.OOM
    buffered_bytes = buffer_bytes(loader, loader.batch_size * bytes_per_sample)
    return buffer_verdict(buffered_bytes, base_bytes, host.ram_limit_bytes)


def oom_reason(
    loader: BatchLoader,
    bytes_per_sample: float,
    base_bytes: int,
    host: Host,
    shared_per_sample: float | None = None,
) -> str | None:
    """Return why a loader must not be started on this host, with the figures; None if it may.

    The arguments are those of `ram_verdict`.
    """
    buffered = buffer_bytes(loader, loader.batch_size * bytes_per_sample)
    if buffer_verdict(buffered, base_bytes, host.ram_limit_bytes) is RamVerdict.OOM:
        limit_bytes = math.floor(OOM_SHARE * host.ram_limit_bytes)
        return (
            f"base {bytes_text(base_bytes)} + buffer {bytes_text(buffered)} (predicted) exceed "
            f"{OOM_SHARE:.0%} of the RAM limit ({bytes_text(limit_bytes)})"
        )
    queued = _queued_bytes(loader, bytes_per_sample, shared_per_sample)
    if not fits_shm(queued, host):
        return (
            f"the loader's queue needs {bytes_text(queued)} of /dev/shm (predicted), "
            f"which has {shm_text(host)}"
        )
    return None


def _queued_bytes(loader: BatchLoader, bytes_per_sample: float, shared_per_sample: float | None) -> int:
    per_sample = bytes_per_sample if shared_per_sample is None else shared_per_sample
    return queue_bytes(loader, loader.batch_size * per_sample)


def shm_text(host: Host) -> str:
    """Return what /dev/shm has, such as "4.0 GiB free of 16.0 GiB"; its size alone where none is taken."""
    if not host.shm_used_bytes:
        return bytes_text(host.shm_bytes)
    return f"{bytes_text(host.shm_free_bytes)} free of {bytes_text(host.shm_bytes)}"
