"""Two or more runs side by side: what `tunekit compare --json` prints."""

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
"""What is compared: samples/s or, on different machines, each run's speedup over its own baseline."""


class TimePart(Record):
    """One part of the measured time that a loop takes for 1,000 samples, averaged over its processes."""

    name: str
    seconds: FiniteFloat
    """If boundaries vary, the part between epochs may come out below 0."""


class ComparedRun(Record):
    """One run: the compared config, and what its fresh processes measured."""

    name: str
    """"A" is the reference, then "B", "C" in the order given."""
    folder: str
    """The run's folder, as given."""
    created_at: str
    """ISO 8601, UTC."""
    commit: str | None = None
    """The commit that the run recorded."""
    measured_on: str
    device: str
    """The device's name, as the training loop saw it."""
    tier: Tier | None
    """The tier whose config is compared; None for the baseline, the user's own config."""
    config: TrainConfig
    rates_samples_per_s: tuple[PositiveFloat, ...] = Field(min_length=1)
    """Rate of each fresh process over whole epochs."""
    rate_samples_per_s: Interval
    """Their mean; low and high equal it if the range is unknown."""
    epoch_time_s: PositiveFloat | None
    objective: Objective
    """What its search optimised."""
    speedup: Interval | None
    """Speedup over the run's own baseline, paired by round, in its search's objective."""
    is_baseline: bool
    """Whether the config is the run's own baseline."""
    noise_floor: NoiseFloor | None
    memory: MemoryNeed
    time_parts: tuple[TimePart, ...]
    """Parts of the time for 1,000 samples of all ranks, by the comparison's clock."""

    @property
    def time_s(self) -> float:
        """Seconds for 1,000 samples."""
        return sum(part.seconds for part in self.time_parts)


class ReferenceComparison(Record):
    """A later run compared with the first."""

    name: str
    rate_ratio: PositiveFloat
    """Mean rate over the reference's."""
    factor: Interval | None
    """The same with its 99% range (Welch's t on log rates); None with too few processes to tell."""
    machine_differences: tuple[str, ...]
    """How the two machines and their software differ, such as "CPU model"."""
    compared_by: ComparedBy | None
    """Which factor decides: `factor` or, on different machines, `relative_factor`; None if neither can."""
    why_not: str | None
    """Why the two can't be compared; None if they can."""
    verdict: Verdict | None
    """Verdict on the deciding factor; None if nothing decides or there are too few processes."""
    baseline_factor: Interval | None
    """The run's own baseline over the reference's: how much the machines differ, with a 99% range. None if
    the baselines are not the same training or can't be compared."""
    baseline_verdict: Verdict | None
    relative_factor: Interval | None
    """Its speedup over its own baseline, divided by the reference's, each paired by round: the factor without
    the difference between the machines, with a 99% range. None if the baselines are not the same training."""
    machine_explains: bool
    """Whether the machines rather than the configs explain the difference in rate."""
    changed_knobs: tuple[str, ...]
    reserved_ratio: NonNegativeFloat | None
    """Peak reserved VRAM over the reference's."""
    is_regression: bool
    """Whether it is significantly slower by the deciding factor, and by more than the tolerance."""
    findings: tuple[Finding, ...]
    """What makes the comparison unfair or inconclusive, and memory growth."""


class RunComparison(Record):
    """Runs side by side."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    tolerance: float = Field(ge=0, lt=1)
    """How much slower a run may be, as a share of the reference."""
    has_regression: bool
    """Whether any later run is a regression; the exit code is then 1."""
    clock: Literal["device", "host"]
    """The clock behind the time parts: the device's if all processes have it."""
    runs: tuple[ComparedRun, ...] = Field(min_length=2)
    """The runs, the reference first."""
    against: tuple[ReferenceComparison, ...]
    """The comparisons of all runs but the reference, in the same order."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if tuple(one.name for one in self.against) != tuple(one.name for one in self.runs[1:]):
            raise ValueError("every run but the first has to be compared with the first, in their order")
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
