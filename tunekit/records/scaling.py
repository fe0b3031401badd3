"""Data-parallel training on the GPUs of one host: one GPU's step, the predicted step, the fitted law."""

from enum import StrEnum
from typing import Self

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from tunekit.records.base import Record
from tunekit.records.interval import Interval


class ScalingMode(StrEnum):
    """What stays the same when GPUs are added."""

    WEAK = "weak"
    """The batch of each GPU; the global batch grows."""
    STRONG = "strong"
    """The global batch; each GPU takes its part of it."""


class OneGpuStep(Record):
    """An optimizer step on one GPU, as far as its step time on more of them follows from it."""

    step_s: PositiveFloat
    """Without waiting for the loader."""
    gradients_bytes: NonNegativeInt
    """What the GPUs add up once a step: those of all trained parameters, in the dtype that is sent."""
    spread: NonNegativeFloat = 0.0
    """Standard deviation of the step times of one GPU, as a share of their mean."""
    loader_s: NonNegativeFloat = 0.0
    """What the loaders of the whole host take to make the step's batch, all of its CPUs at work."""

    @property
    def loaded_s(self) -> float:
        """The step with its wait for the loader."""
        return max(self.step_s, self.loader_s)


class ScaledStep(Record):
    """A predicted optimizer step on some GPUs of one host. The parts add up to the step."""

    gpus: PositiveInt
    mode: ScalingMode
    link: str
    """What the gradients travel over."""
    compute_s: PositiveFloat
    """What the step takes on one GPU alone, without the loader."""
    exposed_s: NonNegativeFloat
    """Communication that the backward pass does not hide."""
    straggler_s: NonNegativeFloat
    """Waiting for the slowest of the ranks."""
    loader_wait_s: NonNegativeFloat
    """Waiting for loaders, which the ranks share the CPUs with."""
    efficiency: Interval
    """Rate per GPU, as a share of the rate of one GPU alone."""

    @property
    def step_s(self) -> float:
        """Seconds of the step, as expected."""
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
    """The law with the parameters that measured rates ask for."""

    mode: ScalingMode
    communication: NonNegativeFloat
    """Exposed time of moving all gradients over the bus once, in steps of one GPU."""
    spread: NonNegativeFloat
    """Standard deviation of the step times of a rank, as a share of their mean."""
    residual: NonNegativeFloat | None
    """Root mean square of what step times are off, in steps of one GPU; None where two counts fix the law."""
