"""The three headroom policies: what each allows, and which measured config each picks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple

from tunekit.predict.ram import (
    OOM_SHARE,
    BaseRam,
    base_ram,
    buffer_bytes,
    fits_shm,
    held_per_sample,
    queue_bytes,
    shm_text,
)
from tunekit.recommend.data_check import data_checks, trains_otherwise
from tunekit.recommend.learning_rate import global_batch
from tunekit.recommend.memory import largest_samples, peak_reserved_bytes
from tunekit.recommend.noise import noise_floor
from tunekit.recommend.numerics import Mode, excluded_modes
from tunekit.recommend.planned_training import PlannedTraining, planned_training
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.recommendation import NoiseFloor, Tier
from tunekit.records.run import SearchOptions
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Measured, Trials, measured
from tunekit.units import bytes_text

BALANCED_TOLERANCE = 0.03
"""Share of the highest rate that Balanced gives up for a smaller config."""

MAX_BATCH_GROWTH = 4
"""Largest multiple of the baseline's batch for Conservative, unless the user restricts batch sizes."""

MAX_WORKERS = 64
"""Most loader workers of one process."""

MAX_TOLERANCE = 0.10
"""The most that Balanced gives up, however noisy the machine is."""


@dataclass(frozen=True)
class TierPolicy:
    """What one tier allows."""

    tier: Tier
    vram_share: float
    """Largest share of the device's memory that torch may reserve."""
    buffer_share: float
    """Largest share of the RAM limit for the loader's buffer."""
    workers_share: float
    """Largest share of the allowed CPUs that loader workers may use."""
    compile: Literal["off", "if it pays", "free"]
    goal: str
    """What the tier picks; "{best}" stands for the objective."""

    def meaning(self, best: str) -> str:
        """Return the policy in one line."""
        limits = f"{self.vram_share:.0%} of VRAM, {self.workers_share:.0%} of the CPUs"
        return f"{self.goal.format(best=best)}: {limits}{', no compile' * (self.compile == 'off')}"

    def max_workers(self, cpus: int, cpus_per_worker: float = 1.0) -> int:
        """Return the most loader workers for this many CPUs; 0 if there are too few.

        Args:
            cpus: CPUs that may be used.
            cpus_per_worker: CPUs that each worker keeps busy; low if it waits for storage.
        """
        by_cpus = math.floor(self.workers_share * cpus / max(cpus_per_worker, 1 / MAX_WORKERS))
        return min(by_cpus, MAX_WORKERS)


POLICIES = {
    policy.tier: policy
    for policy in (
        TierPolicy(
            tier=Tier.CONSERVATIVE,
            vram_share=0.75,
            buffer_share=0.10,
            workers_share=0.5,
            compile="off",
            goal="{best} with wide headroom",
        ),
        TierPolicy(
            tier=Tier.BALANCED,
            vram_share=0.85,
            buffer_share=0.20,
            workers_share=0.75,
            compile="if it pays",
            goal="smallest config close to the {best}",
        ),
        TierPolicy(
            tier=Tier.AGGRESSIVE,
            vram_share=0.95,
            buffer_share=OOM_SHARE,
            workers_share=1.0,
            compile="free",
            goal="{best}, little headroom",
        ),
    )
}
"""The policy of every tier."""


class _Sample(NamedTuple):
    """Bytes of one sample in a batch."""

    own: float
    shared: float
    """Size in /dev/shm."""


def violations(
    record: TrialRecord, tier: Tier, host: Host, among: Sequence[TrialRecord] = ()
) -> tuple[str, ...]:
    """Return each of the tier's limits that the trial exceeds, with value and limit.

    Reserved VRAM is not checked on a device with unknown memory, such as a CPU.

    Args:
        record: of the trial.
        tier: the tier.
        host: the machine that it ran on.
        among: all trials, for the CPUs that a worker needs.
    """
    if record.measurement is None or record.config is None:
        return ("not measured",)
    policy = POLICIES[tier]
    loop = record.measurement.loop
    broken = []
    if record.config.compile and policy.compile == "off":
        broken.append("compile is on")
    max_workers = policy.max_workers(host.cpus, _cpus_per_worker(loop, among))
    workers = record.config.num_workers
    if workers > max_workers:
        broken.append(f"num_workers {workers}, limit {max_workers}")
    reserved_bytes, usable_bytes = peak_reserved_bytes(record.measurement), loop.device.usable_bytes
    if reserved_bytes is not None and usable_bytes is not None:
        broken += _above("reserved VRAM", reserved_bytes, policy.vram_share * usable_bytes)
    sample = _Sample(held_per_sample(record.config, loop), loop.shared_bytes_per_sample)
    broken += _host_memory_violations(record.config, policy, host, sample, base_ram(record.measurement))
    return tuple(broken)


