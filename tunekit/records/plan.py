"""What a planned training costs on each GPU and machine, with every assumption that went in."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.config import Precision
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.profile import TakenName
from tunekit.records.recommendation import Tier

_BUSY, _MOSTLY = 0.99, 0.5
"""Shares of the time: what is not less than the first counts as all of it."""


class PlanAssumptions(Record):
    """What a plan takes for granted. None of it is measured."""

    max_session_s: PositiveFloat = 12 * 3600.0
    """Longest session of a notebook service (Colab); a service's own limit counts where it is shorter."""
    checkpoint_cost_s: PositiveFloat | None = 30.0
    """Time to write one checkpoint; None for a script that writes none."""
    restart_cost_s: PositiveFloat = 300.0
    """From an interruption, or the end of a session, to the first step after it."""
    interrupted_every_s: PositiveFloat = 4 * 3600.0
    """Mean time between two interruptions of a spot machine."""
    scaling_low: float = Field(default=0.8, gt=0, le=1)
    """Efficiency of more GPUs than the rate was measured with: rate per GPU, as a share of the measured."""
    scaling_high: float = Field(default=1.0, gt=0, le=1)
    scaling_is_given: bool = False
    """Whether the user said so, and nothing that is predicted takes its place."""
    stale_after_days: PositiveInt = 90
    """A price older than this is marked."""


class PlanRequest(Record):
    """The training to be planned, and the measured rate that everything follows from."""

    source: str
    """Where the rate comes from: a run and its tier, or the command line."""
    samples_per_epoch: PositiveInt
    epochs: PositiveInt
    rate_samples_per_s: Interval
    """Measured, over all GPUs together."""
    measured_on: str
    """Profile id, or device name, of the device that it was measured on."""
    measured_gpus: PositiveInt = 1
    """GPUs (processes) that it was measured with."""
    measured_vcpus_per_gpu: PositiveInt | None = None
    """CPUs that the training used per GPU: its workers and its main process, of those that were there."""
    vcpus_are_assumed: bool = False
    """Whether they are taken from the GPU's usual machine."""
    loader_samples_per_s_per_cpu: Interval | None = None
    """What the loader makes on one CPU, measured; None where only the rate that it kept up with is known."""
    samples_per_step: PositiveInt | None = None
    """Global batch of an optimizer step with the measured number of GPUs; None where it is not known."""
    gradients_bytes: NonNegativeInt | None = None
    """What each GPU adds to the others' once a step; None where it is not known."""
    tier: Tier | None = None
    """Whose rate it is; None for one without a run."""
    precision: Precision
    precision_is_assumed: bool = False
    """Whether the precision of the rate was not given."""
    peak_reserved_bytes: NonNegativeInt | None = None
    """Device memory reserved at the peak, per GPU; None when it was neither measured nor given."""
    providers: tuple[str, ...] = ()
    """Only these; all when empty."""
    only: tuple[str, ...] = ()
    """Only the GPUs with these profile ids; all when empty."""
    max_hours: PositiveFloat | None = None
    """Machines that are expected to need longer are left out."""
    may_use_spot: bool = False
    """Whether a choice may rest on a spot price."""
    taken_names: tuple[TakenName, ...] = ()
    """GPUs whose profile has another id than was typed."""
    assumptions: PlanAssumptions = PlanAssumptions()

    @model_validator(mode="after")
    def _positive_rate(self) -> Self:
        if self.rate_samples_per_s.low <= 0:
            raise ValueError(f"the rate must be above 0, got {self.rate_samples_per_s.low} samples/s")
        return self

    @property
    def samples(self) -> int:
        """Samples of the whole training."""
        return self.samples_per_epoch * self.epochs

    @property
    def loader_per_cpu(self) -> Interval | None:
        """Samples/s that one CPU loads: as measured, and its part of the measured rate at least.

        Exactly that part where nothing was measured of the loader.
        """
        loader, used = self.loader_samples_per_s_per_cpu, self.measured_vcpus_per_gpu
        if used is None:
            return loader
        shown = self.rate_samples_per_s.value / self.measured_gpus / used
        if loader is None:
            return Interval(value=shown, low=shown, high=shown)
        value = max(loader.value, shown)
        return Interval(value=value, low=min(loader.low, value), high=max(loader.high, value))


