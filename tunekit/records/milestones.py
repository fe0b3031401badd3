"""How long a project of several trainings takes and what it costs."""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.interval import Interval
from tunekit.records.plan import PlanRequest, PlanRow


class Milestone(Record):
    """One stage of a project: independent runs of one training."""

    name: str = Field(min_length=1, max_length=60)
    samples_per_epoch: PositiveInt
    epochs: PositiveInt
    """Epochs of each run."""
    runs: PositiveInt = 1
    """Number of independent trainings, such as seeds."""
    hardware: str | None = None
    """A profile id, an instance, a provider or "here"; None for the cheapest machine."""
    gpus: PositiveInt | None = None
    """GPUs of each machine; None for any number."""


class MilestoneCost(Record):
    """A milestone on the machine that was chosen for it."""

    milestone: Milestone
    row: PlanRow
    """The plan's row for one run on that machine."""
    on_spot: bool
    machines: PositiveInt
    """Number of machines that train at the same time, one run each."""
    hours: Interval
    """Hours until the last run is done."""
    usd: Interval | None
    """Dollars of all runs; None if the price is unknown."""


class MilestonePlan(Record):
    """A project's milestones, one after another."""

    schema_version: Literal[1] = SCHEMA_VERSION
    made_on: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    request: PlanRequest
    milestones: tuple[MilestoneCost, ...] = Field(min_length=1)
    hours: Interval
    """Hours of all milestones together."""
    usd: Interval | None
    """Dollars of the milestones with a price; None if none has one."""
    max_usd: PositiveFloat | None = None
    deadline: str | None = None
    """The deadline as it was typed."""
    deadline_h: PositiveFloat | None = None
    """Hours from now to the deadline."""