def _cpus_per_worker(loop: LoopMeasurement, among: Sequence[TrialRecord]) -> float:
    """Return the CPUs that a worker needs, by other trials if all batches were made before the window."""
    works = [loop.loader_work] if loop.loader_work else [one.loop.loader_work for one in measured(among)]
    return max((work.cpus_per_worker for work in works if work), default=1.0)


def pick(
    tier: Tier,
    trials: Sequence[TrialRecord],
    host: Host,
    *,
    noise_relative: float | None,
    planned: PlannedTraining,
) -> TrialRecord | None:
    """Return the trial that the tier picks, or None if no measured trial is within its limits.

    Conservative and Aggressive pick the highest rate. Balanced picks the smallest config whose rate is
    within 3% (or the noise floor, if larger) of the highest, in the baseline's precision if possible; a
    compiled config is only eligible if the planned training wins back its compile time. Ties go to the
    smaller config, then the earlier trial. If the finish time counts, rates cover the whole planned
    training, start-up included.

    Args:
        tier: the policy.
        trials: trials of the run. Only baseline and search trials count, so that confirmation stays
            independent of the choice; trials that were given up early as too slow don't.
        host: the machine that the trials ran on.
        noise_relative: the run's noise floor as a relative difference, None if unknown.
        planned: the planned training.
    """
    candidates = [
        one for one in measured(trials) if one.record.role.is_candidate and not one.record.is_abandoned
    ]
    eligible = [one for one in candidates if not violations(one.record, tier, host, trials)]
    if tier is Tier.BALANCED:
        eligible = _where_compile_pays(eligible, candidates, planned)
    if not eligible:
        return None
    rated = [(planned.objective_samples_per_s(one.config, one.loop), one) for one in eligible]
    if tier is Tier.BALANCED:
        lowest = (1.0 - balanced_tolerance(noise_relative)) * max(rate for rate, _ in rated)
        own = {one.config.precision for one in candidates if one.record.is_baseline_config}
        close = [one for rate, one in rated if rate >= lowest]
        return min(close, key=lambda one: (own != {one.config.precision}, _size(one))).record
    return min(rated, key=lambda pair: (-pair[0], _size(pair[1])))[1].record


def best_of(trials: Sequence[TrialRecord], planned: PlannedTraining) -> Measured | None:
    """Return the measured trial that is best in the objective; None without one."""
    return max(
        measured(trials), key=lambda one: planned.objective_samples_per_s(one.config, one.loop), default=None
    )


def balanced_tolerance(noise_relative: float | None) -> float:
    """Return the share of the highest rate that Balanced gives up: 3%, or the noise floor if larger.

    It is capped at 10%: with more noise nothing can be called close.
    """
    return min(max(BALANCED_TOLERANCE, noise_relative or 0.0), MAX_TOLERANCE)


def clamped_to_tier(
    best: Measured, tier: Tier, host: Host, among: Sequence[TrialRecord], mode: Mode | None = None
) -> TrainConfig:
    """Return a measured trial's config, clipped to the limits of the tier.

    Args:
        best: the trial.
        tier: the tier.
        host: the machine that it will run on.
        among: all trials, for the CPUs that a worker needs.
        mode: precision and compile to use instead of its own.
    """
    return clip(
        mode.applied_to(best.config) if mode else best.config,
        tier,
        host,
        held_per_sample(best.config, best.loop),
        base=base_ram(best.measurement),
        shared_per_sample=best.loop.shared_bytes_per_sample,
        cpus_per_worker=_cpus_per_worker(best.loop, among),
    )


