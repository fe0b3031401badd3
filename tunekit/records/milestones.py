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
    hours: Interval | None = None
    """Hours of each run on the GPUs of the known rate, instead of samples and epochs."""
    runs: PositiveInt = 1
    """Number of independent trainings, such as seeds."""
    hardware: str | None = None
    """A profile id, an instance, a provider or "here"; None for the cheapest machine."""
    gpus: PositiveInt | None = None
    """GPUs of each machine; None for any number."""

    def request(self, known: PlanRequest) -> PlanRequest:
        """Return the request for one run, from that of the training that the milestones vary."""
        if self.hours is None:
            return known.changed(samples_per_epoch=self.samples_per_epoch, epochs=self.epochs)
        per_h = known.rate_samples_per_s.value * 3600
        samples = max(1, round(self.hours.value * per_h))
        rate = self.hours.divide_into(samples / 3600)
        return known.changed(samples_per_epoch=samples, epochs=1, rate_samples_per_s=rate)


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
