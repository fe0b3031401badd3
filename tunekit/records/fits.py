"""What `tunekit fits` learned: one traced trial, and what it predicts of GPUs."""

from enum import StrEnum

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import Record
from tunekit.records.config import Precision
from tunekit.records.interval import Interval
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
    """The batch size that was asked for, else the script's own, on one GPU in one precision: predicted."""

    profile_id: str
    precision: Precision
    batch_size: PositiveInt | None = None
    """None where an earlier tunekit predicted it: FitsOptions.batch_size."""
    verdict: Verdict
    reserved_bytes: NonNegativeInt
    """By torch, without the margin."""
    least_bytes: NonNegativeInt
    """That torch can have beside what may lie outside of it."""
    most_bytes: NonNegativeInt
    rate: Interval | None = None
    """Samples/s of one device at that batch; None where it does not fit, where an epoch has fewer samples, or
    where the GPU's rates are unknown."""
    loader: Interval | None = None
    """Samples/s that the loader could make there; None as for `rate`, or where only that is not known."""


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
    """One for each of the prediction's fits, at `batch_size`; none where that is unknown."""
    fits_time_s: NonNegativeFloat = Field(default=0.0)

    @property
    def batch_size(self) -> int | None:
        """The batch that was asked for, else the script's own, per device; None where neither is known."""
        own = next((trial.config for trial in self.trials if trial.config is not None), None)
        return self.options.batch_size or (own.batch_size if own else None)
