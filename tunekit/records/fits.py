"""What `tunekit fits` learned: one traced trial, and what it predicts of GPUs."""

from enum import StrEnum

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import Record
from tunekit.records.config import Precision
from tunekit.records.prediction import DevicePrediction, OutsideTorch
from tunekit.records.run import TargetRecord


class FitsOptions(Record):
    """What the user asked of `tunekit fits`."""

    gpus: tuple[str, ...] = ()
    """Ids of the profiles to tell of; empty for all."""
    batch_size: PositiveInt | None = None
    """Which GPUs hold this one was asked."""
    window_s: PositiveFloat = 2.0
    trial_limit_s: PositiveFloat = 300.0
    no_progress_limit_s: PositiveFloat = 90.0


class Verdict(StrEnum):
    """Whether a batch size fits a GPU."""

    YES = "yes"
    """With the margin, and the most outside of torch."""
    TIGHT = "tight"
    """Within the bounds of what is known."""
    NO = "no"
    """Not even if everything is at its best."""


class AskedBatch(Record):
    """The batch size that was asked for, on one GPU in one precision: predicted."""

    profile_id: str
    precision: Precision
    verdict: Verdict
    reserved_bytes: NonNegativeInt
    """By torch, without the margin."""
    least_bytes: NonNegativeInt
    """That torch can have beside what may lie outside of it."""
    most_bytes: NonNegativeInt


class GpuFacts(Record):
    """What a prediction went by of one GPU, beside its profile's memory and rates."""

    profile_id: str
    outside: OutsideTorch
    instance: str | None = None
    """The machine whose vCPUs the loader has."""
    vcpus: PositiveFloat | None = None
    """Of it, for each GPU."""


class FitsRun(TargetRecord):
    """Everything one `tunekit fits` learned; the prediction is remade from the trial's files."""

    options: FitsOptions
    prediction: DevicePrediction | None = None
    why_not: str | None = None
    """Why there is no prediction; None also while the trial runs."""
    gpus: tuple[GpuFacts, ...] = ()
    asked: tuple[AskedBatch, ...] = ()
    """With FitsOptions.batch_size, one for each of the prediction's fits."""
    fits_time_s: NonNegativeFloat = Field(default=0.0)
