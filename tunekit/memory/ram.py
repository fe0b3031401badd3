"""The RAM buffer of a loader before it is built: predicted bytes and a verdict."""

import math
from enum import StrEnum

from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
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


def queue_bytes(config: TrainConfig, bytes_per_sample: float) -> int:
    """Return the bytes in /dev/shm once the queue is full: workers x prefetch + 1 batches."""
    if config.num_workers == 0:
        return 0
    return round((config.queue_batches + 1) * config.batch_size * bytes_per_sample)


def ram_verdict(config: TrainConfig, bytes_per_sample: float, base_bytes: int, host: Host) -> RamVerdict:
    """Return the verdict on a config's buffer.

    Args:
        config: the knobs.
        bytes_per_sample: of one sample in a batch.
        base_bytes: host memory of the process tree without the buffer.
        host: its RAM limit and /dev/shm size are the limits.
    """
    if oom_reason(config, bytes_per_sample, base_bytes, host) is not None:
        return RamVerdict.OOM
    safe_bytes = SAFE_BUFFER_SHARE * host.ram_limit_bytes
    return RamVerdict.SAFE if config.buffer_bytes(bytes_per_sample) <= safe_bytes else RamVerdict.RISKY


def oom_reason(config: TrainConfig, bytes_per_sample: float, base_bytes: int, host: Host) -> str | None:
    """Return why a config must not be started on this host, with the figures; None if it may."""
    buffer_bytes = config.buffer_bytes(bytes_per_sample)
    limit_bytes = math.floor(OOM_SHARE * host.ram_limit_bytes)
    if base_bytes + buffer_bytes > limit_bytes:
        return (
            f"base {bytes_text(base_bytes)} + buffer {bytes_text(buffer_bytes)} (predicted) exceed "
            f"{OOM_SHARE:.0%} of the RAM limit ({bytes_text(limit_bytes)})"
        )
    queue = queue_bytes(config, bytes_per_sample)
    if host.shm_bytes is not None and queue > host.shm_bytes:
        return (
            f"the loader's queue needs {bytes_text(queue)} of /dev/shm (predicted), "
            f"which has {bytes_text(host.shm_bytes)}"
        )
    return None
