"""Random targets on random machines, with a GPU; their physics is not the throughput model's own.

What the model's equations do not know: batches that are computed in waves, a cost per sample that jumps
where the working set leaves a cache, precisions that pay only from some batch on, workers that slow one
another down until more of them make less, storage with a limited bandwidth, stalls by an uneven loader that
prefetching evens out, a page-locked copy, and noise that grows with the workers.
"""

import math
import random
from functools import cached_property

from tunekit.records.attribution import DeviceParts, LoaderWork, StepParts, WorkerWork
from tunekit.records.config import KnobValue, Precision, TrainConfig
from tunekit.records.details import Details, IsolatedRates
from tunekit.records.host import Host
from tunekit.records.measurement import DeviceSeen, LoopMeasurement, Measurement, TreeMemory
from tunekit.records.run import KnobSpace
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.tune.acquisition import all_configs

GIB = 1 << 30
_CAPACITY_BYTES = 22 * GIB
_EPOCH_SAMPLES = 100_000
_BATCHES_SEEN = 100
_BATCHES: tuple[KnobValue, ...] = (16, 32, 64, 96, 128, 192, 256, 384, 512)
_PRECISIONS: tuple[KnobValue, ...] = ("fp32", "tf32", "bf16")


class RandomWorld:
    """One random target on one random machine.

    Args:
        seed: makes the world.

    Attributes:
        name: of the world.
        floor: relative difference between trials of one config, typically.
    """

    def __init__(self, seed: int) -> None:
        chance = random.Random(f"world {seed}")
        self.name = f"random world {seed}"
        self.cpus = chance.choice((4, 8, 16, 32))
        self._overhead_s, self._sample_s = chance.uniform(2, 30) * 1e-3, 10 ** chance.uniform(-4, -2.2)
        tf32 = chance.uniform(1.02, 1.6)
        self._speed = {"fp32": 1.0, "tf32": tf32, "bf16": tf32 * chance.uniform(0.95, 1.9)}
        self._pays_from = chance.choice((1, 1, 32, 96))
        self._compiled, self._compiled_overhead = chance.uniform(0.95, 1.4), chance.uniform(0.4, 1.0)
        self._wave, self._wave_cost = chance.choice((1, 16, 32, 64)), chance.uniform(0.0, 0.15)
        self._cache_batch, self._cache_cost = chance.choice((48, 128, 256, 10**6)), chance.uniform(1.0, 1.35)
        self._fetch_s, self._fetch_overhead_s = 10 ** chance.uniform(-4, -2), chance.uniform(0, 2e-3)
        self._interference, self._crowding = chance.uniform(0, 0.08), 10 ** chance.uniform(-4, -2)
        self._bandwidth_samples = 10 ** chance.uniform(2.8, 5)
        self._cpu_share = chance.uniform(0.2, 1.0)
        self._contention, self._unevenness = chance.uniform(0, 0.4), chance.uniform(0, 0.5)
        self._copy_s, self._hand_over_s = chance.uniform(0, 4e-5), chance.uniform(0, 2e-3)
        self._boundary_s = chance.uniform(0.02, 0.2)
        self._bytes_fixed, self._bytes_sample = (
            chance.uniform(0.3, 3) * GIB,
            10 ** chance.uniform(-2, -0.8) * GIB,
        )
        self._memory = {"fp32": 1.0, "tf32": 1.0, "bf16": chance.uniform(0.55, 0.7)}
        self._noise = chance.uniform(0.004, 0.02)
        self._startup_s, self._compile_s = chance.uniform(6, 25), chance.uniform(15, 60)
        self.floor = math.expm1(math.sqrt(2) * self._noise * 1.5)
        own_workers = chance.choice((0, 2, 4))
        own = TrainConfig(
            batch_size=chance.choice((32, 64)),
            num_workers=own_workers,
            prefetch_factor=2 if own_workers else None,
            pin_memory=False,
            persistent_workers=False,
            compile=False,
            precision=Precision.FP32,
            channels_last=False,
        )
        self.baseline = self._trial(own, random.Random(f"baseline {seed}"), 0, with_isolated_rates=True)

    @property
    def host(self) -> Host:
        """The machine."""
        return Host(
            hostname="world",
            cpus=self.cpus,
            cpus_total=self.cpus,
            cpu_name=None,
            ram_limit_bytes=8 * self.cpus * GIB,
            ram_total_bytes=8 * self.cpus * GIB,
            shm_bytes=4 * self.cpus * GIB,
            accelerators=(),
            platform="Linux",
            python_version="3.11",
        )

    @property
    def space(self) -> tuple[KnobSpace, ...]:
        """Batch size, workers, prefetch, pinning, compile and precision."""
        few = range(min(self.cpus, 8) + 1)
        workers = tuple(sorted({*few, *range(8, self.cpus + 1, 4)}))
        values: dict[str, tuple[KnobValue, ...]] = {
            "batch_size": _BATCHES,
            "num_workers": workers,
            "prefetch_factor": (2, 4, 8),
            "pin_memory": (False, True),
            "persistent_workers": (True,),
            "compile": (False, True),
            "precision": _PRECISIONS,
            "channels_last": (False,),
            "accumulate_grad_batches": (1,),
        }
        return tuple(
            KnobSpace(knob=knob, values=these, why_fixed=None if len(these) > 1 else "the world has no other")
            for knob, these in values.items()
        )

    @cached_property
    def truth(self) -> dict[TrainConfig, float]:
        """Samples/s of every config that fits, without noise."""
        return {config: self._rate(config) for config in all_configs(self.space) if self._fits(config)}

    def draw(self, config: TrainConfig, chance: random.Random, number: int) -> TrialRecord:
        """Return one trial of a config."""
        return self._trial(config, chance, number)

    # --- physics ---------------------------------------------------------------------------

    def _compute_s(self, config: TrainConfig) -> float:
        batch = config.batch_size
        waves = math.ceil(batch / self._wave) * self._wave
        sample_s = self._sample_s * (self._cache_cost if batch > self._cache_batch else 1.0)
        speed = self._speed[config.precision] if batch >= self._pays_from else 1.0
        samples = batch + self._wave_cost * (waves - batch)
        overhead_s = self._overhead_s * (self._compiled_overhead if config.compile else 1.0)
        return overhead_s + sample_s * samples / speed / (self._compiled if config.compile else 1.0)

    def _fetch_of_s(self, config: TrainConfig) -> float:
        return self._fetch_overhead_s + self._fetch_s * config.batch_size

    def _loader_s(self, config: TrainConfig) -> float:
        workers = max(1, config.num_workers)
        lost = self._interference * (workers - 1) + self._crowding * workers * (workers - 1)
        cores = min(1.0, self.cpus / max(1e-9, workers * self._cpu_share))
        made_s = self._fetch_of_s(config) / (workers / (1 + lost)) / cores
        return max(made_s, config.batch_size / self._bandwidth_samples)

    def _step_s(self, config: TrainConfig) -> float:
        copy_s = self._copy_s * config.batch_size * (0.3 if config.pin_memory else 1.0)
        compute_s = self._compute_s(config) + copy_s
        if config.num_workers == 0:
            return compute_s + max(self._fetch_of_s(config), config.batch_size / self._bandwidth_samples)
        loader_s, compute_s = self._loader_s(config), compute_s + self._hand_over_s
        near = min(loader_s, compute_s) / max(loader_s, compute_s)
        stall = self._unevenness * near**4 / (config.queue_batches or 1)
        busy = max(0.0, config.num_workers * self._cpu_share / self.cpus - 0.4)
        return max(loader_s, compute_s) * (1 + stall) * (1 + self._contention * busy * near)

    def _rate(self, config: TrainConfig) -> float:
        steady_s = _EPOCH_SAMPLES / config.batch_size * self._step_s(config)
        return _EPOCH_SAMPLES / (steady_s + self._boundary_of_s(config))

    def _boundary_of_s(self, config: TrainConfig) -> float:
        return 0.05 + (0.0 if config.persistent_workers else self._boundary_s * config.num_workers)

    def _bytes(self, config: TrainConfig) -> float:
        activations = self._bytes_sample * config.batch_size * self._memory[config.precision]
        return self._bytes_fixed + activations * (0.9 if config.compile else 1.0)

    def _fits(self, config: TrainConfig) -> bool:
        return self._bytes(config) <= _CAPACITY_BYTES

    # --- records ---------------------------------------------------------------------------

    def _trial(
        self, config: TrainConfig, chance: random.Random, number: int, with_isolated_rates: bool = False
    ) -> TrialRecord:
        compile_s = self._compile_s if config.compile else 0.0
        measurement = self._measured(config, chance, with_isolated_rates) if self._fits(config) else None
        step_s = self._step_s(config)
        seconds = self._startup_s + compile_s + (max(6.0, min(25.0, 20 * step_s)) if measurement else 2.0)
        return TrialRecord(
            number=number,
            role=TrialRole.SEARCH if number else TrialRole.BASELINE,
            config=config,
            is_baseline_config=number == 0,
            started_at="2026-01-01T00:00:00Z",
            duration_s=seconds + (5.0 if with_isolated_rates else 0.0),
            measurement=measurement,
            failure=None
            if measurement
            else Failure(kind=OutcomeKind.DEVICE_OOM, message="more than the device has"),
        )

    def _measured(self, config: TrainConfig, chance: random.Random, with_isolated_rates: bool) -> Measurement:
        noise = self._noise * (1 + config.num_workers / self.cpus)
        step_s = self._step_s(config) * math.exp(chance.gauss(0, noise))
        compute_s = min(step_s, self._compute_s(config) * math.exp(chance.gauss(0, 2 * noise)))
        workers = max(1, config.num_workers)
        fetch_s = self._fetch_of_s(config) * math.exp(chance.gauss(0, 2 * noise))
        loop = LoopMeasurement(
            device=DeviceSeen(type="cuda", name="a GPU", memory_bytes=24 * GIB),
            batch_size=config.batch_size,
            num_workers=config.num_workers,
            prefetch_factor=config.prefetch_factor,
            pin_memory=config.pin_memory,
            persistent_workers=config.persistent_workers,
            compile_graphs=int(config.compile),
            float32_matmul_precision=None,
            steady_batches=_BATCHES_SEEN,
            steady_samples=_BATCHES_SEEN * config.batch_size,
            steady_time_s=_BATCHES_SEEN * step_s,
            rate_interval_relative=noise,
            stop_reason="interval",
            discarded_batches=8,
            parts=_parts(step_s - compute_s, compute_s),
            device_parts=_device_parts(step_s - compute_s, compute_s),
            loader_work=_work(workers, fetch_s, self._cpu_share),
            epoch_samples=_EPOCH_SAMPLES,
            epoch_batches=math.ceil(_EPOCH_SAMPLES / config.batch_size),
            boundary_s=self._boundary_of_s(config) * math.exp(chance.gauss(0, 0.1)),
            boundaries_seen=1,
            startup_s=self._startup_s,
            first_batch_s=fetch_s,
            first_step_s=1.0,
            batch_bytes=1000 * config.batch_size,
            peak_allocated_bytes=int(self._bytes(config)),
            peak_reserved_bytes=int(self._bytes(config)),
            allocation_retries=0,
            script_steps=120,
        )
        floors = IsolatedRates(
            loader_step_s=self._loader_s(config) * math.exp(chance.gauss(0, 2 * noise)),
            compute_step_s=self._compute_s(config) * math.exp(chance.gauss(0, 2 * noise)),
        )
        return Measurement(
            loop=loop,
            memory=TreeMemory(peak_pss_bytes=GIB, peak_shm_bytes=0, processes=workers + 1, samples=20),
            details=Details(floors=floors) if with_isolated_rates else None,
        )


def _parts(wait_s: float, compute_s: float) -> StepParts:
    """Return the host's parts of the window, from seconds per batch."""
    return StepParts(
        data_wait_s=_BATCHES_SEEN * wait_s,
        compute_s=_BATCHES_SEEN * compute_s,
        optimizer_s=0.0,
        other_s=0.0,
    )


def _device_parts(stall_s: float, compute_s: float) -> DeviceParts:
    """Return the device's parts of the window, from seconds per batch."""
    return DeviceParts(
        batches=_BATCHES_SEEN,
        stall_s=_BATCHES_SEEN * stall_s,
        compute_s=_BATCHES_SEEN * compute_s,
        optimizer_s=0.0,
        other_s=0.0,
        drained_batches=0,
    )


def _work(workers: int, fetch_s: float, cpu_share: float) -> LoaderWork:
    """Return what the workers did in the window, from seconds per batch."""
    one = WorkerWork(batches=_BATCHES_SEEN, time_s=_BATCHES_SEEN * fetch_s)
    return LoaderWork(
        workers=(one,) * workers,
        cpu_s=workers * _BATCHES_SEEN * fetch_s * cpu_share,
    )
