"""Which configs can run here: within device and host memory, and unlike configs that failed. Pure."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from tunekit.predict.ram import held_per_sample, loader_ram, predicted_base_ram
from tunekit.predict.throughput.observation import PRECISIONS, Columns, Flags, Floats
from tunekit.predict.vram.measured_peaks import DeviceMemoryModel, PeakSeen, peaks_seen
from tunekit.recommend.tiers import POLICIES, same_training
from tunekit.records.config import MODEL_SWITCHES, Precision, TrainConfig
from tunekit.records.host import Host
from tunekit.records.recommendation import Tier
from tunekit.records.run import KnobSpace
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.records.trials import Trials, measured

_FILES_PER_WORKER = 8
"""Open files per worker in the training process (pipes and locks), rounded up."""
LOOK_TRIALS = 3
"""Time to keep for a trial that also measures other batch sizes, in typical trials."""
_SIZE_FACTORS = (1, 2, 4, 8, 0.5)
_MIN_CHANCE = 0.5
"""Smallest chance of fitting in the device's memory with which a sweep includes a size."""
_BROKEN = 0.1
"""Assumed share of targets on which a new trait never works."""
_BY_CHANCE = 0.02
"""Assumed share of trials that fail by chance."""


def why_infeasible(config: TrainConfig | None, records: Sequence[TrialRecord], host: Host) -> str | None:
    """Return why a config must not be started, judged by measured trials; None if it may."""
    if config is None or any(record.config == config and record.measurement for record in records):
        return None
    return _infeasibility(records, host)(config)


def _infeasibility(records: Sequence[TrialRecord], host: Host) -> Callable[[TrainConfig], str | None]:
    """Return a function that gives the reason why an untried config must not be started, or None."""
    seen = [record.measurement for record in records if record.measurement]
    if not seen:
        return lambda config: None
    base = predicted_base_ram(seen)
    loop = next((one.loop for one in seen if one.loop.batch), seen[-1].loop)
    tensors = sum(leaf.kind == "tensor" for leaf in loop.batch.leaves) if loop.batch else 0

    def files_of(config: TrainConfig) -> int:
        # Workers pass each tensor of a batch as an open file, and keep pipes open.
        return config.queue_batches * tensors + _FILES_PER_WORKER * config.num_workers

    ran = max((files_of(one.config) for one in records if one.config and one.measurement), default=0)

    def why_not(config: TrainConfig) -> str | None:
        most, files = host.open_files_limit, files_of(config)
        if most is not None and files > max(most, ran):
            return f"{files:,} open files, more than the limit of {most:,} (`ulimit -n`)"
        own, base_bytes = held_per_sample(config, loop), base.with_workers(config.num_workers)
        return loader_ram(config, own, base_bytes, host, loop.shared_bytes_per_sample).why_oom

    return why_not


def chances_to_fit(records: Sequence[TrialRecord], columns: Columns) -> Floats:
    """Return each config's chance of staying within Aggressive's share of device memory; 1 on a CPU.

    After an out-of-memory failure, that batch size and larger ones in the same mode don't fit, whatever the
    model predicts: the device may have less memory available than its size.
    """
    seen = tuple({_kind(one): one for one in peaks_seen(records)}.values())
    loop = next((record.measurement.loop for record in records if record.measurement), None)
    has_measured = any(one.reserved_bytes is not None and not one.is_predicted for one in seen)
    # Device memory depends on few knobs, so many configs share one answer.
    knobs = columns.batch_size.astype(np.int64) * len(PRECISIONS) + columns.precision
    knobs = knobs * 2 + columns.switches["compile"]
    _, first, same = np.unique(knobs, return_index=True, return_inverse=True)
    kinds = columns.take(first)
    chances = np.ones(len(kinds))
    if loop is not None and loop.device.usable_bytes is not None and has_measured:
        model = DeviceMemoryModel(seen, loop.device.usable_bytes)
        chances = model.chance_to_fit(kinds, POLICIES[Tier.AGGRESSIVE].vram_share)
    for batch_size, precision, compiled in (_kind(one) for one in seen if one.reserved_bytes is None):
        same_mode = (kinds.precision == PRECISIONS.index(precision)) & (kinds.switches["compile"] == compiled)
        chances[same_mode & (kinds.batch_size >= batch_size)] = 0.0
    return np.asarray(chances[same])


