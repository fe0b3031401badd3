"""The RAM buffer of a config, with what it means for its host. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from tunekit.predict.ram import RamVerdict, buffer_bytes, held_per_sample, pinned_growth, ram_verdict
from tunekit.recommend.largest import largest_of
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run


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
        host: what each of the processes that train together can use.
    """
    size_bytes = buffer_bytes(config, config.batch_bytes(sample.data_bytes))
    if not size_bytes:
        return RamBuffer(0, None)
    verdict = ram_verdict(config, sample.data_bytes, base_bytes, host, sample.shared_bytes)
    return RamBuffer(size_bytes, verdict)


def measured_sample(config: TrainConfig, measured: Sequence[Measurement]) -> SampleBytes:
    """Return what a sample of a config takes by its own processes, one at least."""
    largest = largest_of(measured)
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
