"""One side of a comparison, a run with the compared config, and a pair of sides. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tunekit.recommend.memory import peak_reserved_bytes
from tunekit.recommend.noise import BUSY_FLOOR, spread, unpaired_factor, verdict
from tunekit.records.comparison import ComparedBy
from tunekit.records.config import TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.records.recommendation import NoiseFloor, Recommendation, Verdict
from tunekit.records.run import Run
from tunekit.records.target import command_words, script_name

CHANGES: tuple[Verdict, ...] = ("faster", "slower")
"""The verdicts that mean that two runs differ."""

CONFIDENCE = 0.99
"""Confidence level of intervals between two runs: at 95%, a noisy machine gives 2% false alarms."""


@dataclass(frozen=True)
class Side:
    """One run of a comparison."""

    name: str
    """"A", "B", ..."""
    folder: str
    """The run's folder as given on the command line."""
    run: Run
    chosen: Recommendation | None
    """The tier whose config is compared; None for the baseline."""

    @cached_property
    def measured(self) -> list[Measurement]:
        """The measurements of its fresh processes; empty if the baseline could not be measured."""
        return [one.measurement for one in self.run.history.evidence(self.chosen)]

    @property
    def loop(self) -> LoopMeasurement:
        """One of its loops, for facts that are the same in all of them."""
        return self.measured[0].loop

    @property
    def rates(self) -> list[float]:
        """The rate of each process, in samples/s."""
        return [one.rate_samples_per_s for one in self.measured]

    @cached_property
    def baseline_rates(self) -> list[float]:
        """The rate of each process of the run's own baseline, in samples/s."""
        return [one.loop.rate_samples_per_s for one in self.run.history.evidence(None)]

    @property
    def spread(self) -> float:
        """How much consecutive processes differ, relative: the baseline's or the compared config's."""
        return spread(self.run.noise_floor, self.rates)

    @property
    def config(self) -> TrainConfig | None:
        """The compared config; None for a baseline whose knobs are unknown."""
        return self.run.baseline_config if self.chosen is None else self.chosen.config

    @property
    def is_baseline(self) -> bool:
        """Whether the compared config is the run's own baseline."""
        return self.chosen is None or self.chosen.is_baseline

    @property
    def peak_reserved_bytes(self) -> int | None:
        """Peak VRAM of any process; None on a CPU."""
        peaks = (peak_reserved_bytes(one) for one in self.measured)
        return max((peak for peak in peaks if peak is not None), default=None)

    @property
    def speedups_by_round(self) -> list[float]:
        """Its speedup over its own baseline in each round in which both were measured."""
        if self.is_baseline:
            return [1.0] * len(self.baseline_rates)
        chosen = set(self.chosen.confirm_trials) if self.chosen else set()
        rounds = [one for one in self.run.trials if one.round is not None and one.rate_samples_per_s]
        baseline_rates = {one.round: one.rate_samples_per_s for one in rounds if one.is_baseline_config}
        return [
            one.rate_samples_per_s / baseline
            for one in rounds
            if one.number in chosen and one.rate_samples_per_s and (baseline := baseline_rates.get(one.round))
        ]