def _kind(seen: PeakSeen) -> tuple[int, Precision, bool]:
    """Return the knobs that device memory depends on."""
    return seen.config.batch_size, seen.config.precision, seen.config.compile


def fits_host(records: Sequence[TrialRecord], host: Host, configs: Sequence[TrainConfig]) -> Flags:
    """Return whether each config fits the host's RAM and /dev/shm, as far as known.

    A queue at least as large as one that exhausted either in a trial doesn't fit.
    """
    why_not = _infeasibility(records, host)
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


def chances_to_run(records: Sequence[TrialRecord], columns: Columns) -> Floats:
    """Return each config's chance of running and training the same, leaving memory aside.

    A failure, or a changed training, counts against every trait of its config that no measured trial has
    had: a mode, workers, pinned memory, a batch size other than the script's own. A trait that ran once is
    no longer suspected.
    """
    tried = [record for record in records if record.config is not None]
    same = same_training(tried, Trials(tuple(records)))
    known = {one.number for one in same}
    failed = [one for one in tried if one.number not in known]
    failed += [one for one in tried if one.failure is not None and not one.failure.kind.is_memory]
    if not failed:
        return np.ones(len(columns))
    own_batch = tried[0].config.batch_size if tried[0].config else 0
    ran = _traits([one for one in same if one.measurement is not None], own_batch)
    fell = _traits(failed, own_batch)
    chances = np.ones(len(columns))
    for has, ran_with, fell_with in zip(_flags_of(columns, own_batch), ran, fell, strict=True):
        failures = 0 if ran_with.any() else int(fell_with.sum())
        works = (1 - _BROKEN) * _BY_CHANCE**failures
        chances[has] *= works / (works + _BROKEN) if failures else 1.0
    return chances


def _traits(records: Sequence[TrialRecord], own_batch: int) -> list[Flags]:
    return _flags_of(
        Columns.of([record.config for record in records if record.config is not None]), own_batch
    )


def _flags_of(columns: Columns, own_batch: int) -> list[Flags]:
    """Return, for each trait, which configs have it."""
    return [
        *(np.asarray(columns.precision == place) for place in range(len(PRECISIONS))),
        *(columns.switches[knob] for knob in (*MODEL_SWITCHES, "pin_memory")),
        np.asarray(columns.workers > 0),
        np.asarray(columns.batch_size != own_batch),
    ]


def compute_sweep_sizes(
    config: TrainConfig, records: Sequence[TrialRecord], space: Sequence[KnobSpace], host: Host
) -> tuple[int, ...]:
    """Return the batch sizes to sweep in the first trial of each eager mode; none for other trials.

    They are the sizes of the space nearest to the trial's own, two, four and eight times it, and half of it,
    in this order, as far as they fit: a size that ends the script also ends the sweep.
    """
    sizes = next(entry for entry in space if entry.knob == "batch_size")
    if config.compile or not sizes.is_searched or _is_known_mode(config, records):
        return ()
    known = [size for size in sizes.values if isinstance(size, int)]
    wanted = [
        min(known, key=lambda size: abs(math.log(size / (config.batch_size * factor))))
        for factor in _SIZE_FACTORS
    ]
    ended = [one for one in records if one.failure is not None and one.failure.kind.is_memory and one.config]
    same = [one.config for one in ended if one.config and one.config.precision is config.precision]
    too_large = min((one.batch_size for one in same), default=math.inf)
    configs = [config.changed(batch_size=size) for size in dict.fromkeys(wanted) if size < too_large]
    if not configs:
        return ()
    fits_device = chances_to_fit(records, Columns.of(configs)) >= _MIN_CHANCE
    fits = fits_device & fits_host(records, host, configs)
    return tuple(one.batch_size for one, this_fits in zip(configs, fits, strict=True) if this_fits)


def _is_known_mode(config: TrainConfig, records: Sequence[TrialRecord]) -> bool:
    """Return whether an earlier search trial in this mode had details, whatever came of them."""
    looked = [one for one in measured(records) if one.record.role is TrialRole.SEARCH and one.record.details]
    modes = {(one.config.precision, one.config.channels_last) for one in looked if not one.config.compile}
    return (config.precision, config.channels_last) in modes
