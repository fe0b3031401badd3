"""The RAM buffer of a loader before it is built: predicted bytes and a verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tunekit.records.checkup import LoaderPlan
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.machine_memory import OtherMachine
from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.records.recommendation import RamVerdict
from tunekit.units import bytes_text

SAFE_BUFFER_SHARE = 0.20
"""A buffer up to this share of the RAM limit is safe: the rest serves page cache, forks, spikes."""

OOM_SHARE = 0.85
"""Base and buffer above this share of the RAM limit count as out of memory."""


RamLimit = Literal["safe share of RAM", "RAM", "/dev/shm"]
"""What may stand against a loader."""


@dataclass(frozen=True)
class LoaderRam:
    """What a loader's buffer and queue mean for a host; predicted."""

    buffer_bytes: int
    """Of the batches that the workers keep ready."""
    verdict: RamVerdict
    limit: RamLimit | None
    """Which limit stands against it; None if it is safe."""
    why: str | None
    """The same in words, with its figure."""

    @property
    def why_oom(self) -> str | None:
        """Why the loader must not be started; None if it may."""
        return self.why if self.verdict is RamVerdict.OOM else None


class _OfBatches(NamedTuple):
    """A loader whose batch counts as one sample."""

    num_workers: int
    prefetch_factor: int | None
    batch_size: int = 1


RamLimits = Host | OtherMachine
"""What stands against a loader: a host, or a machine that is not here."""

BatchLoader = TrainConfig | _OfBatches
Loader = BatchLoader | LoaderPlan | LoopMeasurement
"""What a loader's memory follows from."""

Pinning = TrainConfig | LoopMeasurement
"""What decides about a batch in pinned memory."""


def buffer_bytes(loader: Loader, batch_bytes: float) -> int:
    """Return the RAM that one training process's loader holds: workers x prefetch batches.

    Args:
        loader: its workers and prefetch.
        batch_bytes: of a batch while it waits: `held_per_sample` of its samples.
    """
    return round(loader.num_workers * (loader.prefetch_factor or 0) * batch_bytes)


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


def fits_shm(queued_bytes: int, host: RamLimits) -> bool:
    """Return whether /dev/shm has room for a full queue beside what others keep there."""
    return not queued_bytes or host.shm_free_bytes is None or queued_bytes <= host.shm_free_bytes


def loader_ram(
    loader: BatchLoader,
    bytes_per_sample: float,
    base_bytes: int,
    host: RamLimits,
    shared_per_sample: float | None = None,
) -> LoaderRam:
    """Return what a loader's buffer and queue mean for a host.

    Args:
        loader: a config, or another loader with its batch.
        bytes_per_sample: of one sample in a batch that waits, see `held_per_sample`.
        base_bytes: host memory of the process tree without the buffer; 0 if unknown.
        host: its RAM limit and what is free of /dev/shm are the limits.
        shared_per_sample: what one sample takes in /dev/shm: whole pages of tensors; None where that is not
            known to be another figure.
    """
    buffered = buffer_bytes(loader, loader.batch_size * bytes_per_sample)
    queued = queue_bytes(
        loader, loader.batch_size * (bytes_per_sample if shared_per_sample is None else shared_per_sample)
    )
    verdict, limit_bytes = buffer_verdict(buffered, base_bytes, host.ram_limit_bytes), host.ram_limit_bytes
    taken = f"buffer {bytes_text(buffered)} (predicted)"
    if verdict is RamVerdict.OOM:
        limit = f"{OOM_SHARE:.0%} of the RAM limit ({bytes_text(math.floor(OOM_SHARE * limit_bytes))})"
        why = f"base {bytes_text(base_bytes)} + {taken}: above {limit}"
        return LoaderRam(buffered, verdict, "RAM", why)
    if not fits_shm(queued, host):
        why = f"queue {bytes_text(queued)} (predicted): above /dev/shm ({shm_text(host)})"
        return LoaderRam(buffered, RamVerdict.OOM, "/dev/shm", why)
    if verdict is RamVerdict.RISKY:
        limit = f"{SAFE_BUFFER_SHARE:.0%} of the RAM limit ({bytes_text(SAFE_BUFFER_SHARE * limit_bytes)})"
        return LoaderRam(buffered, verdict, "safe share of RAM", f"{taken}: above {limit}")
    return LoaderRam(buffered, verdict, None, None)


def shm_text(host: RamLimits) -> str:
    """Return what /dev/shm has, such as "4.0 GiB free of 16.0 GiB"; its size alone where none is taken."""
    if not host.shm_used_bytes:
        return bytes_text(host.shm_bytes)
    return f"{bytes_text(host.shm_free_bytes)} free of {bytes_text(host.shm_bytes)}"


