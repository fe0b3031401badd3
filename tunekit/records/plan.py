"""What a planned training costs on each GPU and machine, with every assumption behind it."""

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
"""Shares of the time; from the first on, GPUs count as always busy, and below the second as mostly idle."""


class PlanAssumptions(Record):
    """What a plan assumes. None of it is measured."""

    max_session_s: PositiveFloat = 12 * 3600.0
    """Longest session of a notebook service (Colab); a service's own limit applies if it is shorter."""
    checkpoint_cost_s: PositiveFloat | None = 30.0
    """Time to write one checkpoint; None for a script that writes none."""
    restart_cost_s: PositiveFloat = 300.0
    """From an interruption, or the end of a session, to the first step after it."""
    interrupted_every_s: PositiveFloat = 4 * 3600.0
    """Mean time between two interruptions of a spot machine."""
    scaling_low: float = Field(default=0.8, gt=0, le=1)
    """Lowest efficiency with more GPUs than measured: rate per GPU, as a share of the measured one."""
    scaling_high: float = Field(default=1.0, gt=0, le=1)
    scaling_is_given: bool = False
    """Whether the user gave the efficiency, so that no prediction replaces it."""
    stale_after_days: PositiveInt = 90
    """A price older than this is marked."""
    outdated_after_days: PositiveInt = 365
    """No choice is based on a price older than this."""


class RateSource(StrEnum):
    """Where a rate, and therefore hours and dollars, come from."""

    MEASURED = "measured"
    """Measured on this GPU model with this number of GPUs; the machine has at least as many CPUs for each."""
    GIVEN = "given"
    """As for `MEASURED`, but typed by the user."""
    PREDICTED = "predicted"


class PredictedRate(Record):
    """The rate of one GPU without its loader, predicted from traced steps."""

    profile_id: str
    precision: Precision
    batch_size: PositiveInt
    rate: Interval | None
    """Samples/s; None if it doesn't fit or the GPU's figures are unknown."""
    fits: bool | None
    """Whether that batch fits the GPU's memory; None if that is uncertain."""


class PlanRequest(Record):
    """The training to plan, and the rate on one GPU model that other GPUs' rates are derived from."""

    source: str
    """Where the rate comes from: a run and its tier, or the command line."""
    samples_per_epoch: PositiveInt
    epochs: PositiveInt
    rate_samples_per_s: Interval
    """Rate of all GPUs together; a predicted one is without the loader."""
    rate_source: RateSource = RateSource.MEASURED
    measured_on: str
    """Profile id, or device name, of the device that the rate was measured on, or given or predicted for."""
    predicted: tuple[PredictedRate, ...] = ()
    """Predicted rates of GPUs, which are not derived from that rate; one for each GPU."""
    measured_gpus: PositiveInt = 1
    """Number of GPUs (processes) that the rate was measured with."""
    measured_vcpus_per_gpu: PositiveInt | None = None
    """CPUs that the training used per GPU: one for each worker and the main process, at most those
    available."""
    vcpus_are_assumed: bool = False
    """Whether that number is assumed from the GPU's usual machine."""
    loader_samples_per_s_per_cpu: Interval | None = None
    """Loader rate on one CPU, measured or given; None if only the rate that it kept up with is known."""
    samples_per_step: PositiveInt | None = None
    """Global batch of an optimizer step with the measured number of GPUs; None if unknown."""
    gradients_bytes: NonNegativeInt | None = None
    """Bytes of gradients that the GPUs sum once per step; None if unknown."""
    tier: Tier | None = None
    """The tier that the rate belongs to; None without a run."""
    precision: Precision
    precision_is_assumed: bool = False
    """Whether the rate's precision was assumed because it wasn't given."""
    peak_reserved_bytes: NonNegativeInt | None = None
    """Peak reserved device memory per GPU; None if neither measured nor given."""
    providers: tuple[str, ...] = ()
    """Providers to consider; all if empty."""
    only: tuple[str, ...] = ()
    """Profile ids of the GPUs to consider; all if empty."""
    max_hours: PositiveFloat | None = None
    """Machines expected to take longer are left out."""
    may_use_spot: bool = False
    """Whether a choice may be based on a spot price."""
    taken_names: tuple[TakenName, ...] = ()
    """GPU names that were typed and resolved to a profile with another id."""
    assumptions: PlanAssumptions = PlanAssumptions()

    @model_validator(mode="after")
    def _positive_rate(self) -> Self:
        if self.rate_samples_per_s.low <= 0:
            raise ValueError(f"the rate must be above 0, got {self.rate_samples_per_s.low} samples/s")
        return self

    def predicted_on(self, profile_id: str) -> PredictedRate | None:
        """Return what was predicted for a GPU."""
        return next((one for one in self.predicted if one.profile_id == profile_id), None)

    @property
    def samples(self) -> int:
        """Samples of the whole training."""
        return self.samples_per_epoch * self.epochs

    @property
    def loader_per_cpu(self) -> Interval | None:
        """Samples/s that one CPU loads: as measured, but at least its part of the measured training rate.

        If the loader wasn't measured, it is exactly that part; an assumed number of CPUs does not correct it.
        """
        loader, used = self.loader_samples_per_s_per_cpu, self.measured_vcpus_per_gpu
        if used is None or (loader is not None and self.vcpus_are_assumed):
            return loader
        shown = self.rate_samples_per_s.value / self.measured_gpus / used
        if loader is None:
            return Interval.exactly(shown)
        value = max(loader.value, shown)
        return Interval(value=value, low=min(loader.low, value), high=max(loader.high, value))


