"""What a config's batches take in memory: the loader's buffer, and the data set's largest samples. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tunekit.predict.ram import RamVerdict, held_per_sample, loader_ram, pinned_growth
from tunekit.records.config import TrainConfig
from tunekit.records.details import LargestSamples
from tunekit.records.host import Host
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord


class SampleBytes(NamedTuple):
    """What a buffer counts with for one sample: of the data set's largest, where those are known."""

    data_bytes: float
    """While it waits: in pinned memory more than its data."""
    shared_bytes: float | None
    """In /dev/shm; None where it is not known to be another figure."""


class RamBuffer(NamedTuple):
    """A loader's full queues, predicted."""

    size_bytes: int
    verdict: RamVerdict | None
    """None for 0 bytes, which need none."""


def ram_buffer(config: TrainConfig, sample: SampleBytes, base_bytes: int, host: Host) -> RamBuffer:
    """Return the buffer of a config.

    Args:
        config: the knobs.
        sample: what one sample takes.
        base_bytes: RAM of its process tree without the buffer.
        host: what each rank can use.
    """
    ram = loader_ram(config, sample.data_bytes, base_bytes, host, sample.shared_bytes)
    return RamBuffer(ram.buffer_bytes, ram.verdict if ram.buffer_bytes else None)


def measured_sample(config: TrainConfig, measured: Sequence[Measurement]) -> SampleBytes:
    """Return what a sample of a config takes by its own processes, one at least."""
    largest = largest_samples(measured)
    loop = max((one.loop for one in measured), key=lambda loop: loop.bytes_per_sample)
    usual = loop.bytes_per_sample
    per_sample = max(usual, (largest.batch_bytes or 0) / config.batch_size if largest else 0.0)
    shared = loop.shared_bytes_per_sample * per_sample / usual if usual else 0.0
    return SampleBytes(per_sample * pinned_growth(config, loop), shared)


def baseline_sample(run: Run) -> SampleBytes:
    """Return what a sample of the baseline takes; nothing where it was not measured."""
    config, measured = run.baseline_config, [one.measurement for one in run.history.evidence(None)]
    return measured_sample(config, measured) if config and measured else SampleBytes(0.0, None)


def tier_sample(tier: Recommendation, run: Run) -> SampleBytes:
    """Return what a tier's buffer counts with."""
    per_sample = tier.buffered_bytes_per_sample or 0.0
    loops = (r.measurement.loop for r in run.trials if r.measurement and r.number == tier.search_trial)
    loop = next((loop for loop in loops if loop.batch), None)
    shared = loop.shared_bytes_per_sample if loop else None
    usual = held_per_sample(tier.config, loop) if loop else 0.0
    if shared is not None and tier.largest and per_sample > usual > 0:
        shared *= per_sample / usual
    return SampleBytes(per_sample, shared)


def largest_samples(measurements: Iterable[Measurement]) -> LargestSamples | None:
    """Return what was seen of samples that vary in size: with the training on them, where one has it."""
    seen = [one.details.largest for one in measurements if one.details and one.details.largest]
    varying = [one for one in seen if one.varies and one.batch_bytes is not None]
    return next((one for one in varying if one.survived), varying[0] if varying else None)


def peak_reserved_bytes(measurement: Measurement) -> int | None:
    """Return the device memory that an epoch reserves at most, on a batch of the largest samples too."""
    largest = measurement.details.largest if measurement.details else None
    seen = (measurement.loop.peak_reserved_bytes, largest.peak_reserved_bytes if largest else None)
    return max([one + measurement.loop.growth_bytes for one in seen if one is not None], default=None)


def failed_on_largest_samples(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the trials that a batch of the largest samples ended."""
    return [record for record in records if record.failure is not None and record.failure.largest is not None]


def batches_text(seen: LargestSamples) -> str:
    """Return how large batches may be, such as "batches up to 3.1x the usual bytes (...)"."""
    times = "n/a" if seen.times_usual is None else f"{seen.times_usual:.1f}x"
    read = f"{seen.samples_read:,} of {seen.data_set_samples or 0:,} samples read"
    return f"batches up to {times} the usual bytes ({read})"


def largest_samples_line(recommendations: Sequence[Recommendation]) -> str:
    """Return what the largest samples mean for the tiers in one line; nothing where sizes do not vary.

    Such as "largest samples (measured): batches up to 3.1x the usual bytes (4,096 of 50,000 samples read);
    every tier trained on such a batch; buffers count such batches, VRAM includes it".
    """
    seen = [one.largest for one in recommendations if one.largest is not None]
    if not seen:
        return ""
    widest = max(seen, key=lambda one: one.times_usual or 0.0)
    trained = [one.tier.value for one in recommendations if one.largest and one.largest.survived]
    on_device = any(one.peak_reserved_bytes is not None for one in seen)
    counted = "buffers count such batches" + (", VRAM includes it" if on_device else "")
    who = "every tier" if len(trained) == len(recommendations) else ", ".join(trained) or "no tier"
    return f"largest samples (measured): {batches_text(widest)}; {who} trained on such a batch; {counted}"
