"""The facts about a measured training loop that its checks use, and the findings of all these checks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import geometric_mean
from typing import ClassVar, NamedTuple

from tunekit.diagnose.attribution import (
    Attribution,
    Closure,
    Making,
    attribution,
    bound,
    closure,
    is_small_stall,
    making,
    ratio,
)
from tunekit.diagnose.knob_words import set_knob
from tunekit.diagnose.policy import (
    CLEAR_STALL_SHARE,
    FIRST_WORKERS,
    MAX_WAITING_WORKERS,
    SAME_LOADER_RATE,
)
from tunekit.diagnose.registry import findings_of, worst_first
from tunekit.recommend.knob_gains import knobs_put_back
from tunekit.records.attribution import LoaderWork
from tunekit.records.details import Details
from tunekit.records.finding import Finding
from tunekit.records.host import Host
from tunekit.records.interval import Interval
from tunekit.records.measurement import GpuTelemetry, LoopMeasurement, Measurement
from tunekit.records.profile import Profile
from tunekit.records.recommendation import Bound
from tunekit.records.target import Discovery, Target
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import rates_by_config
from tunekit.trial.binding_syntax import BoundValue

_IDLE_WAITS = (Making.WAITING_FOR_STORAGE, Making.WAITING)


class Tried(NamedTuple):
    """What the search measured about a knob's value."""

    gain: float | None
    """Rate with the value over the rate without, between configs that differ in nothing else; else None."""
    text: str
    """The gain in words; without one, that of the fastest config with the value over the loop's config."""


