"""Batches of the data set's largest samples: what they take, and who ran out of memory on one. Pure."""

from collections.abc import Iterable, Sequence

from tunekit.records.details import LargestSeen
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import Recommendation
from tunekit.records.trial import TrialRecord


def largest_of(measurements: Iterable[Measurement]) -> LargestSeen | None:
    """Return what was seen of samples that vary in size: with the training on them, where one has it."""
    seen = [one.details.largest for one in measurements if one.details and one.details.largest]
    varying = [one for one in seen if one.varies and one.batch_bytes is not None]
    return next((one for one in varying if one.is_lived_through), varying[0] if varying else None)


def peak_reserved_bytes(measurement: Measurement) -> int | None:
    """Return the device memory that was reserved at most, on a batch of the largest samples too."""
    largest = measurement.details.largest if measurement.details else None
    seen = (measurement.loop.peak_reserved_bytes, largest.peak_reserved_bytes if largest else None)
    return max((one for one in seen if one is not None), default=None)


def ran_out(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the trials that a batch of the largest samples ended."""
    return [record for record in records if record.failure is not None and record.failure.largest is not None]


def batches_text(seen: LargestSeen) -> str:
    """Return how large batches may be, such as "batches up to 3.1x the usual bytes (...)"."""
    times = "n/a" if seen.times_usual is None else f"{seen.times_usual:.1f}x"
    read = f"{seen.samples_read:,} of {seen.data_set_samples or 0:,} samples read"
    return f"batches up to {times} the usual bytes ({read})"


def largest_line(recommendations: Sequence[Recommendation]) -> str:
    """Return what the largest samples mean for the tiers in one line; nothing where sizes do not vary.

    Such as "largest samples: batches up to 3.1x the usual bytes (4,096 of 50,000 samples read); every tier
    trained on such a batch; buffers count such batches, VRAM includes it".
    """
    seen = [one.largest for one in recommendations if one.largest is not None]
    if not seen:
        return ""
    widest = max(seen, key=lambda one: one.times_usual or 0.0)
    trained = [one.tier.value for one in recommendations if one.largest and one.largest.is_lived_through]
    on_device = any(one.peak_reserved_bytes is not None for one in seen)
    counted = "buffers count such batches" + (", VRAM includes it" if on_device else "")
    who = "every tier" if len(trained) == len(recommendations) else ", ".join(trained) or "no tier"
    return f"largest samples: {batches_text(widest)}; {who} trained on such a batch; {counted}"
