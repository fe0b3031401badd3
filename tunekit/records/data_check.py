"""Whether a config trains the same thing as the baseline: its samples, its steps and its schedule."""

from enum import StrEnum

from pydantic import Field, NonNegativeFloat

from tunekit.records.base import Record


class Sameness(StrEnum):
    """The verdict of a check against the baseline."""

    SAME = "same"
    """The config trains on the same samples, in as many steps, on the same schedule."""
    DIFFERS = "differs"
    """The config trains something else; it never becomes a tier."""
    NOT_CHECKED = "not_checked"
    """The config stays in its tier, marked with the reason."""


class DifferenceCode(StrEnum):
    """What a config changes in the training."""

    REPEATED = "repeated"
    """Samples come more often per epoch than with the baseline."""
    MISSING = "missing"
    """Samples of the baseline's epoch never appear."""
    CONTENT = "content"
    """The same index gives a different sample."""
    SAME_DRAWS = "same_draws"
    """Workers draw the same random numbers."""
    STALE = "stale"
    """Persistent workers keep the data set as it was in the first epoch."""
    UNSHARED = "unshared"
    """Each worker changes a separate copy of state that samples or the loop depend on."""
    SCHEDULE = "schedule"
    """A learning-rate schedule keeps its step count (`of`), but the same samples take `affected` steps."""
    STEPS = "steps"
    """A step limit stays at `of`, but the same samples take `affected` steps."""
    LOADER_RATIO = "loader_ratio"
    """Other loaders still give `of` samples per step, but keeping their ratio takes `affected`."""


class Difference(Record):
    """One thing that a config changes, and how often."""

    code: DifferenceCode
    affected: NonNegativeFloat
    """Number of samples, steps or draws; the unit depends on the code."""
    of: NonNegativeFloat
    """The total or the expected number, in the same unit."""
    example: str | None = Field(default=None, max_length=300)
    """An example, such as "index 17" or "OneCycleLR(total_steps=800)"."""


class DataCheck(Record):
    """Whether one config trains the same thing as the baseline."""

    verdict: Sameness
    differences: tuple[Difference, ...] = Field(default=(), max_length=16)
    indices_checked: int = 0
    """Sampler draws, or samples of a stream, that were compared in an epoch."""
    samples_checked: int = 0
    """Samples whose content was compared."""
    left_out_samples: int = 0
    """Samples per epoch of the baseline that no batch contains, different ones each epoch."""
    why_not: str | None = Field(default=None, max_length=300)
    """Why it wasn't checked, or which part wasn't."""
