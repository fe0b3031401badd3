"""From when on a faster, dearer GPU costs no more, and when a search has paid for itself."""

from collections.abc import Sequence
from typing import NamedTuple

from tunekit.plan.plan import candidates, that_hold_it
from tunekit.records.interval import Interval
from tunekit.records.milestones import GpuBreakEven, Milestone, TuningBreakEven
from tunekit.records.plan import Plan, PlanRequest, PlanRow

_MOST_BREAK_EVENS = 3
_H = 3600.0


class Search(NamedTuple):
    """What the search took that the rate comes from, and what it gained."""

    hours: float
    speedup: Interval


def gpu_break_evens(plan: Plan, search: Search | None) -> tuple[GpuBreakEven, ...]:
    """Return from when on faster GPUs at a higher price cost no more than the measured one.

    Each machine has to be started, and a GPU that the search was not made on needs a search of its own.
    """
    own = _paid_for(plan)
    if own is None:
        return ()
    best: dict[str, GpuBreakEven] = {}
    for chosen in that_hold_it(candidates(plan.rows, may_use_spot=False), plan.rows)[0]:
        row = plan.rows[chosen.row]
        if row.gpus != own.gpus or row.profile_id == own.profile_id:
            continue
        found, known = _gpu_break_even(plan.request, row, own, search), best.get(row.profile_id)
        if found is not None and (known is None or found.usd_per_epoch.value < known.usd_per_epoch.value):
            best[row.profile_id] = found
    return tuple(sorted(best.values(), key=lambda one: one.usd_per_epoch.value)[:_MOST_BREAK_EVENS])


def _paid_for(plan: Plan) -> PlanRow | None:
    """Return the measured machine with its price: what its user says, else the cheapest offer's."""
    own, *_ = plan.rows
    return own if own.usd_on_demand is not None else plan.measured_offer


class _Cost(NamedTuple):
    """The whole training on a machine."""

    hours: float
    usd: Interval

    @property
    def per_h(self) -> float:
        """Dollars of an hour."""
        return self.usd.value / self.hours


def _cost(row: PlanRow) -> _Cost | None:
    """Return None for a machine that is free, or whose price is not known.

    Compute units cost what they are worth: the price of whole packs says nothing of an hour's.
    """
    usd = row.usd_on_demand if row.purchase is None else row.usd_of_units
    return _Cost(row.hours.value, usd) if row.hours is not None and usd is not None and usd.value else None


def _gpu_break_even(
    request: PlanRequest, row: PlanRow, own: PlanRow, search: Search | None
) -> GpuBreakEven | None:
    """Return None for a machine that is not both faster and dearer by the hour."""
    cost, own_cost = _cost(row), _cost(own)
    if cost is None or own_cost is None or cost.hours >= own_cost.hours or cost.per_h <= own_cost.per_h:
        return None
    start_h = request.assumptions.restart_cost_s / _H
    start_usd = start_h * (cost.per_h - own_cost.per_h) + (search.hours * cost.per_h if search else 0.0)
    usd, own_usd = (one.times(1 / request.epochs) for one in (cost.usd, own_cost.usd))
    epochs = _paid_back(start_usd, own_usd.value - usd.value)
    return GpuBreakEven(
        row=row,
        beside=own,
        usd_per_h=cost.per_h,
        beside_usd_per_h=own_cost.per_h,
        usd_per_epoch=usd,
        beside_usd_per_epoch=own_usd,
        start_usd=start_usd,
        epochs=epochs,
        hours=None if epochs is None else epochs * cost.hours / request.epochs,
        epochs_low=_paid_back(start_usd, own_usd.value - usd.low),
        epochs_high=_paid_back(start_usd, own_usd.value - usd.high),
    )


def _paid_back(spent: float, saved_per_epoch: float) -> float | None:
    """Return the epochs after which what was spent is saved; None for never."""
    return spent / saved_per_epoch if saved_per_epoch > 0 else None


def tuning_break_even(
    plan: Plan, milestones: Sequence[Milestone], search: Search | None
) -> TuningBreakEven | None:
    """Return when the search is paid back: its own machine's price is the same on both sides."""
    if search is None:
        return None
    request, offer = plan.request, _paid_for(plan)
    cost = None if offer is None else _cost(offer)
    rate = request.rate_samples_per_s.value
    epoch_h = request.samples_per_epoch / rate / _H
    all_h = sum(one.samples_per_epoch * one.epochs * one.runs for one in milestones) / rate / _H
    gained = search.speedup
    epochs = _paid_back(search.hours, epoch_h * (gained.value - 1))
    return TuningBreakEven(
        search_hours=search.hours,
        usd_per_h=None if cost is None else cost.per_h,
        speedup=gained,
        epochs=epochs,
        hours=None if epochs is None else epochs * epoch_h,
        epochs_low=_paid_back(search.hours, epoch_h * (gained.high - 1)),
        epochs_high=_paid_back(search.hours, epoch_h * (gained.low - 1)),
        saved_hours=gained.through(lambda factor: all_h * (factor - 1)),
    )
