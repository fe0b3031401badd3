"""Which workers and prefetch factors this host has the memory for: predicted, one cell each. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tunekit.memory.ram import (
    SAFE_BUFFER_SHARE,
    RamVerdict,
    buffer_bytes,
    buffer_verdict,
    oom_reason,
    ram_verdict,
)
from tunekit.records.host import Host
from tunekit.units import bytes_text

Limit = Literal["safe share of RAM", "RAM", "/dev/shm"]
"""What may stand against a loader."""

_PREFETCHES = (1, 2, 4, 8)


@dataclass(frozen=True)
class GridCell:
    """One loader's memory on one host; all predicted."""

    num_workers: int
    prefetch_factor: int | None
    """None without workers, which keep nothing ready."""
    buffer_bytes: int
    """Of the batches that the workers keep ready."""
    ram_bytes: int
    """Training process, workers and buffer."""
    verdict: RamVerdict
    limit: Limit | None
    """Which limit stands against it; None if it is safe."""
    why: str | None
    """The same in words, with its figure."""
    is_present: bool
    """Whether the loop has this loader now."""


@dataclass(frozen=True)
class _Point:
    num_workers: int
    prefetch_factor: int | None
    batch_size: int = 1
    """A batch counts as one sample."""


@dataclass(frozen=True)
class _Batch:
    data_bytes: float
    shared_bytes: float | None


def ram_grid(
    batch_bytes: float,
    main_base_bytes: int,
    worker_base_bytes: int,
    host: Host,
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
    points = []
    for workers in _workers(host.cpus, {workers for workers, _ in named}):
        points += (
            [_Point(workers, prefetch) for prefetch in sorted(prefetches)] if workers else [_Point(0, None)]
        )
    batch = _Batch(batch_bytes, batch_shared_bytes)
    return tuple(
        _cell(point, batch, main_base_bytes + point.num_workers * worker_base_bytes, host, present)
        for point in points
    )


def _workers(cpus: int, named: set[int]) -> list[int]:
    counts = {cpus, *named}
    count = 1
    while count <= cpus:
        counts.add(count)
        count *= 2
    return sorted({*counts, count})


def _cell(
    point: _Point, batch: _Batch, base_bytes: int, host: Host, present: tuple[int, int | None] | None
) -> GridCell:
    buffered = buffer_bytes(point, batch.data_bytes)
    verdict = ram_verdict(point, batch.data_bytes, base_bytes, host, batch.shared_bytes)
    why = oom_reason(point, batch.data_bytes, base_bytes, host, batch.shared_bytes)
    limit: Limit | None = None
    if verdict is RamVerdict.OOM:
        in_ram = buffer_verdict(buffered, base_bytes, host.ram_limit_bytes)
        limit = "RAM" if in_ram is RamVerdict.OOM else "/dev/shm"
    if verdict is RamVerdict.RISKY:
        limit = "safe share of RAM"
        safe_bytes = SAFE_BUFFER_SHARE * host.ram_limit_bytes
        why = (
            f"buffer {bytes_text(buffered)} (predicted) exceeds {SAFE_BUFFER_SHARE:.0%} of the RAM limit "
            f"({bytes_text(safe_bytes)})"
        )
    return GridCell(
        num_workers=point.num_workers,
        prefetch_factor=point.prefetch_factor,
        buffer_bytes=buffered,
        ram_bytes=base_bytes + buffered,
        verdict=verdict,
        limit=limit,
        why=why,
        is_present=present is not None
        and present[0] == point.num_workers
        and (not point.num_workers or present[1] == point.prefetch_factor),
    )
