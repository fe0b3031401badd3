"""GPU jobs for whole searches on a scripted clock: how long a trial of each takes, and what it measures.

Start-up, steps, compiling and what each knob does are of the order that such jobs have; none is a figure of a
card. The rates follow the throughput model's equations (with the factors below, not with what the model
believes), each config a per cent off them, and fresh processes differ by as much. A trial takes what the
agent's own rules come to: start, compile, ramp, window, epoch boundary, and what it looks at beside.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from build_records import GIB, MIB, config, failure, host, options, root
from equation_worlds import EquationWorld
from scripted_search import learnt, loader
from search_worlds import SearchWorld

from tunekit.records.attribution import DeviceParts, LoaderWork, StepParts, WorkerWork
from tunekit.records.config import TrainConfig
from tunekit.records.details import ComputeSweep, ComputeSweepPoint, Detail, Details, IsolatedRates
from tunekit.records.run import KnobSpace
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.trial.executor import TrialSpec
from tunekit.tune.acquisition import all_configs

_LEARNING_BATCHES, _LEARNING_S = 8, 5.0
_MIN_BATCHES = 10
_FLOOR_BATCHES, _FLOOR_S = 20, 15.0
_LOOKS = 5
_ENDING_S = 2.0
_START_NOISE = 0.05


@dataclass(frozen=True)
class GpuJob(SearchWorld):
    """One job on one GPU.

    Attributes:
        name: as the table has it.
        startup_s: from the start of the process to the first batch.
        epoch_samples: of its data set.
        boundary_s: what an epoch's end costs.
        has_images: whether the model has 4-D weights.
    """

    name: str = ""
    startup_s: float = 30.0
    epoch_samples: int = 100_000
    boundary_s: float = 2.0
    has_images: bool = False
    rough: float = 0.01
    noise: float = 0.01

    @cached_property
    def executor_options(self) -> dict[str, Any]:
        """What a scripted executor is told of this job."""
        return super().executor_options | {
            "rate": lambda knobs: knobs.batch_size / self.step_s(knobs),
            "trial_s": self.duration_s,
            "looked": self.looked,
            "learns": lambda spec: learnt(
                self.baseline,
                loaders=(loader(self.baseline, dataset_samples=self.epoch_samples),),
                roots=(root(has_4d_weights=self.has_images),),
            ),
        }

    def step_s(self, knobs: TrainConfig) -> float:
        """Return the seconds of a loop batch in steady state."""
        return knobs.batch_size / super().truth(knobs)

    def truth(self, knobs: TrainConfig) -> float:
        """Return the samples/s of a config over whole epochs, without noise."""
        steady_s = self.epoch_samples / knobs.batch_size * self.step_s(knobs)
        return self.epoch_samples / (steady_s + self._boundary_of_s(knobs))

    def failing(self, knobs: TrainConfig, spec: TrialSpec) -> Failure | None:
        """Return how a trial ends that is not measured; the longest trial is the user's limit."""
        failed = super().failing(knobs, spec)
        if failed is None and self._whole_s(knobs, spec) > self.asked.trial_limit_s:
            return failure(OutcomeKind.TIMEOUT, message="the measurement was not done")
        return failed

    def duration_s(self, knobs: TrainConfig, spec: TrialSpec) -> float:
        """Return the seconds that a trial takes."""
        failed = self.failing(knobs, spec)
        if failed is None:
            return self._whole_s(knobs, spec)
        if failed.kind is OutcomeKind.TIMEOUT:
            return self.asked.trial_limit_s
        return self._started_s(knobs, spec) + _ENDING_S

    def _whole_s(self, knobs: TrainConfig, spec: TrialSpec) -> float:
        step_s, window_s = self.step_s(knobs), self.asked.window_s
        ramp_s = min(self._ramp_batches(knobs) * step_s, 2 * window_s + step_s)
        seconds = self._started_s(knobs, spec) + ramp_s + _ENDING_S
        if spec.rate_to_beat is not None and self.truth(knobs) < 0.95 * spec.rate_to_beat:
            return seconds + max(window_s / 4, 12 * step_s)
        seconds += self._steady_batches(knobs) * step_s + self._boundary_of_s(knobs) + ramp_s
        if spec.role is TrialRole.BASELINE:
            seconds += max(_LEARNING_BATCHES * step_s, min(_LEARNING_S, 64 * step_s))
        if Detail.FLOORS in spec.details:
            seconds += 3.0 + 8 * step_s + 2 * min(_FLOOR_S, _FLOOR_BATCHES * step_s)
        return seconds + sum(max(window_s / 2, 3 * self._compute_s(knobs, size)) for size in spec.sizes)

    def _steady_batches(self, knobs: TrainConfig) -> int:
        step_s, window_s = self.step_s(knobs), self.asked.window_s
        least = min(_MIN_BATCHES, max(3, math.ceil(2 * window_s / step_s)))
        return max(least, math.ceil(window_s / step_s))

    def _ramp_batches(self, knobs: TrainConfig) -> int:
        return min(max(knobs.queue_batches - 1, 3), 32)

    def _started_s(self, knobs: TrainConfig, spec: TrialSpec) -> float:
        """Return the seconds to the end of the first step."""
        off = math.exp(_START_NOISE * self._chance("start", knobs, spec.role, spec.round).gauss(0, 1))
        return off * (self.startup_s + self.compile_s * knobs.compile) + self.step_s(knobs)

    def _compute_s(self, knobs: TrainConfig, size: int | None = None) -> float:
        at = knobs.model_copy(update={"batch_size": size}) if size else knobs
        return float(self.equations.times(at).compute_s[0])

    def _boundary_of_s(self, knobs: TrainConfig) -> float:
        return 0.1 + (0.0 if knobs.persistent_workers else self.boundary_s * (knobs.num_workers > 0))

    def measured(self, knobs: TrainConfig) -> dict[str, Any]:
        """Return what a trial shows beside its rate: its parts as the equations have them."""
        times, step_s = self.equations.times(knobs), self.step_s(knobs)
        batches = self._steady_batches(knobs)
        compute_s = min(float(times.compute_s[0]), 0.99 * step_s)
        wait_s, fetch_s = 0.98 * (step_s - compute_s), float(times.fetch_s[0])
        one = WorkerWork(batches=batches, time_s=batches * fetch_s)
        works = max(1, knobs.num_workers)
        return super().measured(knobs) | {
            "parts": StepParts(
                data_wait_s=batches * wait_s, compute_s=batches * compute_s, optimizer_s=0.0, other_s=0.0
            ),
            "device_parts": DeviceParts(
                batches=batches,
                stall_s=batches * wait_s,
                compute_s=batches * compute_s,
                optimizer_s=0.0,
                other_s=0.0,
                drained_batches=0,
            ),
            "loader_work": LoaderWork(
                workers=(one,) * works,
                cpu_s=works * batches * float(times.fetch_cpu_s[0]),
            ),
            "steady_batches": batches,
            "discarded_batches": self._ramp_batches(knobs),
            "epoch_samples": self.epoch_samples,
            "epoch_batches": math.ceil(self.epoch_samples / knobs.batch_size),
            "boundary_s": self._boundary_of_s(knobs),
            "startup_s": self.startup_s,
            "first_step_s": step_s + self.compile_s * knobs.compile,
        }

    def looked(self, knobs: TrainConfig, spec: TrialSpec) -> Details:
        """Return what a trial that looks closer shows."""
        if spec.sizes:
            seen = [
                ComputeSweepPoint(batch_size=size, step_s=self._compute_s(knobs, size), batches=_LOOKS)
                for size in spec.sizes
            ]
            return Details(sizes=ComputeSweep(sizes=tuple(seen)))
        if Detail.FLOORS not in spec.details:
            return Details()
        times = self.equations.times(knobs)
        alone_s = float((times.loader_s if knobs.num_workers else times.fetch_s)[0])
        return Details(
            floors=IsolatedRates(
                loader_step_s=alone_s,
                compute_step_s=float(times.compute_s[0]),
            )
        )

    # --- the truth of a search --------------------------------------------------------------

    def best_rate(self, space: tuple[KnobSpace, ...]) -> float:
        """Return the highest rate in a space that its machine and its GPU hold, with their margins."""
        configs = np.array(all_configs(space), dtype=object)
        rates = np.exp(self.equations.log_rates(list(configs)))
        spec = TrialSpec(1, TrialRole.SEARCH, None)
        for place in np.argsort(-rates, kind="stable"):
            knobs = configs[place]
            held = (
                self.reserved_bytes(knobs) <= 0.95 * self.device_bytes
                and knobs.num_workers <= self.machine.cpus
            )
            if held and self.failing(knobs, spec) is None:
                return self.truth(knobs)
        raise AssertionError("no config of the space fits")

    def gain_share(self, record: TrialRecord, best: float) -> float:
        """Return which share of the gain that can be reached, in logarithms, a trial's config has."""
        assert record.config is not None
        own = self.truth(self.baseline)
        reachable = math.log(best / own)
        return math.log(self.truth(record.config) / own) / reachable if reachable > 0.01 else 1.0


