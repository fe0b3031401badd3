"""Worlds for whole searches: a rate, a peak of memory and a fate for every config and process, all drawn."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from build_records import GIB, MIB, cpu, device, failure, host, options
from equation_worlds import EquationWorld, equation_worlds
from hypothesis import strategies as st
from scripted_search import learnt
from simulated_losses import curve, decreasing

from tunekit.records.config import Precision, TrainConfig
from tunekit.records.host import Host
from tunekit.records.run import FixedKnob, KnobRange, SearchOptions
from tunekit.records.trial import Failure, OutcomeKind, TrialRole
from tunekit.trial.executor import TrialSpec

GOOD_LOSSES = tuple(curve(decreasing, 64, 1, noise=0.1))
BAD_LOSSES = (*GOOD_LOSSES[:32], *(loss + 1.0 for loss in GOOD_LOSSES[32:]))
_MAX_NOISE = 2.5
"""Deviations that a process is off at most."""


@dataclass(frozen=True)
class SearchWorld:
    """One script on one machine, and what its user asks.

    Attributes:
        seed: of all that is by chance.
        equations: the rates, before what is by chance.
        asked: the user's options.
        machine: its limits.
        on_cpu: whether it trains on the CPU.
        rough: by how much a config is off the equations, the deviation of a logarithm.
        noise: by how much a process is off its config, the same.
        flaky: share of the confirming processes that fail.
        broken: a knob and the value with which the script raises.
        losses: whether it tells any; "bf16 diverges" for worse ones in bf16.
        device_bytes: of the device's memory.
        model_bytes: on the device, whatever the batch.
        activation_bytes: on the device, of a sample.
        sample_bytes: of a sample in a batch.
        base_bytes: of the process tree, without the buffer.
        compile_s: more of the first step.
        trial_s: of any trial.
        faster: factors on the rates of some configs.
    """

    seed: int = 0
    equations: EquationWorld = field(default_factory=EquationWorld)
    asked: SearchOptions = field(default_factory=options)
    machine: Host = field(default_factory=host)
    on_cpu: bool = False
    rough: float = 0.0
    noise: float = 0.0
    flaky: float = 0.0
    broken: tuple[str, Any] | None = None
    losses: str = "none"
    device_bytes: int = 22 * GIB
    model_bytes: int = GIB
    activation_bytes: int = 10 * MIB
    sample_bytes: int = 1000
    base_bytes: int = GIB
    compile_s: float = 30.0
    trial_s: float = 10.0
    faster: Mapping[TrainConfig, float] = field(default_factory=dict)

    @property
    def baseline(self) -> TrainConfig:
        """The script's own config."""
        return self.equations.home

    @cached_property
    def executor_options(self) -> dict[str, Any]:
        """What a scripted executor is told of this world."""
        return {
            "baseline": self.baseline,
            "rate": self.truth,
            "noise": self.noise_of,
            "failing": self.failing,
            "learns": lambda spec: learnt(self.baseline, device_type="cpu" if self.on_cpu else "cuda"),
            "measured": self.measured,
            "losses": self.losses_of,
            "trial_s": self.trial_s,
        }

    def truth(self, knobs: TrainConfig) -> float:
        """Return the samples/s of a config, without noise."""
        off = self.rough * self._chance("rate", knobs).gauss(0, 1)
        return math.exp(float(self.equations.log_rates([knobs])[0]) + off) * self.faster.get(knobs, 1.0)

    def noise_of(self, knobs: TrainConfig, spec: TrialSpec) -> float:
        """Return by what factor a process is off; the same whenever it runs."""
        off = self._chance("noise", knobs, spec.role, spec.round).gauss(0, 1)
        return math.exp(self.noise * max(-_MAX_NOISE, min(off, _MAX_NOISE)))

    def failing(self, knobs: TrainConfig, spec: TrialSpec) -> Failure | None:
        """Return how a process ends that is not measured."""
        if spec.role is TrialRole.BASELINE:
            return None
        buffered_bytes = knobs.queue_batches * knobs.batch_size * self.sample_bytes
        if self.base_bytes + buffered_bytes > self.machine.ram_limit_bytes:
            return failure(OutcomeKind.HOST_OOM)
        if not self.on_cpu and self.reserved_bytes(knobs) > 0.98 * self.device_bytes:
            return failure(OutcomeKind.DEVICE_OOM)
        if knobs != self.baseline and self.broken and getattr(knobs, self.broken[0]) == self.broken[1]:
            return failure(OutcomeKind.SCRIPT_ERROR)
        is_again = spec.role is TrialRole.CONFIRM and spec.config is not None
        fails = is_again and self._chance("fate", knobs, spec.round).random() < self.flaky
        return failure(OutcomeKind.WORKER_CRASH) if fails else None

    def reserved_bytes(self, knobs: TrainConfig) -> int:
        """Return what a config takes of the device's memory."""
        share = 0.6 if knobs.precision is Precision.BF16 else 1.0
        return self.model_bytes + round(share * self.activation_bytes * knobs.batch_size)

    def measured(self, knobs: TrainConfig) -> dict[str, Any]:
        """Return what a trial of a config shows beside its rate."""
        seen: dict[str, Any] = {
            "bytes_per_sample": self.sample_bytes,
            "base_bytes": self.base_bytes,
            "first_step_s": 1.0 + (self.compile_s if knobs.compile else 0.0),
        }
        if self.on_cpu:
            return seen | {"device": cpu()}
        reserved_bytes = min(self.reserved_bytes(knobs), self.device_bytes)
        return seen | {
            "device": device(memory_bytes=self.device_bytes),
            "peak_reserved_bytes": reserved_bytes,
        }

    def losses_of(self, knobs: TrainConfig, spec: TrialSpec) -> tuple[float, ...]:
        """Return the losses of a process."""
        if self.losses == "none":
            return ()
        is_bad = self.losses == "bf16 diverges" and knobs.precision is Precision.BF16
        return BAD_LOSSES if is_bad else GOOD_LOSSES

    def _chance(self, *what: object) -> random.Random:
        return random.Random(f"{self.seed} {what}")


