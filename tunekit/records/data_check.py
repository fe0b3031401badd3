"""Whether a config trains the same thing as the baseline: its samples, its steps and its schedule."""

from enum import StrEnum

from pydantic import Field, NonNegativeFloat

from tunekit.records.base import Record


class Sameness(StrEnum):
    """The verdict of a check against the baseline."""

    SAME = "same"
    DIFFERS = "differs"
    """Never in a tier."""
    NOT_CHECKED = "not_checked"
    """Stays in its tier, marked with the reason."""


class DifferenceCode(StrEnum):
    """What a config changes in the training."""

    REPEATED = "repeated"
    """Samples come more often per epoch than with the baseline."""
    MISSING = "missing"
    """Samples of the baseline's epoch never come."""
    CONTENT = "content"
    """The same index gives another sample."""
    SAME_DRAWS = "same_draws"
    """Workers draw the same random numbers."""
    STALE = "stale"
    """Persistent workers keep the data set as it was in the first epoch."""
    UNSHARED = "unshared"
    """Each worker has a copy of what the data set changes as it is read, and samples or the loop need."""
    SCHEDULE = "schedule"
    """A learning-rate schedule keeps its steps (`of`) where the same samples take others (`affected`)."""
    STEPS = "steps"
    """A step limit stays (`of`) where the same samples take another number of steps (`affected`)."""
    LOADER_RATIO = "loader_ratio"
    """Loaders beside the tuned one still give `of` samples a step, and the same ratio takes `affected`."""


class Difference(Record):
    """One thing that a config changes, counted."""

    code: DifferenceCode
    affected: NonNegativeFloat
    """How many samples, steps or draws; the unit follows from the code."""
    of: NonNegativeFloat
    """Of how many."""
    example: str | None = Field(default=None, max_length=300)
    """Such as "index 17" or "OneCycleLR(total_steps=800)"."""


class DataCheck(Record):
    """Whether one config trains the same thing as the baseline."""

    verdict: Sameness
    differences: tuple[Difference, ...] = Field(default=(), max_length=16)
    indices_checked: int = 0
    """Draws of the sampler that were compared, or samples of a stream, in an epoch."""
    samples_checked: int = 0
    """Samples whose content was compared."""
    left_out_samples: int = 0
    """Of an epoch with the baseline: those that come in no batch, other ones each epoch."""
    why_not: str | None = Field(default=None, max_length=300)
    """Why it is not checked, or what part of it is not."""