def clip(
    config: TrainConfig,
    tier: Tier,
    host: Host,
    bytes_per_sample: float,
    *,
    base: BaseRam | None = None,
    shared_per_sample: float | None = None,
    cpus_per_worker: float = 1.0,
) -> TrainConfig:
    """Return the nearest config within those limits of the tier that are known before a trial.

    Compile and workers are limited first, then prefetch is lowered, then the batch is halved until the buffer
    fits; workers are reduced further only if not even single samples fit. VRAM isn't known here. With 0
    workers, prefetch and persistent_workers are reset, too.

    Args:
        config: the config to clip.
        tier: the policy.
        host: the machine that it will run on.
        bytes_per_sample: size of one sample in a waiting batch, see `held_per_sample`.
        base: RAM of the processes without the buffer, if known. If the processes themselves exceed the
            limit, the result has no workers.
        shared_per_sample: what one sample takes in /dev/shm, if known.
        cpus_per_worker: CPUs that each worker keeps busy.
    """
    policy = POLICIES[tier]
    sample = _Sample(bytes_per_sample, bytes_per_sample if shared_per_sample is None else shared_per_sample)
    clipped = config.changed(compile=config.compile and policy.compile != "off")
    if clipped.num_workers == 0:
        return clipped

    def fits(candidate: TrainConfig) -> bool:
        return not _host_memory_violations(candidate, policy, host, sample, base or BaseRam())

    workers = min(config.num_workers, policy.max_workers(host.cpus, cpus_per_worker))
    while workers > 0 and not fits(clipped.changed(num_workers=workers, prefetch_factor=1, batch_size=1)):
        workers -= 1
    if workers == 0:
        return clipped.changed(num_workers=0)
    clipped = clipped.changed(num_workers=workers)
    while not fits(clipped) and (clipped.prefetch_factor or 1) > 1:
        clipped = clipped.changed(prefetch_factor=(clipped.prefetch_factor or 1) - 1)
    while not fits(clipped):
        clipped = clipped.changed(batch_size=clipped.batch_size // 2)
    return clipped


def _host_memory_violations(
    config: TrainConfig, policy: TierPolicy, host: Host, sample: _Sample, base: BaseRam
) -> list[str]:
    buffered_bytes = buffer_bytes(config, config.batch_bytes(sample.own))
    needed_bytes = base.with_workers(config.num_workers) + buffered_bytes
    broken = _above("RAM buffer", buffered_bytes, policy.buffer_share * host.ram_limit_bytes)
    broken += _above("RAM for processes and buffer", needed_bytes, OOM_SHARE * host.ram_limit_bytes)
    queued_bytes = queue_bytes(config, config.batch_bytes(sample.shared))
    if not fits_shm(queued_bytes, host):
        broken.append(f"batch queue {bytes_text(queued_bytes)}, limit /dev/shm ({shm_text(host)})")
    return broken


def _where_compile_pays(
    eligible: list[Measured], candidates: list[Measured], planned: PlannedTraining
) -> list[Measured]:
    eager_once_s = [candidate.loop.once_s for candidate in candidates if not candidate.config.compile]
    usual_once_s = median(eager_once_s) if eager_once_s else 0.0
    eager = [candidate for candidate in eligible if not candidate.config.compile]
    if not eager:
        # There is no eager alternative, so compile time needn't be won back.
        return eligible
    best_eager = max(eager, key=lambda candidate: candidate.loop.rate_samples_per_s).loop

    def pays(candidate: Measured) -> bool:
        loop = candidate.loop
        if planned.assumed_samples is None:
            return False
        cost_s = max(0.0, planned.once_s(candidate.config, loop) - usual_once_s)
        saved_per_sample_s = 1 / best_eager.rank_rate_samples_per_s - 1 / loop.rank_rate_samples_per_s
        return planned.assumed_samples * saved_per_sample_s > cost_s

    return [candidate for candidate in eligible if not candidate.config.compile or pays(candidate)]


def _size(candidate: Measured) -> tuple[float, int, int, int, bool, int]:
    config, loop = candidate.config, candidate.loop
    return (
        math.inf if loop.peak_reserved_bytes is None else loop.peak_reserved_bytes,
        config.batch_size,
        buffer_bytes(config, config.batch_bytes(loop.bytes_per_sample)),
        config.num_workers,
        config.compile,
        candidate.record.number,
    )


def _above(what: str, value_bytes: int, limit_bytes: float) -> list[str]:
    is_above = value_bytes > limit_bytes
    return [f"{what} {bytes_text(value_bytes)}, limit {bytes_text(math.floor(limit_bytes))}"] * is_above


# --- each tier's choice among the trials of a run

_EXCLUDING = (Tier.CONSERVATIVE, Tier.BALANCED)
"""Tiers that don't pick a mode whose losses are worse than the baseline's."""


def run_noise(trials: Trials) -> NoiseFloor | None:
    """Return the A/A noise floor of the baseline's fresh processes; None with fewer than two."""
    return noise_floor([r.measurement.rate_samples_per_s for r in trials.baseline_confirm if r.measurement])


def pick_tiers(
    trials: Trials, host: Host, options: SearchOptions, among: Sequence[TrialRecord] | None = None
) -> dict[Tier, TrialRecord]:
    """Return each tier's pick among the measured trials; a tier without one is absent.

    A tier's config is no larger than that of the tier above it in batch, workers or buffer; only the
    baseline's own config is always allowed.
    """
    noise = run_noise(trials)
    noise_relative = noise.relative if noise else None
    excluded = excluded_modes(trials.records)
    planned = planned_training(options, trials.records)
    records = trials.candidates if among is None else among
    baseline = trials.baseline.config if trials.baseline else None
    records = same_training(records, trials)
    chosen: dict[Tier, TrialRecord] = {}
    for tier in reversed(Tier):
        most = ceiling_of(tier, chosen, baseline, options)
        allowed = [
            record
            for record in records
            if record.config is not None
            and (record.is_baseline_config or most.holds(record.config))
            and keeps_global_batch(record, trials, options)
            and not is_excluded(record, tier, excluded)
            and not _exceeds_limit_on_largest_samples(record, tier, trials, host)
        ]
        record = pick(tier, allowed, host, noise_relative=noise_relative, planned=planned)
        if record is not None:
            chosen[tier] = record
    return {tier: chosen[tier] for tier in Tier if tier in chosen}


@dataclass(frozen=True)
class Ceiling:
    """Upper limits for a tier's config."""

    above: TrainConfig | None
    """The config that the tier above picks."""
    batch_size: float = math.inf

    def holds(self, config: TrainConfig) -> bool:
        """Return whether batch, workers and buffer of a config are within the limits."""
        above = self.above
        if config.batch_size > self.batch_size or above is None:
            return config.batch_size <= self.batch_size
        return (
            config.batch_size <= above.batch_size
            and config.num_workers <= above.num_workers
            and config.queue_batches * config.batch_size <= above.queue_batches * above.batch_size
        )

    def clamped(self, config: TrainConfig) -> TrainConfig:
        """Return a config with batch, workers and prefetch lowered to the limits."""
        above = self.above or config
        prefetch = [one.prefetch_factor for one in (config, above) if one.prefetch_factor is not None]
        smaller = config.changed(
            batch_size=int(min(config.batch_size, above.batch_size, self.batch_size)),
            num_workers=min(config.num_workers, above.num_workers),
        )
        return smaller.changed(prefetch_factor=min(prefetch)) if smaller.num_workers else smaller


def ceiling_of(
    tier: Tier, chosen: Mapping[Tier, TrialRecord], baseline: TrainConfig | None, options: SearchOptions
) -> Ceiling:
    """Return the upper limits for a tier's config.

    Args:
        tier: the tier.
        chosen: the tiers' picks; only those of higher tiers matter.
        baseline: the user's current knob values.
        options: the search's options, which may restrict batch sizes.
    """
    order = list(Tier)
    above = (chosen[one].config for one in order[order.index(tier) + 1 :] if one in chosen)
    nearest = next((config for config in above if config is not None), None)
    if tier is not Tier.CONSERVATIVE or baseline is None or options.asks_for_batch_size:
        return Ceiling(nearest)
    return Ceiling(nearest, MAX_BATCH_GROWTH * baseline.batch_size)


def keeps_global_batch(record: TrialRecord, trials: Trials, options: SearchOptions) -> bool:
    """Return whether a trial's config has the requested global batch, if there is one."""
    if options.global_batch is None or record.config is None:
        return options.global_batch is None
    world_size = trials.discovery.world_size if trials.discovery else 1
    return global_batch(record.config, world_size) == options.global_batch


def same_training(records: Sequence[TrialRecord], trials: Trials) -> list[TrialRecord]:
    """Return the records whose config isn't known to change the training."""
    baseline, checks = trials.baseline.config if trials.baseline else None, data_checks(trials)
    return [
        one
        for one in records
        if one.config is None or one.is_baseline_config or not trains_otherwise(one.config, checks, baseline)
    ]


def _exceeds_limit_on_largest_samples(record: TrialRecord, tier: Tier, trials: Trials, host: Host) -> bool:
    """Return whether a config exceeded a limit of the tier on the data set's largest samples."""
    looked = (
        one
        for one in (trials.confirm_of(record.config) if record.config else ())
        if one.measurement and largest_samples([one.measurement])
    )
    return any(violations(one, tier, host, trials.candidates) for one in looked)


def is_excluded(record: TrialRecord, tier: Tier, excluded: frozenset[Mode]) -> bool:
    """Return whether the tier rejects a trial because its precision or compile spoils the losses."""
    return tier in _EXCLUDING and record.config is not None and Mode.of(record.config) in excluded