class RateSource(StrEnum):
    """Where a row's rate, and so its hours and dollars, come from."""

    MEASURED = "measured"
    """On this GPU model, with as many of them and no fewer CPUs for each."""
    PREDICTED = "predicted"


class UnitPurchase(Record):
    """One way to buy compute units: a month of a subscription, or a pack."""

    name: str
    units: PositiveFloat
    """Of one month, or of one pack."""
    usd: PositiveFloat
    is_monthly: bool
    as_of: str
    is_stale: bool

    def count(self, units: Interval) -> Interval:
        """Return how many whole ones have to be bought."""
        return units.times(1 / self.units).map_increasing(math.ceil)

    def paid(self, units: Interval) -> Interval:
        """Return the dollars of all of them."""
        return self.count(units).times(self.usd)


def cheapest_purchase(units: Interval, purchases: Sequence[UnitPurchase]) -> UnitPurchase | None:
    """Return what costs least for as many units.

    Of equals it is what has no month to wait for, then what has the newer price.
    """
    return min(
        purchases,
        key=lambda one: (one.paid(units).value, one.is_monthly and one.count(units).value > 1, one.is_stale),
        default=None,
    )


class PlanRow(Record):
    """The training on one machine. Every figure is a prediction but those of a `measured` rate."""

    profile_id: str
    device_name: str
    provider: str | None = None
    """None: no offer of a machine, only the GPU."""
    instance: str | None = None
    region: str | None = None
    gpus: PositiveInt
    vcpus: PositiveInt | None = None
    is_measured_machine: bool = False
    """Whether it is the machine that the rate was measured on."""

    how: RateSource | None = None
    """None when the rate is unknown."""
    rate_samples_per_s: Interval | None = None
    """All GPUs of the machine together, as far as its CPUs feed them."""
    basis: str
    """How the rate came about, or why it is unknown."""
    precision: Precision
    """What it would train in: the measured one, or the fallback of a GPU that does not have it."""
    scaling: Interval | None = None
    """Rate per GPU as a share of that with the measured number of GPUs; None for the same rate."""
    scaling_is_predicted: bool = False
    """Whether it follows from the step, its gradients and the link of these GPUs."""
    hours: Interval | None = None
    """Of an uninterrupted machine; where sessions are limited, restarts and checkpoints included."""
    sessions: Interval | None = None
    """Sessions that it takes; None where they are not limited."""
    max_session_s: PositiveFloat | None = None
    """Its longest session; None where they are not limited."""
    hours_per_week: PositiveFloat | None = None
    """Quota of its hours in a week; None is unlimited."""
    weeks: Interval | None = None
    """Calendar weeks that the quota stretches the training over; None without one."""
    elapsed_hours: Interval | None = None
    """From the first step to the last under a weekly quota; without one these are `hours`."""
    checkpoint_interval_s: PositiveFloat | None = None
    """Best time between checkpoints, on spot or between sessions; None if none is needed."""

    usd_on_demand: Interval | None = None
    spot_hours: Interval | None = None
    """Expected hours on spot, with checkpoints and interruptions."""
    usd_spot: Interval | None = None
    compute_units: Interval | None = None
    """What it takes from a prepaid balance (Colab)."""
    usd_of_units: Interval | None = None
    """What those units cost; `usd_on_demand` is what has to be paid, as they are sold in lots."""
    purchases: tuple[UnitPurchase, ...] = ()
    """What fills that balance, each by itself."""
    price_as_of: str | None = None
    spot_as_of: str | None = None
    is_stale: bool = False
    is_spot_stale: bool = False
    price_source: str | None = None

    fits: bool | None = None
    """Whether the measured peak fits the memory of its GPUs; None is unknown."""
    may_not_fit: bool = False
    """Whether it is unknown if it fits, and its GPUs have less memory than the measured one."""
    obstacle: str | None = None
    """Why the training can't run there as it is."""
    loader_samples_per_s: Interval | None = None
    """What the loader makes on its CPUs; where these are unknown, on those of the GPU's usual machine."""
    gpu_busy: PositiveFloat | None = Field(default=None, le=1)
    """Share of the time that its GPUs are expected to train, and not to wait for the loader."""
    loader_is_assumed: bool = False
    """Whether its loader was not measured, or the number of its CPUs is unknown."""

    @property
    def can_be_chosen(self) -> bool:
        """Whether it can be rented, and nothing known speaks against it."""
        return self.provider is not None and self.hours is not None and self.obstacle is None

    @property
    def is_mostly_idle(self) -> bool:
        """Whether its GPUs would wait for the loader most of the time."""
        return self.gpu_busy is not None and self.gpu_busy < _MOSTLY

    @property
    def is_loader_bound(self) -> bool:
        """Whether its loader is expected to feed less than its GPUs could train."""
        return self.gpu_busy is not None and self.gpu_busy < _BUSY

    @property
    def is_without_session(self) -> bool:
        """Whether its sessions are too short for the training, though its rate is known."""
        return self.how is not None and self.hours is None

    @property
    def done_in_hours(self) -> Interval | None:
        """Hours by the calendar, with those that wait for the next week's quota."""
        return self.elapsed_hours or self.hours

    @property
    def purchase(self) -> UnitPurchase | None:
        """What its compute units are bought as; None where there are none, or no offer is known."""
        return None if self.compute_units is None else cheapest_purchase(self.compute_units, self.purchases)

    @property
    def lower_usd(self) -> Interval | None:
        """The lower of its dollars on demand and on spot, by the expected figures."""
        known = [one for one in (self.usd_on_demand, self.usd_spot) if one is not None]
        return min(known, key=lambda one: one.value, default=None)