class UnitPurchase(Record):
    """One way to buy compute units: a month of a subscription, or a pack."""

    name: str
    units: PositiveFloat
    """Units per month, or per pack."""
    usd: PositiveFloat
    is_monthly: bool
    as_of: str
    is_stale: bool

    def count(self, units: Interval) -> Interval:
        """Return how many months or packs have to be bought."""
        return units.times(1 / self.units).map_increasing(math.ceil)

    def paid(self, units: Interval) -> Interval:
        """Return their total price in dollars."""
        return self.count(units).times(self.usd)


def cheapest_purchase(units: Interval, purchases: Sequence[UnitPurchase]) -> UnitPurchase | None:
    """Return the purchase with the lowest total price for this many units.

    At equal price, one without waiting for another month wins, then one with a newer price.
    """
    return min(
        purchases,
        key=lambda one: (one.paid(units).value, one.is_monthly and one.count(units).value > 1, one.is_stale),
        default=None,
    )


class PlanRow(Record):
    """The training on one machine. Every figure is a prediction except those from a `measured` rate."""

    profile_id: str
    device_name: str
    provider: str | None = None
    """None for a GPU without an offer of a machine."""
    instance: str | None = None
    region: str | None = None
    gpus: PositiveInt
    vcpus: PositiveInt | None = None
    is_measured_machine: bool = False
    """Whether it is the machine that the rate was measured on."""

    how: RateSource | None = None
    """Source of the rate; None if the rate is unknown."""
    rate_samples_per_s: Interval | None = None
    """Rate of all the machine's GPUs together, limited by what its CPUs can load.

    An assumed loader rate lowers only the low end.
    """
    basis: str
    """How the rate was derived, or why it is unknown."""
    precision: Precision
    """The precision it would train in: the measured one, or a fallback if the GPU lacks it."""
    scaling: Interval | None = None
    """Rate per GPU as a share of that with the measured number of GPUs; None if unchanged."""
    scaling_is_predicted: bool = False
    """Whether it is predicted from the step, its gradients and the link of these GPUs."""
    hours: Interval | None = None
    """Hours on an uninterrupted machine; with limited sessions, restarts and checkpoints are included."""
    sessions: Interval | None = None
    """Number of sessions needed; None if sessions aren't limited."""
    max_session_s: PositiveFloat | None = None
    """Its longest session; None if sessions aren't limited."""
    hours_per_week: PositiveFloat | None = None
    """Weekly quota of its hours; None for unlimited."""
    weeks: Interval | None = None
    """Calendar weeks that the training takes under the quota; None without a quota."""
    elapsed_hours: Interval | None = None
    """Hours from the first step to the last under a weekly quota; None without one, where `hours` applies."""
    checkpoint_interval_s: PositiveFloat | None = None
    """Best time between checkpoints on spot machines or with limited sessions; None if none are needed."""

    usd_on_demand: Interval | None = None
    spot_hours: Interval | None = None
    """Expected hours on spot, with checkpoints and interruptions."""
    usd_spot: Interval | None = None
    compute_units: Interval | None = None
    """Compute units that it takes from a prepaid balance (Colab)."""
    usd_of_units: Interval | None = None
    """Price of exactly those units; `usd_on_demand` is what has to be paid, as they are sold in lots."""
    purchases: tuple[UnitPurchase, ...] = ()
    """Alternative purchases that fill that balance."""
    price_as_of: str | None = None
    spot_as_of: str | None = None
    is_stale: bool = False
    is_spot_stale: bool = False
    is_outdated: bool = False
    """Whether the price on demand, or that of its compute units, is too old to base a choice on."""
    is_spot_outdated: bool = False
    price_source: str | None = None

    fits: bool | None = None
    """Whether the measured or predicted peak fits its GPUs' memory; None if unknown."""
    may_not_fit: bool = False
    """Whether `fits` is unknown, and uncertain by a prediction or by less memory than the measured GPU's."""
    obstacle: str | None = None
    """Why the training can't run there as it is."""
    loader_samples_per_s: Interval | None = None
    """Loader rate on its CPUs or, if these are unknown, on those of the GPU's usual machine."""
    gpu_busy: PositiveFloat | None = Field(default=None, le=1)
    """Share of the time that its GPUs are expected to train rather than wait for the loader."""
    loader_is_assumed: bool = False
    """Whether the loader wasn't measured, or its number of CPUs is unknown."""

    @property
    def can_be_chosen(self) -> bool:
        """Whether it can be rented and has no known obstacle."""
        return self.provider is not None and self.hours is not None and self.obstacle is None

    @property
    def is_mostly_idle(self) -> bool:
        """Whether its GPUs would wait for the loader most of the time."""
        return self.gpu_busy is not None and self.gpu_busy < _MOSTLY

    @property
    def is_loader_bound(self) -> bool:
        """Whether its loader is expected to be slower than its GPUs."""
        return self.gpu_busy is not None and self.gpu_busy < _BUSY

    @property
    def is_predicted(self) -> bool:
        """Whether its rate is a prediction."""
        return self.how is RateSource.PREDICTED

    @property
    def may_wait_for_loader(self) -> bool:
        """Whether its loader isn't known to keep up with its GPUs."""
        loader, rate = self.loader_samples_per_s, self.rate_samples_per_s
        return self.loader_is_assumed and bool(loader and rate and loader.value < rate.value)

    @property
    def is_without_session(self) -> bool:
        """Whether its sessions are too short for the training, though its rate is known."""
        return self.how is not None and self.hours is None

    @property
    def done_in_hours(self) -> Interval | None:
        """Calendar hours, including the wait for the next week's quota."""
        return self.elapsed_hours or self.hours

    @property
    def purchase(self) -> UnitPurchase | None:
        """How its compute units are bought; None if it needs none or no offer is known."""
        return None if self.compute_units is None else cheapest_purchase(self.compute_units, self.purchases)

    @property
    def lower_usd(self) -> Interval | None:
        """The lower of its expected dollars on demand and on spot."""
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
    """Its index in the plan's rows."""
    on_spot: bool
    """Whether hours and dollars are those on spot."""
    rival: NonNegativeInt | None = None
    """The row of the best other GPU that may be cheaper or faster within the ranges, if there is one."""


class Plan(Record):
    """A planned training on every known machine."""

    schema_version: Literal[1] = SCHEMA_VERSION
    made_on: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    """The date that the age of prices is counted to."""
    request: PlanRequest
    rows: tuple[PlanRow, ...]
    """The measured machine, then the others by expected dollars, then those without a price by hours.

    The dollars are those on demand or, if spot may be used, the lower of both.
    """
    choices: tuple[Choice, ...] = ()
    findings: tuple[Finding, ...] = ()
    model_assumptions: tuple[str, ...] = ()
    """Assumptions about other GPUs' speed where no figure is published."""
    sources: tuple[str, ...] = ()
    """Sources of the choices' prices and of the formulas used."""

    @property
    def measured_offer(self) -> PlanRow | None:
        """The cheapest offer with the measured GPUs in the same number, preferably with enough CPUs."""
        own, *offers = self.rows
        same = [
            (row, row.usd_on_demand)
            for row in offers
            if (row.profile_id, row.gpus) == (own.profile_id, own.gpus) and row.can_be_chosen
        ]
        priced = [(row.how is not self.request.rate_source, usd.value, row) for row, usd in same if usd]
        return min(priced, key=lambda one: one[:2], default=(None, None, None))[2]