@dataclass(frozen=True)
class BaseRam:
    """RAM of one rank's processes without the loader's buffer."""

    main_bytes: int = 0
    """Of all processes but the workers, with what the workers share with them; of the workers too where they
    were not measured apart."""
    worker_bytes: int = 0
    """Of each worker alone; 0 where they were not measured apart."""

    def with_workers(self, num_workers: int) -> int:
        """Return the bytes of the processes with that many workers."""
        return self.main_bytes + num_workers * self.worker_bytes


def base_ram(measurement: Measurement) -> BaseRam:
    """Return what a trial's processes took, each worker by itself where its details have that.

    A worker counts with its private memory: a data set that a fork left shared is there once, however many
    workers share it. Where workers write to it, if only the reference counts of Python objects, its pages
    become their own over an epoch; that comes on top and is not predicted.

    The rest is what the training process takes beside the full queue, or the rank's share of the tree's
    peak without these workers where that is more: then there were other processes, such as a validation's
    persistent workers or a compiler's. Of the buffer the peak holds only what waits in the workers' own
    memory, such as arrays and text, which go through a pipe. Tensors that wait in /dev/shm are mapped by no
    process, so no PSS counts them. The batch at hand is in the peak, and no part of workers x prefetch; so
    are the samples of which the workers were making batches.

    Where the workers were not measured apart, the base is the peak without that part, whatever the workers.
    """
    loop, details = measurement.loop, measurement.details
    queue = details.queue if details else None
    peak_bytes = measurement.memory.peak_pss_bytes // loop.world_size
    peak_bytes += loop.growth_bytes if loop.device.memory_bytes is None else 0
    # What one worker keeps for itself of the batches that it has ready.
    ready_bytes = (loop.prefetch_factor or 0) * (loop.batch.piped_bytes if loop.batch else 0)
    if queue is not None and queue.main_base_bytes is not None and queue.worker_base_bytes is not None:
        rest_bytes = peak_bytes - loop.num_workers * queue.worker_base_bytes
        in_worker_bytes = ready_bytes if queue.is_full else 0
        worker_bytes = queue.worker_base_bytes + queue.worker_growth_bytes - in_worker_bytes
        return BaseRam(max(queue.main_base_bytes, rest_bytes), max(0, worker_bytes))
    return BaseRam(max(0, peak_bytes - loop.num_workers * ready_bytes))


def predicted_base_ram(measured: Sequence[Measurement]) -> BaseRam:
    """Return what a config that never ran will take, by those that did: the one with details, else the least.

    Raises:
        ValueError: nothing was measured.
    """
    if not measured:
        raise ValueError("a base is predicted from measured trials, got none; measure one first")
    known = [base_ram(one) for one in measured]
    return next((base for base in known if base.worker_bytes), min(known, key=lambda base: base.main_bytes))


_PREFETCHES = (1, 2, 4, 8)


@dataclass(frozen=True)
class GridCell(LoaderRam):
    """The same of one number of workers and prefetch factor."""

    num_workers: int
    prefetch_factor: int | None
    """None without workers, which keep nothing ready."""
    ram_bytes: int
    """Training process, workers and buffer."""
    is_present: bool
    """Whether the loop has this loader now."""


def ram_grid(
    batch_bytes: float,
    main_base_bytes: int,
    worker_base_bytes: int,
    host: RamLimits,
    present: tuple[int, int | None] | None = None,
    batch_shared_bytes: float | None = None,
    others: Sequence[tuple[int, int | None]] = (),
) -> tuple[GridCell, ...]:
    """Return the cells of workers x prefetch, fewest workers first, then the smallest prefetch.

    The workers are 1, 2, 4, 8, ... up to the CPUs that may be used and one step beyond, with the CPUs'
    own number and the present one among them. 0 workers, where they are the present ones, are one cell.

    Args:
        batch_bytes: of the data of one batch.
        main_base_bytes: host memory of the training process without batches.
        worker_base_bytes: the same of one worker.
        host: of one rank, whose limits hold.
        present: workers and prefetch factor that the loop has now.
        batch_shared_bytes: what one batch takes in /dev/shm, where that is known to be another figure.
        others: workers and prefetch factors that have to be among them too.
    """
    named = (*((present,) if present else ()), *others)
    prefetches = {*_PREFETCHES, *(prefetch for _, prefetch in named if prefetch)}
    cells = []
    for workers in _workers(host.cpus, {workers for workers, _ in named}):
        base_bytes = main_base_bytes + workers * worker_base_bytes
        for prefetch in sorted(prefetches) if workers else (None,):
            ram = loader_ram(_OfBatches(workers, prefetch), batch_bytes, base_bytes, host, batch_shared_bytes)
            cells.append(
                GridCell(
                    **vars(ram),
                    num_workers=workers,
                    prefetch_factor=prefetch,
                    ram_bytes=base_bytes + ram.buffer_bytes,
                    is_present=(workers, prefetch) == present,
                )
            )
    return tuple(cells)


def _workers(cpus: int, named: set[int]) -> list[int]:
    doubled = [1]
    while doubled[-1] <= cpus:
        doubled.append(2 * doubled[-1])
    return sorted({cpus, *named, *doubled})