@dataclass(frozen=True)
class RunPair:
    """A run and the reference that it is compared with."""

    reference: Side
    other: Side
    tolerance: float
    """How much slower the other may be, as a share of the reference's rate."""

    def each(self, before: object, after: object) -> str:
        """Return the figures of both runs with the runs' names."""
        return f"{before} in {self.reference.name}, {after} in {self.other.name}"

    @property
    def is_same_run(self) -> bool:
        """Whether both folders hold the same trials."""
        return bool(self.other.run.trials) and self.reference.run.trials == self.other.run.trials

    @property
    def is_same_training(self) -> bool:
        """Whether the baselines have the same script text, command and knobs, as far as is known."""
        mine, theirs = self.reference.run, self.other.run
        return (
            mine.target.script_sha256 == theirs.target.script_sha256
            and command_words(mine.target) == command_words(theirs.target)
            and mine.baseline_config is not None
            and mine.baseline_config == theirs.baseline_config
            and mine.world_size == theirs.world_size
        )

    @cached_property
    def machine_differences(self) -> tuple[str, ...]:
        """What differs between the machines and their software, as far as it is known for both."""
        both = {name: {value(self.reference), value(self.other)} for name, value in MACHINE.items()}
        return tuple(name for name, values in both.items() if all(values) and len(values) > 1)

    @cached_property
    def why_not(self) -> str | None:
        """Why the two can't be compared; None if they can."""
        mine, theirs = self.reference.run.target, self.other.run.target
        before, after = script_name(mine), script_name(theirs)
        digests = {mine.script_sha256, theirs.script_sha256}
        if None not in (before, after, *digests) and before != after and len(digests) == 2:
            return f"they train different scripts ({self.each(before, after)})"
        if not self.machine_differences:
            return None
        machines = f"the machines differ ({', '.join(self.machine_differences)})"
        if self.reference.is_baseline and self.other.is_baseline:
            return f"{machines}, and a baseline has no speedup that could be compared instead of its rate"
        if not self.is_same_training:
            return f"{machines}, and their baselines are not the same script, command and knobs"
        return None

    @property
    def compared_by(self) -> ComparedBy | None:
        """What is compared; None if nothing can be."""
        if self.why_not is not None:
            return None
        return "speed-up" if self.machine_differences else "rate"

    @property
    def deciding(self) -> Interval | None:
        """The factor that decides; None if the runs can't be compared, or if too few processes ran."""
        return {"rate": self.factor, "speed-up": self.relative_factor, None: None}[self.compared_by]

    @property
    def deciding_counts(self) -> tuple[int, int]:
        """How many processes, or rounds, of each run the deciding factor is based on."""
        if self.compared_by == "speed-up":
            return len(self.reference.speedups_by_round), len(self.other.speedups_by_round)
        return len(self.reference.rates), len(self.other.rates)

    @cached_property
    def factor(self) -> Interval | None:
        """The other's rate over the reference's; None if too few processes ran."""
        return self._factor(self.other.rates, self.reference.rates)

    @cached_property
    def baseline_factor(self) -> Interval | None:
        """The same factor for their own baselines; None if these are compared anyway, or if they differ."""
        if not self._has_baselines_beside:
            return None
        return self._factor(self.other.baseline_rates, self.reference.baseline_rates)

    def _factor(self, mine: list[float], theirs: list[float]) -> Interval | None:
        floors = self.other.run.noise_floor, self.reference.run.noise_floor
        return unpaired_factor(mine, theirs, *floors, CONFIDENCE)

    @cached_property
    def relative_factor(self) -> Interval | None:
        """The other's speedup over its own baseline, over the reference's; None as for `baseline_factor`."""
        if not self._has_baselines_beside:
            return None
        mine, theirs = self.other.speedups_by_round, self.reference.speedups_by_round
        return unpaired_factor(mine, theirs, confidence=CONFIDENCE)

    @property
    def _has_baselines_beside(self) -> bool:
        return self.is_same_training and not (self.reference.is_baseline and self.other.is_baseline)

    @property
    def noise(self) -> NoiseFloor | None:
        """The larger noise floor of the two."""
        known = [one.run.noise_floor for one in (self.reference, self.other) if one.run.noise_floor]
        return max(known, key=lambda one: one.relative, default=None)

    @property
    def is_busy(self) -> bool:
        """Whether either run's machine was too busy for reliable figures."""
        return max(self.reference.spread, self.other.spread) >= BUSY_FLOOR

    @property
    def reserved_ratio(self) -> float | None:
        """The other's peak reserved VRAM over the reference's."""
        before, after = self.reference.peak_reserved_bytes, self.other.peak_reserved_bytes
        return after / before if before and after is not None else None

    def verdict_on(self, factor: Interval | None) -> Verdict | None:
        """Return the verdict on a factor between the two, using the larger of their noise floors."""
        return None if factor is None else verdict(factor, self.noise, seeks_gain=False)


# --- the machine of a run --------------------------------------------------------------------


def device_text(side: Side) -> str:
    """Return the id of the profile that the run was measured on, with the device's name."""
    on, device = side.run.measured_on, side.loop.device
    return on if device.type == "cpu" else f"{on} ({device.name})"


def torch_version(side: Side) -> str | None:
    """Return the version of torch, as detected on the machine or by the training itself."""
    if side.run.host.torch:
        return side.run.host.torch.version
    return side.run.discovery.torch_version if side.run.discovery else None


def cuda_text(side: Side) -> str | None:
    """Return the CUDA or ROCm version that torch was built for."""
    torch = side.run.host.torch
    if torch is None:
        return None
    if torch.hip_version:
        return f"ROCm {torch.hip_version}"
    return f"CUDA {torch.cuda_version}" if torch.cuda_version else "no CUDA"


MACHINE: Mapping[str, Callable[[Side], str | None]] = {
    "device": device_text,
    "CPU model": lambda side: side.run.host.cpu_name,
    "CPU count": lambda side: str(side.run.host.cpus),
    "GPU driver": lambda side: ", ".join(sorted({gpu.driver or "" for gpu in side.run.host.accelerators})),
    "torch": torch_version,
    "CUDA": cuda_text,
    "cuDNN": lambda side: side.run.host.torch.cudnn_version if side.run.host.torch else None,
}
"""The properties of a machine that affect rates; None means unknown."""
