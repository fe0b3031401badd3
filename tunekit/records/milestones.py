"""What a project of several trainings takes and costs."""

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
    """Trainings that don't need each other, such as seeds."""
    hardware: str | None = None
    """A profile id, an instance, a provider or "here"; None for the cheapest machine."""
    gpus: PositiveInt | None = None
    """GPUs of each machine; None for any number."""


class MilestoneCost(Record):
    """A milestone on the machine that was chosen for it."""

    milestone: Milestone
    row: PlanRow
    """One run on that machine."""
    on_spot: bool
    machines: PositiveInt
    """Machines that train at the same time, one run each."""
    hours: Interval
    """Until the last run is done."""
    usd: Interval | None
    """Dollars of all runs; None where the price is unknown."""


class MilestonePlan(Record):
    """A project's milestones, one after another."""

    schema_version: Literal[1] = SCHEMA_VERSION
    made_on: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    request: PlanRequest
    milestones: tuple[MilestoneCost, ...] = Field(min_length=1)
    hours: Interval
    """Hours of all milestones."""
    usd: Interval | None
    """Dollars of the milestones with a price; None where none has one."""
    max_usd: PositiveFloat | None = None
    deadline: str | None = None
    """The deadline as it was typed."""
    deadline_h: PositiveFloat | None = None
    """Hours from now to the deadline."""
