"""Data-parallel training on the GPUs of one host: one GPU's step, the predicted step, the fitted law."""

from enum import StrEnum
from typing import Self

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from tunekit.records.base import Record
from tunekit.records.interval import Interval


class ScalingMode(StrEnum):
    """What stays the same when GPUs are added."""

    WEAK = "weak"
    """The batch per GPU stays; the global batch grows."""
    STRONG = "strong"
    """The global batch stays; each GPU takes a part of it."""


class OneGpuStep(Record):
    """An optimizer step on one GPU: what the step time on several GPUs is derived from."""

    step_s: PositiveFloat
    """Step time without waiting for the loader."""
    gradients_bytes: NonNegativeInt
    """Gradients that the GPUs sum once per step: those of all trained parameters, in the dtype that is
    sent."""
    spread: NonNegativeFloat = 0.0
    """Standard deviation of the step times of one GPU, as a share of their mean."""
    loader_s: NonNegativeFloat = 0.0
    """Time in which the whole host's loaders make the step's batch, using all its CPUs."""

    @property
    def loaded_s(self) -> float:
        """Step time including the wait for the loader."""
        return max(self.step_s, self.loader_s)


class ScaledStep(Record):
    """A predicted optimizer step on several GPUs of one host. The parts add up to the step."""

    gpus: PositiveInt
    mode: ScalingMode
    link: str
    """The link that carries the gradients."""
    compute_s: PositiveFloat
    """Step time on a single GPU, without the loader."""
    exposed_s: NonNegativeFloat
    """Communication that the backward pass does not hide."""
    straggler_s: NonNegativeFloat
    """Waiting for the slowest rank."""
    loader_wait_s: NonNegativeFloat
    """Waiting for the loaders, as all ranks share the CPUs."""
    efficiency: Interval
    """Rate per GPU, as a share of a single GPU's rate."""

    @property
    def step_s(self) -> float:
        """Expected seconds of the step."""
        return self.compute_s + self.exposed_s + self.straggler_s + self.loader_wait_s

    @property
    def speedup(self) -> Interval:
        """Rate of all GPUs together over that of one."""
        return self.efficiency.times(self.gpus)

    @model_validator(mode="after")
    def _is_a_share(self) -> Self:
        if not 0 < self.efficiency.low <= self.efficiency.high <= 1:
            raise ValueError(
                f"efficiency must lie in (0, 1], got {self.efficiency.low} to {self.efficiency.high}"
            )
        return self


class ScalingFit(Record):
    """The scaling law with parameters fitted to measured rates."""

    mode: ScalingMode
    communication: NonNegativeFloat
    """Exposed time of moving all gradients over the bus once, in units of one GPU's step time."""
    spread: NonNegativeFloat
    """Standard deviation of a rank's step times, as a share of their mean."""
    residual: NonNegativeFloat | None
    """Root mean square error of step times, in units of one GPU's step time; None if only two counts
    determine the law."""