@dataclass(frozen=True)
class LoopFacts:
    """The known facts about one trial."""

    record: TrialRecord
    """The trial, which was measured; for a failed one only properties of its config work."""
    target: Target
    """The command, in whose terms remedies are given."""
    discovery: Discovery | None
    """What the baseline found out about the script."""
    host: Host
    """One rank's share of the machine."""
    profile: Profile | None
    """The profile of the device that the trial ran on; None if no profile matches it."""
    rate: Interval | None = None
    """The rate of its config over all its processes, in samples/s; None if only this trial counts."""
    trials: Sequence[TrialRecord] = ()
    """All trials of the same search, which may have tried what a check would recommend."""

    @property
    def measurement(self) -> Measurement:
        """What the trial measured."""
        assert self.record.measurement is not None, "a trial that failed has no findings"
        return self.record.measurement

    @property
    def loop(self) -> LoopMeasurement:
        """The measured loop."""
        return self.measurement.loop

    @property
    def details(self) -> Details:
        """What was measured after the steady window; empty if nothing was."""
        return self.measurement.details or Details()

    @property
    def work(self) -> LoaderWork | None:
        """The work of making batches."""
        return self.loop.loader_work

    @property
    def is_cuda(self) -> bool:
        """Whether the loop trains on a CUDA device."""
        return self.loop.device.type == "cuda"

    @cached_property
    def attribution(self) -> Attribution:
        """Where the step's time goes."""
        return attribution(self.measurement)

    @cached_property
    def closure(self) -> Closure | None:
        """Whether loader and training account for the loop's time."""
        return closure(self.measurement)

    @cached_property
    def bound(self) -> Bound:
        """What limits the loop's speed."""
        return bound(self.measurement, self.record.telemetry, self.rate)

    @property
    def waits_for_data(self) -> bool:
        """Whether data wait clearly slows the loop down, whether or not it is the bottleneck."""
        share = self.attribution.stall_share
        is_felt = share > CLEAR_STALL_SHARE and is_small_stall(share)
        return self.bound in (Bound.DATA, Bound.TURNS) or (
            is_felt and self.bound in (Bound.COMPUTE, Bound.BALANCED)
        )

    @property
    def gpus(self) -> tuple[GpuTelemetry, ...]:
        """GPUs that the trial computed on; empty if their figures are not from the steady window."""
        seen = self.record.telemetry
        if seen is None or not seen.is_of_steady_window or not self.is_cuda:
            return ()
        return tuple(gpu for gpu in seen.gpus if gpu.is_used)

    @cached_property
    def making(self) -> Making | None:
        """What making a batch mostly consists of; None if it was not timed, or nothing stands out."""
        if self.work is None:
            return None
        found = making(self.work, self.record.telemetry, self.taken_share)
        cores = self.record.telemetry.host.cpu_cores if self.record.telemetry is not None else None
        # Only one thread of the loop's own process is timed: a data set may decode in others.
        decodes_beside = self.loop.num_workers == 0 and cores is not None and cores > 1.0
        return None if decodes_beside and found in _IDLE_WAITS else found

    @property
    def is_fetch_waiting(self) -> bool:
        """Whether making a batch is mostly waiting, but not for a CPU, so that more processes can help."""
        return self.making in _IDLE_WAITS

    @property
    def taken_share(self) -> float | None:
        """Share of its CPUs that the trial used, as sampled by the parent; None if unknown."""
        cores = self.record.telemetry.host.cpu_cores if self.record.telemetry is not None else None
        return None if cores is None else ratio(cores, self.cpus)

    @property
    def cpus(self) -> int:
        """CPUs that the trial's processes may use, summed over all ranks."""
        return self.host.cpus * self.loop.world_size

    @property
    def more_workers(self) -> int | None:
        """A larger number of workers that could keep up with the training, or that of the fastest trial.

        It is None if the CPUs can't run more, or if the search measured that more are no faster.
        """
        wanted, rates = self._workers_that_keep_up, rates_by_config(self.trials)
        if wanted is not None and rates:
            wanted = max(wanted, max(rates, key=lambda one: geometric_mean(rates[one])).num_workers)
        tried = self.tried("num_workers", wanted)
        return None if tried and tried.gain and tried.gain <= 1 else wanted

    @property
    def _workers_that_keep_up(self) -> int | None:
        present = self.loop.num_workers
        wanted = present + 1 if present else FIRST_WORKERS
        isolated, stall_share = self.measurement.isolated, self.attribution.stall_share
        step_s = isolated.compute_step_s or self.loop.step_time_s * (1 - stall_share)
        tried = {one.num_workers: one.step_s for one in isolated.workers}
        if tried:
            keeps_up_s = max(step_s, (1 + SAME_LOADER_RATE) * min(tried.values()))
            fewest = min(count for count, loader_s in tried.items() if loader_s <= keeps_up_s)
            return fewest if fewest > present else None
        batch_s = self.work.batch_s if self.work is not None else None
        needed = None if batch_s is None else ratio(batch_s, step_s)
        if needed is not None:
            wanted = max(present + 1, math.ceil(needed))
        # One CPU is left to the training process; workers that mostly wait don't need one each.
        most = MAX_WAITING_WORKERS if self.is_fetch_waiting else max(1, self.host.cpus - 1)
        return min(wanted, most) if min(wanted, most) > present else None

    def set_knob(self, knob: str, value: BoundValue) -> str:
        """Return how to set a knob in this target, and what the search measured about that value."""
        words, tried = set_knob(self.target, knob, value), self.tried(knob, value)
        return words if tried is None else f"{words} ({tried.text})"

    def tried(self, knob: str, value: BoundValue) -> Tried | None:
        """Return what the search measured about a knob's value; None if it did not try it."""
        own, every = self.record.config, rates_by_config(self.trials)
        rates = {config: geometric_mean(each) for config, each in every.items()}
        changed = {one: rate for one, rate in rates.items() if getattr(one, knob) == value}
        if own is None or own not in rates or not changed:
            return None
        without = ((rate, knobs_put_back(one, own).get(knob)) for one, rate in changed.items())
        alone = [rate / rates[other] for rate, other in without if other in rates]
        if alone:
            return Tried(gain := geometric_mean(alone), f"measured {gain:.2f}x")
        best = max(changed.values()) / rates[own]
        return Tried(None, f"measured {best:.2f}x with other changes")


@dataclass(frozen=True)
class TrialGpu:
    """A GPU that a trial computed on."""

    called: ClassVar = "the GPU"
    gpu: GpuTelemetry
    facts: LoopFacts

    @property
    def name(self) -> str:
        """Its name in findings, with the driver's index."""
        return f"GPU {self.gpu.index}"

    @property
    def fall_of_clock(self) -> float | None:
        """The share of its clock rate that it lost during the window."""
        first, last = self.gpu.first_sm_clock_mhz, self.gpu.last_sm_clock_mhz
        return None if not first or last is None else max(0.0, 1 - last / first)

    @property
    def rise_c(self) -> float | None:
        """How much warmer it became during the window."""
        first, last = self.gpu.first_temperature_c, self.gpu.last_temperature_c
        return None if first is None or last is None else last - first


def loop_findings(facts: LoopFacts) -> list[Finding]:
    """Return what slows a loop down, the largest gain first and measured gains before predicted ones.

    Findings of equal gain are sorted by severity. If the rate is too uncertain, no gains are given.
    """
    if facts.record.measurement is None:
        return []
    found = findings_of(facts, facts.record, *(TrialGpu(gpu, facts) for gpu in facts.gpus))
    if facts.bound is Bound.UNSETTLED:
        found = [one.changed(gain=None) for one in found]
    return sorted(worst_first(found), key=lambda one: (not one.is_measured, -(one.gain or 1.0)))