@st.composite
def machines(draw: st.DrawFn, cpus: int) -> Host:
    """Machines from a laptop to a server, with little and much /dev/shm."""
    ram_bytes = draw(st.sampled_from([4, 16, 64])) * GIB
    return host(
        cpus=cpus,
        cpus_total=cpus,
        ram_limit_bytes=ram_bytes,
        ram_total_bytes=ram_bytes,
        shm_bytes=draw(st.none() | st.sampled_from([64 * MIB, GIB, 16 * GIB])),
    )


@st.composite
def wishes(draw: st.DrawFn, own: TrainConfig, cpus: int) -> SearchOptions:
    """What a user may ask beside the time: knobs fixed or bounded, a global batch, a planned run."""
    knobs: dict[str, st.SearchStrategy[Any]] = {
        "num_workers": st.integers(0, cpus),
        "prefetch_factor": st.sampled_from([1, 2, 5]),
        "pin_memory": st.booleans(),
        "compile": st.booleans(),
        "precision": st.sampled_from(["fp32", "bf16"]),
    }
    fixed = draw(st.lists(st.sampled_from(sorted(knobs)), max_size=2, unique=True))
    global_batch = draw(st.none() | st.sampled_from([1, 2]).map(own.batch_size.__mul__))
    low = draw(st.sampled_from([own.batch_size // 2, own.batch_size, 2 * own.batch_size]))
    ranges = [KnobRange(knob="batch_size", low=low, high=4 * low)] if draw(st.booleans()) else []
    if "num_workers" not in fixed and draw(st.booleans()):
        ranges.append(KnobRange(knob="num_workers", low=1, high=max(2, cpus // 2)))
    largest = st.none() | st.sampled_from([own.batch_size, 3 * own.batch_size])
    return options(
        fixed=tuple(FixedKnob(knob=knob, value=draw(knobs[knob])) for knob in fixed),
        ranges=() if global_batch else tuple(ranges),
        max_batch=None if ranges or global_batch else draw(largest),
        global_batch=global_batch,
        confirm_rounds=draw(st.sampled_from([1, 2, 3, 6])),
        planned_steps=draw(st.none() | st.sampled_from([20, 100_000])),
    )


@st.composite
def search_worlds(draw: st.DrawFn) -> SearchWorld:
    """Searches of a few to some thirty trials, on machines where not every config runs."""
    on_cpu = draw(st.booleans())
    equations = draw(equation_worlds(on_cpu))
    trial_s = draw(st.sampled_from([2.0, 10.0, 30.0]))
    asked = draw(wishes(equations.home, equations.cpus))
    timed = {"budget_s": trial_s * draw(st.integers(2, 30)), "max_trials": draw(st.sampled_from([2, 5, 8]))}
    return SearchWorld(
        seed=draw(st.integers(0, 1 << 16)),
        equations=equations,
        asked=asked.model_copy(update=timed),
        machine=draw(machines(equations.cpus)),
        on_cpu=on_cpu,
        rough=draw(st.sampled_from([0.0, 0.1, 0.3])),
        noise=draw(st.sampled_from([0.0, 0.01, 0.15])),
        flaky=draw(st.sampled_from([0.0, 0.0, 0.3])),
        broken=draw(st.none() | st.sampled_from([("compile", True), ("precision", Precision.BF16)])),
        losses=draw(st.sampled_from(["none", "agree", "bf16 diverges"])),
        activation_bytes=draw(st.sampled_from([10, 40, 100])) * MIB,
        sample_bytes=draw(st.sampled_from([1000, MIB // 4, 2 * MIB])),
        base_bytes=draw(st.sampled_from([GIB // 4, 2 * GIB])),
        compile_s=draw(st.sampled_from([0.0, 60.0])),
        trial_s=trial_s,
    )
