"""What the throughput model says of a run's configs; predicted, but for the rates named measured."""

from enum import StrEnum

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from tunekit.records.base import Record
from tunekit.records.interval import Interval
from tunekit.records.recommendation import Tier


class Limit(StrEnum):
    """What holds the rate of a config where it is."""

    LOADER = "loader"
    TRAINING = "training"
    CORES = "cores"
    """Loader and training could each go on faster, but not on the same cores."""
    BOTH = "both"
    """Loader and training allow the same, within a tenth."""
    TURNS = "turns"
    """Without workers one waits for the other."""


class PredictedLimits(Record):
    """What each part of the loop allows alone in one config; samples/s of all ranks, predicted."""

    tier: Tier | None
    """The tier that recommends the config; None for the baseline."""
    loader_samples_per_s: PositiveFloat | None
    """Over whole epochs, their boundaries included; None where no trial told what a batch takes to make."""
    training_samples_per_s: PositiveFloat | None
    """From data that is always at hand."""
    cores_samples_per_s: PositiveFloat | None
    """What the cores allow that loader and training share; None without workers."""
    limit: Limit | None
    """None where loader or training are unknown."""
    rate_samples_per_s: Interval
    """The model's own rate of the config over whole epochs, with its 95% range."""
    measured_samples_per_s: PositiveFloat
    """What was measured of it, by fresh confirming processes where there are any."""


class KnobWorth(Record):
    """What one knob brings to the recommended config: predicted."""

    knob: str
    before: bool | int | str | None
    """The baseline's value."""
    after: bool | int | str | None
    """The recommended one."""
    factor: Interval
    """Rate of the recommended config over that of the same config with this knob as before."""


class ModelSummary(Record):
    """Why the configs of a run are as fast as they are, and how far the model can be trusted."""

    limits: tuple[PredictedLimits, ...]
    """Of the baseline where it was measured, then of each tier."""
    missed_relative: NonNegativeFloat | None
    """Mean |predicted / measured - 1| of configs, each predicted from the trials of the others."""
    checked_configs: PositiveInt | None
    """Measured configs that this is the mean of; both None with fewer than two."""
    knobs: tuple[KnobWorth, ...] = ()
    """Of the config that the answer speaks of, each knob that differs from the baseline's and can be put
    back alone: without workers nothing is prefetched."""
