"""Predicts the RAM that a loader's buffer needs, and whether it is safe."""

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
"""A buffer up to this share of the RAM limit is safe: the rest is for the page cache, forks and spikes."""

OOM_SHARE = 0.85
"""Base and buffer above this share of the RAM limit count as out of memory."""


RamLimit = Literal["safe share of RAM", "RAM", "/dev/shm"]
"""The limits that a loader may exceed."""


@dataclass(frozen=True)
class LoaderRam:
    """The predicted buffer of a loader and the verdict for a host."""

    buffer_bytes: int
    """Size of the batches that the workers keep ready."""
    verdict: RamVerdict
    limit: RamLimit | None
    """The limit that it exceeds; None if it is safe."""
    why: str | None
    """The exceeded limit in words, with the figures."""

    @property
    def why_oom(self) -> str | None:
        """Why the loader must not be started; None if it may be."""
        return self.why if self.verdict is RamVerdict.OOM else None


class _OfBatches(NamedTuple):
    """A loader whose sizes are counted in whole batches."""

    num_workers: int
    prefetch_factor: int | None
    batch_size: int = 1


RamLimits = Host | OtherMachine
"""Where a loader's limits come from: this host, or another machine."""

BatchLoader = TrainConfig | _OfBatches
Loader = BatchLoader | LoaderPlan | LoopMeasurement
"""Anything that defines a loader's workers and prefetch."""

Pinning = TrainConfig | LoopMeasurement
"""Anything that defines whether batches are pinned, and their size."""


def buffer_bytes(loader: Loader, batch_bytes: float) -> int:
    """Return the RAM of the batches that one training process's loader keeps ready: workers x prefetch.

    Args:
        loader: the loader with its workers and prefetch.
        batch_bytes: size of a waiting batch: its samples times `held_per_sample`.
    """
    return round(loader.num_workers * (loader.prefetch_factor or 0) * batch_bytes)


def pinned_growth(loader: Pinning, loop: LoopMeasurement) -> float:
    """Return a waiting batch's memory as a multiple of its data: 1, or more if it is pinned.

    All workers x prefetch batches end up in pinned memory and stay there: torch's host allocator rounds each
    tensor up to a power of two and never frees a block. PYTORCH_ALLOC_CONF's pinned_max_round_threshold_mb,
    which newer versions have, is ignored.

    Args:
        loader: the loader of the batches.
        loop: a loop measured on this device with any loader of the same data.
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
    """Return the bytes that one sample of a waiting batch takes; see `pinned_growth`."""
    return loop.bytes_per_sample * pinned_growth(loader, loop)


def held_bytes(loop: LoopMeasurement) -> float:
    """Return the bytes that a waiting batch of a measured loop takes."""
    return loop.batch_bytes * pinned_growth(loop, loop)


def queue_bytes(loader: Loader, batch_bytes: float) -> int:
    """Return the bytes in /dev/shm once the queue is full: workers x prefetch + 1 batches.

    The additional one is the batch that the training process holds.
    """
    if loader.num_workers == 0:
        return 0
    return round((loader.num_workers * (loader.prefetch_factor or 0) + 1) * batch_bytes)


def buffer_verdict(buffered_bytes: int, base_bytes: int, ram_limit_bytes: int) -> RamVerdict:
    """Return the verdict on a buffer for a machine's RAM, ignoring /dev/shm.

    Args:
        buffered_bytes: the buffers of all loaders that share the limit.
        base_bytes: host memory of their processes without the buffer; 0 if unknown.
        ram_limit_bytes: the RAM that may be used.
    """
    if base_bytes + buffered_bytes > math.floor(OOM_SHARE * ram_limit_bytes):
        return RamVerdict.OOM
    return RamVerdict.SAFE if buffered_bytes <= SAFE_BUFFER_SHARE * ram_limit_bytes else RamVerdict.RISKY


def fits_shm(queued_bytes: int, host: RamLimits) -> bool:
    """Return whether the free part of /dev/shm has room for a full queue."""
    return not queued_bytes or host.shm_free_bytes is None or queued_bytes <= host.shm_free_bytes


def loader_ram(
    loader: BatchLoader,
    bytes_per_sample: float,
    base_bytes: int,
    host: RamLimits,
    shared_per_sample: float | None = None,
) -> LoaderRam:
    """Return a loader's predicted buffer, and whether it and the queue fit a host.

    Args:
        loader: a config, or another loader with its batch size.
        bytes_per_sample: size of one sample in a waiting batch; see `held_per_sample`.
        base_bytes: host memory of the process tree without the buffer; 0 if unknown.
        host: provides the limits: RAM, and the free part of /dev/shm.
        shared_per_sample: size of one sample in /dev/shm, where tensors take whole pages; None to use
            `bytes_per_sample`.
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
    """Return the size of /dev/shm, such as "4.0 GiB free of 16.0 GiB"; only the total if nothing is used."""
    if not host.shm_used_bytes:
        return bytes_text(host.shm_bytes)
    return f"{bytes_text(host.shm_free_bytes)} free of {bytes_text(host.shm_bytes)}"


