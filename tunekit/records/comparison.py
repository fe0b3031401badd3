"""Two runs or more side by side: what `tunekit compare --json` prints."""

from typing import Literal, Self

from pydantic import (
    Field,
    FiniteFloat,
    NonNegativeFloat,
    PositiveFloat,
    model_validator,
)

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.config import TrainConfig
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.recommendation import MemoryNeed, NoiseFloor, Tier, Verdict
from tunekit.records.run import Objective

ComparedBy = Literal["rate", "speed-up"]
"""What of two runs is compared: samples/s, or on unlike machines the speedup over the run's own baseline."""


class TimePart(Record):
    """One part of the time that a loop takes for 1,000 samples, measured, mean over its processes."""

    name: str
    seconds: FiniteFloat
    """Where boundaries vary, that between epochs may come out below 0."""


class ComparedRun(Record):
    """One run: the config that is compared, and what its fresh processes measured."""

    name: str
    """"A" is the reference, then "B", "C" in the order given."""
    folder: str
    """As given."""
    created_at: str
    """ISO 8601, UTC."""
    commit: str | None = None
    """As its run has it."""
    measured_on: str
    device: str
    """Its name, as the training loop saw it."""
    tier: Tier | None
    """Whose config is compared; None is the user's own, the baseline."""
    config: TrainConfig
    rates_samples_per_s: tuple[PositiveFloat, ...] = Field(min_length=1)
    """Of each fresh process over whole epochs."""
    rate_samples_per_s: Interval
    """Their mean; low and high equal it where the range is unknown."""
    epoch_time_s: PositiveFloat | None
    objective: Objective
    """What its search looked for."""
    speedup: Interval | None
    """Against the run's own baseline, paired by round, in what its search looked for."""
    is_baseline: bool
    """Whether the config is the run's own baseline."""
    noise_floor: NoiseFloor | None
    memory: MemoryNeed
    time_parts: tuple[TimePart, ...]
    """For 1,000 samples of all ranks, by the comparison's clock."""

    @property
    def time_s(self) -> float:
        """Seconds for 1,000 samples."""
        return sum(part.seconds for part in self.time_parts)


class ReferenceComparison(Record):
    """A later run beside the first."""

    name: str
    rate_ratio: PositiveFloat
    """Mean rate over the reference's."""
    factor: Interval | None
    """The same with its 99% range (Welch's t on log rates); None with too few processes to tell."""
    machine_differences: tuple[str, ...]
    """What of the two machines and their software differs, such as "CPU model"."""
    compared_by: ComparedBy | None
    """Which factor decides: `factor`, or on unlike machines `relative_factor`; None where nothing can."""
    why_not: str | None
    """Why the two can't be compared; None where they can."""
    verdict: Verdict | None
    """By what decides; None where nothing can, and with too few processes to tell."""
    baseline_factor: Interval | None
    """The run's own baseline over the reference's: how much the machines differ, with a 99% range. None where
    the baselines are not the same training, or can't be compared."""
    baseline_verdict: Verdict | None
    relative_factor: Interval | None
    """Its rate over its own baseline's, by that of the reference, paired by round within each run: the
    factor without what the machines differ by, with a 99% range. None where the baselines are not the same
    training."""
    machine_explains: bool
    """Whether the machines, and not the configs, make the difference in rate."""
    changed_knobs: tuple[str, ...]
    reserved_ratio: NonNegativeFloat | None
    """Peak reserved VRAM over the reference's."""
    is_regression: bool
    """Significantly slower, and by more than the tolerance, in what decides."""
    findings: tuple[Finding, ...]
    """What makes the comparison unfair or inconclusive, and memory that grew."""


class RunComparison(Record):
    """Runs side by side."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    tolerance: float = Field(ge=0, lt=1)
    """How much slower a run may be, as a share of the reference."""
    has_regression: bool
    """Whether any later run is one; the exit code is then 1."""
    clock: Literal["device", "host"]
    """Whose clock says where the time goes: the device's where all processes have it."""
    runs: tuple[ComparedRun, ...] = Field(min_length=2)
    """The reference first."""
    against: tuple[ReferenceComparison, ...]
    """All but the reference, in the same order."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if tuple(one.name for one in self.against) != tuple(one.name for one in self.runs[1:]):
            raise ValueError("every run but the first has to be set against the first, in their order")
        if self.has_regression != any(one.is_regression for one in self.against):
            raise ValueError("has_regression must say whether any run is a regression")
        if any((one.compared_by is None) != (one.why_not is not None) for one in self.against):
            raise ValueError("what is compared must be named, or else why nothing is")
        return self

    @property
    def is_comparable(self) -> bool:
        """Whether every run can be compared with the first."""
        return all(one.why_not is None for one in self.against)

    @property
    def reference(self) -> ComparedRun:
        """The run that the others are compared with."""
        return self.runs[0]