class ChoiceKind(StrEnum):
    """What a choice is best at."""

    CHEAPEST = "cheapest"
    BALANCED = "balanced"
    FASTEST = "fastest"


class Choice(Record):
    """One machine that stands out."""

    kind: ChoiceKind
    row: NonNegativeInt
    """Its place in the plan's rows."""
    on_spot: bool
    """Whether hours and dollars are those of the spot price."""


class Plan(Record):
    """A planned training on every machine that is known."""

    schema_version: Literal[1] = SCHEMA_VERSION
    made_on: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    """The day that prices were judged old or new by."""
    request: PlanRequest
    rows: tuple[PlanRow, ...]
    """The measured machine first, then by expected dollars, those without a price by hours.

    The dollars are those on demand; where spot may be used, the lower of both.
    """
    choices: tuple[Choice, ...] = ()
    findings: tuple[Finding, ...] = ()
    model_assumptions: tuple[str, ...] = ()
    """What the speed of other GPUs takes for granted where no figure was published."""
    sources: tuple[str, ...] = ()
    """Where the prices of the choices come from, and the formulas that were used."""

    @property
    def measured_offer(self) -> PlanRow | None:
        """The cheapest offer of as many of the measured GPUs, with CPUs enough where there is one."""
        own, *offers = self.rows
        same = [
            (row, row.usd_on_demand)
            for row in offers
            if (row.profile_id, row.gpus) == (own.profile_id, own.gpus) and row.can_be_chosen
        ]
        priced = [(row.how is not RateSource.MEASURED, usd.value, row) for row, usd in same if usd]
        return min(priced, key=lambda one: one[:2], default=(None, None, None))[2]