@dataclass(frozen=True)
class BaseRam:
    """RAM of one rank's processes without the loader's buffer."""

    main_bytes: int = 0
    """Memory of all processes except the workers, including memory shared with them; of the workers too if
    they were not measured separately."""
    worker_bytes: int = 0
    """Private memory of each worker; 0 if workers were not measured separately."""

    def with_workers(self, num_workers: int) -> int:
        """Return the memory of all processes with this number of workers."""
        return self.main_bytes + num_workers * self.worker_bytes


def base_ram(measurement: Measurement) -> BaseRam:
    """Return the memory of a trial's processes, with the workers separate if the trial's details have them.

    A worker counts with its private memory: a data set that is shared after a fork counts once, however many
    workers share it. If workers write to it, if only to the reference counts of Python objects, its pages
    become private over an epoch; that additional memory is not predicted.

    The rest is the training process's memory apart from the full queue, or, if larger, the rank's share of
    the tree's peak without these workers: then there were other processes, such as a validation's persistent
    workers or a compiler's. The peak includes only the part of the buffer that waits in the workers' own
    memory, such as arrays and text, which go through a pipe. Tensors waiting in /dev/shm are mapped by no
    process, so no PSS counts them. The peak also includes the current batch and the samples of unfinished
    batches, which are not part of workers x prefetch.

    If the workers were not measured separately, the base is the peak without the buffered part, for any
    number of workers.
    """
    loop, details = measurement.loop, measurement.details
    queue = details.queue if details else None
    peak_bytes = measurement.memory.peak_pss_bytes // loop.world_size
    peak_bytes += loop.growth_bytes if loop.device.memory_bytes is None else 0
    # The part of its ready batches that one worker keeps in its own memory.
    ready_bytes = (loop.prefetch_factor or 0) * (loop.batch.piped_bytes if loop.batch else 0)
    if queue is not None and queue.main_base_bytes is not None and queue.worker_base_bytes is not None:
        rest_bytes = peak_bytes - loop.num_workers * queue.worker_base_bytes
        in_worker_bytes = ready_bytes if queue.is_full else 0
        worker_bytes = queue.worker_base_bytes + queue.worker_growth_bytes - in_worker_bytes
        return BaseRam(max(queue.main_base_bytes, rest_bytes), max(0, worker_bytes))
    return BaseRam(max(0, peak_bytes - loop.num_workers * ready_bytes))


def predicted_base_ram(measured: Sequence[Measurement]) -> BaseRam:
    """Return the base of a config that never ran: that of a trial with details, else the smallest one.

    Raises:
        ValueError: nothing was measured.
    """
    if not measured:
        raise ValueError("a base is predicted from measured trials, but there are none; measure one first")
    known = [base_ram(one) for one in measured]
    return next((base for base in known if base.worker_bytes), min(known, key=lambda base: base.main_bytes))


_PREFETCHES = (1, 2, 4, 8)


@dataclass(frozen=True)
class GridCell(LoaderRam):
    """The verdict for one number of workers and prefetch factor."""

    num_workers: int
    prefetch_factor: int | None
    """None without workers, as no batches are kept ready."""
    ram_bytes: int
    """Memory of the training process, the workers and the buffer."""
    is_present: bool
    """Whether this is the loop's present loader."""


def ram_grid(
    batch_bytes: float,
    main_base_bytes: int,
    worker_base_bytes: int,
    host: RamLimits,
    present: tuple[int, int | None] | None = None,
    batch_shared_bytes: float | None = None,
    others: Sequence[tuple[int, int | None]] = (),
) -> tuple[GridCell, ...]:
    """Return the cells of workers x prefetch, sorted by workers, then by prefetch.

    The workers are 1, 2, 4, 8, ... up to one step beyond the usable CPUs, plus the number of CPUs and the
    present number. If the loop has 0 workers at present, they are a single cell.

    Args:
        batch_bytes: size of one waiting batch.
        main_base_bytes: host memory of the training process without batches.
        worker_base_bytes: host memory of one worker without batches.
        host: the host, or one rank's share of it, that provides the limits.
        present: the loop's present workers and prefetch factor.
        batch_shared_bytes: size of one batch in /dev/shm; None to use `batch_bytes`.
        others: further workers and prefetch factors to include.
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