def job(
    name: str,
    home: TrainConfig,
    *,
    startup_s: float,
    step_s: float,
    fetch_s: float,
    compile_s: float,
    factors: Mapping[str, float],
    cpus: int = 16,
    limit_s: float = 300.0,
    **more: Any,
) -> GpuJob:
    """Return a job.

    Args:
        name: as the table has it.
        home: the script's own config.
        startup_s: before its first batch.
        step_s: of training alone on its own batch.
        fetch_s: that one process takes to make a batch.
        compile_s: more of the first step.
        factors: what modes make of the cost per sample and per step, by the model's names of them;
            compute_overhead_share and worker_loss are shares.
        cpus: of the machine.
        limit_s: `--trial-limit`.
        more: fields of GpuJob.
    """
    bare = EquationWorld(cpus=cpus, compute_s=step_s, fetch_s=fetch_s, home=home)
    moved = {
        one.name: (_as_parameter(one.name, factors[one.name]) - one.mean) / one.deviation
        for one in bare.physics.parameters
        if one.name in factors
    }
    unknown = set(factors) - set(moved)
    assert not unknown, f"the model has no {unknown}"
    return GpuJob(
        name=name,
        startup_s=startup_s,
        compile_s=compile_s,
        equations=EquationWorld(cpus=cpus, compute_s=step_s, fetch_s=fetch_s, home=home, moved=moved),
        machine=host(cpus=cpus, cpus_total=cpus, ram_limit_bytes=8 * cpus * GIB, shm_bytes=4 * cpus * GIB),
        asked=options(trial_limit_s=limit_s),
        losses="agree",
        **more,
    )


