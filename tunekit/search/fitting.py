"""Which configs fit in memory, by what the trials so far took of the device's and of the host's. Pure."""

from collections.abc import Sequence

import numpy as np

from tunekit.model.columns import PRECISIONS, Columns, Flags, Floats
from tunekit.model.device_memory import DeviceMemoryModel, PeakSeen, peaks_seen
from tunekit.recommend.tiers import POLICIES
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.host import Host
from tunekit.records.recommendation import Tier
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.search.refusal import refusals


def chances_to_fit(records: Sequence[TrialRecord], columns: Columns) -> Floats:
    """Return how likely each config stays within Aggressive's share of the device's memory; 1 on a CPU.

    What ran out of it does not fit with as large a batch or a larger one in the same mode, whatever the model
    says: the device may have less to give than its size.

    Args:
        records: the trials so far.
        columns: the configs.
    """
    seen = tuple({_kind(one): one for one in peaks_seen(records)}.values())
    loop = next((record.measurement.loop for record in records if record.measurement), None)
    has_measured = any(one.reserved_bytes is not None and not one.is_predicted for one in seen)
    if loop is None or loop.device.memory_bytes is None or not has_measured:
        return np.ones(len(columns))
    model = DeviceMemoryModel(seen, loop.device.memory_bytes)
    # The device's memory depends on few knobs, so that many configs share one answer.
    knobs = (columns.batch_size.astype(np.int64) * len(PRECISIONS) + columns.precision) * 2 + columns.compiled
    _, first, same = np.unique(knobs, return_index=True, return_inverse=True)
    kinds = columns.take(first)
    chances = model.chance_to_fit(kinds, POLICIES[Tier.AGGRESSIVE].vram_share)
    for batch_size, precision, compiled in (_kind(one) for one in seen if one.reserved_bytes is None):
        same_mode = (kinds.precision == PRECISIONS.index(precision)) & (kinds.compiled == compiled)
        chances[same_mode & (kinds.batch_size >= batch_size)] = 0.0
    return np.asarray(chances[same])


def _kind(seen: PeakSeen) -> tuple[int, Precision, bool]:
    """Return the knobs that the device's memory depends on."""
    return seen.config.batch_size, seen.config.precision, seen.config.compile


def fits_host(records: Sequence[TrialRecord], host: Host, configs: Sequence[TrainConfig]) -> Flags:
    """Return whether each config fits the host's RAM and /dev/shm, as far as it is known.

    A queue as large as one that exhausted either in a trial does not.

    Args:
        records: the trials so far.
        host: the share of the machine that one rank can use.
        configs: that are asked about.
    """
    why_not = refusals(records, host)
    exhausted = [
        _queued_samples(record.config)
        for record in records
        if record.failure is not None
        and record.config is not None
        and record.failure.kind in (OutcomeKind.HOST_OOM, OutcomeKind.SHM_EXHAUSTED)
    ]
    most = min((samples for samples in exhausted if samples), default=None)
    return np.array(
        [why_not(config) is None and (most is None or _queued_samples(config) < most) for config in configs],
        dtype=bool,
    )


def _queued_samples(config: TrainConfig) -> int:
    return config.queue_batches * config.batch_size
