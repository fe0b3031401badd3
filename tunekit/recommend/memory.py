"""The memory that a config's batches need: the loader's buffer and the largest samples. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tunekit.predict.ram import base_ram, loader_ram, pinned_growth
from tunekit.records.config import TrainConfig
from tunekit.records.details import LargestSamples
from tunekit.records.host import Host
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import MemoryNeed
from tunekit.records.trial import TrialRecord


class SampleBytes(NamedTuple):
    """Bytes per sample for sizing the buffer, of the data set's largest samples if known."""

    data_bytes: float
    """Size in RAM while its batch waits, more than its data in pinned memory."""
    shared_bytes: float
    """Size in /dev/shm."""


def memory_need(config: TrainConfig, measured: Sequence[Measurement], host: Host) -> MemoryNeed:
    """Return the most memory that a config needed in any of its processes.

    Args:
        config: the config.
        measured: its processes, at least one.
        host: the share of the host that each rank can use.
    """
    sample, base_bytes = measured_sample(config, measured), max(map(base_ram_bytes, measured))
    ram = loader_ram(config, sample.data_bytes, base_bytes, host, sample.shared_bytes)
    peaks = [peak for one in measured if (peak := peak_reserved_bytes(one)) is not None]
    return MemoryNeed(
        peak_reserved_bytes=max(peaks, default=None),
        device_memory_bytes=measured[0].loop.device.usable_bytes,
        buffer_bytes=ram.buffer_bytes,
        buffer_verdict=ram.verdict if ram.buffer_bytes else None,
        held_bytes_per_sample=sample.data_bytes,
        shared_bytes_per_sample=sample.shared_bytes,
        base_ram_bytes=base_bytes,
        largest=largest_samples(measured),
    )


def base_ram_bytes(measurement: Measurement) -> int:
    """Return the RAM in bytes of one rank's processes as they ran, without the loader's buffer."""
    return base_ram(measurement).with_workers(measurement.loop.num_workers)


def measured_sample(config: TrainConfig, measured: Sequence[Measurement]) -> SampleBytes:
    """Return the bytes per sample that a config's processes measured (at least one process)."""
    largest = largest_samples(measured)
    loop = max((one.loop for one in measured), key=lambda loop: loop.bytes_per_sample)
    usual = loop.bytes_per_sample
    per_sample = max(usual, (largest.batch_bytes or 0) / config.batch_size if largest else 0.0)
    shared = loop.shared_bytes_per_sample * per_sample / usual if usual else 0.0
    return SampleBytes(per_sample * pinned_growth(config, loop), shared)


def largest_samples(measurements: Iterable[Measurement]) -> LargestSamples | None:
    """Return what was measured on samples of varying size, preferably by a process that trained on them."""
    seen = [one.details.largest for one in measurements if one.details and one.details.largest]
    varying = [one for one in seen if one.varies and one.batch_bytes is not None]
    return next((one for one in varying if one.survived), varying[0] if varying else None)


def peak_reserved_bytes(measurement: Measurement) -> int | None:
    """Return the most device memory that an epoch reserves, including on a batch of the largest samples."""
    largest = measurement.details.largest if measurement.details else None
    seen = (measurement.loop.peak_reserved_bytes, largest.peak_reserved_bytes if largest else None)
    return max([one + measurement.loop.growth_bytes for one in seen if one is not None], default=None)


def failed_on_largest_samples(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the trials that a batch of the largest samples ended."""
    return [record for record in records if record.failure is not None and record.failure.largest is not None]


def batches_text(seen: LargestSamples) -> str:
    """Return how large batches can get, such as "batches up to 3.1x the usual bytes (...)"."""
    times = "n/a" if seen.times_usual is None else f"{seen.times_usual:.1f}x"
    read = f"{seen.samples_read:,} of {seen.data_set_samples or 0:,} samples read"
    return f"batches up to {times} the usual bytes ({read})"