def _as_parameter(name: str, value: float) -> float:
    return math.log(value / (1 - value)) if name == "compute_overhead_share" else math.log(value)


def gpu_jobs() -> tuple[GpuJob, ...]:
    """Return all jobs."""
    compiled, overhead = "compile_samples", "compile_overhead"
    return (
        job(
            "ResNet-50, ImageNet",
            config(batch_size=64, num_workers=4, persistent_workers=False),
            startup_s=45,
            step_s=0.17,
            fetch_s=0.45,
            compile_s=75,
            factors={compiled: 0.8, overhead: 0.5, "bf16_samples": 0.55, "tf32_samples": 0.8}
            | {"channels_last_samples": 0.85, "compute_overhead_share": 0.1},
            epoch_samples=1_281_167,
            has_images=True,
            activation_bytes=90 * MIB,
            sample_bytes=600_000,
        ),
        job(
            "GPT pre-train",
            config(batch_size=8, num_workers=2, precision="bf16"),
            startup_s=12,
            step_s=0.5,
            fetch_s=0.01,
            compile_s=100,
            factors={compiled: 0.6, overhead: 0.4, "compute_overhead_share": 0.08},
            epoch_samples=1_000_000,
            model_bytes=4 * GIB,
            activation_bytes=900 * MIB,
            sample_bytes=16_000,
        ),
        job(
            "U-Net",
            config(batch_size=4, num_workers=2),
            startup_s=40,
            step_s=0.9,
            fetch_s=1.4,
            compile_s=150,
            factors={compiled: 0.85, "bf16_samples": 0.5, "tf32_samples": 0.75, "channels_last_samples": 0.9},
            epoch_samples=20_000,
            has_images=True,
            activation_bytes=1200 * MIB,
            sample_bytes=12 * MIB,
        ),
        job(
            "LSTM",
            config(batch_size=20, num_workers=0),
            startup_s=5,
            step_s=0.008,
            fetch_s=0.0003,
            compile_s=0,
            factors={compiled: 0.98, overhead: 0.95, "bf16_samples": 0.9, "compute_overhead_share": 0.8},
            epoch_samples=46_000,
            activation_bytes=3 * MIB,
        ),
        job(
            "diffusion fine-tune",
            config(batch_size=2, num_workers=2, precision="bf16"),
            startup_s=120,
            step_s=1.5,
            fetch_s=0.3,
            compile_s=180,
            factors={compiled: 0.75, overhead: 0.5, "compute_overhead_share": 0.12},
            limit_s=900,
            epoch_samples=30_000,
            model_bytes=10 * GIB,
            activation_bytes=2 * GIB,
            sample_bytes=3 * MIB,
        ),
        job(
            "7B LoRA",
            config(batch_size=1, num_workers=0, precision="bf16"),
            startup_s=260,
            step_s=4.0,
            fetch_s=0.01,
            compile_s=120,
            factors={compiled: 0.85, overhead: 0.6, "compute_overhead_share": 0.3},
            cpus=24,
            limit_s=900,
            epoch_samples=15_000,
            device_bytes=80 * GIB,
            model_bytes=18 * GIB,
            activation_bytes=9 * GIB,
            sample_bytes=33_000,
        ),
    )
