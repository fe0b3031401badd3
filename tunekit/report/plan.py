"""A plan, or a project's milestones, in words: what to choose on one screen, every machine in full. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from tunekit.diagnose.plan import PREVENTING
from tunekit.records.config import Precision
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.milestones import MilestoneCost, MilestonePlan
from tunekit.records.plan import ChoiceKind, Plan, PlanRequest, PlanRow, RateSource
from tunekit.records.profile import NO_TORCH_BUILD
from tunekit.report.blocks import (
    Block,
    Column,
    Commands,
    Lead,
    Line,
    Passage,
    Report,
    Table,
    field_text,
    note_of,
    table_of,
)
from tunekit.report.text import UNKNOWN, checkpoint_text, finding_text, taken_text
from tunekit.trial.typed_commands import quoted
from tunekit.units import (
    bytes_text,
    count_text,
    duration_text,
    hours_text,
    rate_text,
    usd_text,
)

FigureText = Callable[[float | None], str]
"""How a figure is written."""

PREDICTED_MARK = "~"
_STALE_MARK, _MAY_NOT_FIT_MARK, _DOES_NOT_FIT_MARK = "*", "?", "!"
_MARKS = {
    PREDICTED_MARK: "predicted",
    _STALE_MARK: "stale price",
    _MAY_NOT_FIT_MARK: "may not fit its memory",
    _DOES_NOT_FIT_MARK: "does not fit it",
}
_LEADS = {
    RateSource.MEASURED: "Measured on",
    RateSource.GIVEN: "At the given rate on",
    RateSource.PREDICTED: "Predicted for",
}
_BETTER = {ChoiceKind.CHEAPEST: "cheaper", ChoiceKind.FASTEST: "faster"}
_HOUR_UNIT = " h"
_FREE = "free"
_WHOLE: FigureText = "{:,.0f}".format
"""A number of whole things, such as sessions."""


def plan_report(plan: Plan, folder: str = "") -> Report:
    """Return the report on a plan, with commands for the folder of its run, if any."""
    return Report(f"Plan: {plan.request.source}", (*plan_blocks(plan), _next_step(plan, folder)))


def plan_blocks(plan: Plan) -> tuple[Block, ...]:
    """Return the same without the next command."""
    kept = [row for row in plan.rows if row.how is not None and row.obstacle != NO_TORCH_BUILD]
    machines = [_machine(plan.request, row) for row in kept] if len(kept) > 1 else []
    by = "the lower of on demand and spot" if plan.request.may_use_spot else "dollars on demand"
    preventing = _preventing(plan)
    return (
        *_answer(plan),
        _with_legend(table_of(f"Machines by {by}", _MACHINE_COLUMNS, machines)),
        Passage("Assumed, not measured", _assumptions(plan), is_list=True),
        Passage("Sources", plan.sources, is_list=True, is_quiet=True),
        *(note_of(one) for one in plan.findings if one is not preventing),
    )


def plan_answer(plan: Plan, folder: str = "") -> tuple[Block, ...]:
    """Return what to choose, its hours and dollars and the next command: one screen."""
    more = f"{count_text(len(plan.rows) - 1, 'machine')}, {count_text(len(plan.findings), 'note')}"
    return (
        *_answer(plan),
        Line(f"{more} and assumptions: --full, or --html FILE", is_quiet=True),
        _next_step(plan, folder),
    )


def milestones_report(plan: MilestonePlan) -> Report:
    """Return what milestones take and cost."""
    runs = [_runs(plan.request, one) for one in plan.milestones]
    table = table_of("Milestones, each on its cheapest machine", _MILESTONE_COLUMNS, runs)
    is_predicted = any(one.is_predicted for one in runs)
    hours = figure_text(plan.hours, hours_text, is_predicted)
    dollars = figure_text(plan.usd, price_text, is_predicted)
    unpriced = ", ".join(one.name for one in runs if one.usd is None)
    blocks: tuple[Block, ...] = (
        Lead(f"{figure_text(plan.hours, hours_text)} and {figure_text(plan.usd, usd_text)} in total."),
        *map(Lead, _checks(plan)),
        Line(f"At {_rate_basis(plan.request)}", is_quiet=True),
        _with_legend(replace(table, rows=(*table.rows, ("total", "", "", "", hours, dollars)))),
        _remarks(runs, f"not in the dollars, without a price: {unpriced}" if unpriced else ""),
    )
    return Report(f"Milestones: {plan.request.source}", blocks)


# --- the answer ------------------------------------------------------------------------------


def _answer(plan: Plan) -> tuple[Block, ...]:
    """Return the machine of the known rate, those that stand out beside it, and what to know of these."""
    asked, options, why = plan.request, _options(plan), _preventing(plan)
    nothing = f"No machine to choose: {finding_text(why) if why else 'no other offer is known'}."
    samples = f"{count_text(asked.epochs, 'epoch')} of {asked.samples_per_epoch:,} samples"
    return (
        Lead(_measured_text(plan)),
        Lead("" if plan.choices else nothing),
        Line(f"{samples}, at {_rate_basis(asked)}", is_quiet=True),
        _with_legend(table_of("What to choose", _OPTION_COLUMNS, options)),
        _remarks(options),
    )


def _measured_text(plan: Plan) -> str:
    """Return what the known rate means in hours, with what it costs where that GPU is offered."""
    own, offer = plan.rows[0], plan.measured_offer
    is_offered = offer is not None and offer.how is own.how
    hours = offer.hours if offer is not None and is_offered else own.hours  # of its sessions too
    epoch_h = None if hours is None else hours.value / plan.request.epochs
    lead = f"{_LEADS[plan.request.rate_source]} {_gpus_text(own)}"
    text = f"{lead}: {figure_text(hours, hours_text)}, {hours_text(epoch_h)} an epoch"
    if offer is None:
        return f"{text}; no price in this plan."
    few = "" if is_offered else ", predicted: it has fewer CPUs"
    stale = f", price of {offer.price_as_of}" if offer.is_stale else ""
    return f"{text}, {figure_text(offer.usd_on_demand, price_text)} on {_name(offer)}{few}{stale}."


def _preventing(plan: Plan) -> Finding | None:
    """Return why nothing was chosen; None where something was."""
    return None if plan.choices else next((one for one in plan.findings if one.code in PREVENTING), None)


def _next_step(plan: Plan, folder: str) -> Commands:
    asked = plan.request
    if asked.measured_on == "cpu":
        planned = f"tunekit plan FOLDER --epochs {asked.epochs}"
        return Commands("Next, to predict the rates of GPUs", ("tunekit fits -- COMMAND", planned))
    here = (f"on {asked.measured_on}", f"tunekit run {quoted(f'{folder}/{asked.tier}.yaml')}")
    steps = (here,) if asked.tier is not None else ()
    return Commands("Next", (*steps, ("on the machine that you choose", "tunekit search -- COMMAND")))


def _checks(plan: MilestonePlan) -> Iterable[str]:
    """Yield whether the sum of milestones is within the limits."""
    limits = (
        (f"--max-cost {usd_text(plan.max_usd)}", plan.usd, plan.max_usd, usd_text),
        (f"--deadline {plan.deadline}", plan.hours, plan.deadline_h, hours_text),
    )
    for flag, expected, most, text in limits:
        if expected is not None and most is not None:
            over = expected.value - most
            yield f"{flag}: {f'exceeded by {text(over)}' if over > 0 else 'met'}."


# --- one machine at one of its prices ----------------------------------------------------------


class _Offer(NamedTuple):
    """A machine at one of its prices, for a training or for the runs of a milestone."""

    asked: PlanRequest
    row: PlanRow
    on_spot: bool
    hours: Interval | None
    """On spot with its interruptions."""
    usd: Interval | None
    name: str = ""
    """What it is best at, or of the milestone."""
    runs: str = ""
    rivals: str = ""
    """Machines that may be better at that within the ranges."""

    @property
    def is_predicted(self) -> bool:
        """Whether its figures are; interruptions always are."""
        return self.on_spot or self.row.is_predicted

    @property
    def is_stale(self) -> bool:
        """Whether it goes by an old price."""
        return self.usd is not None and (self.row.is_spot_stale if self.on_spot else self.row.is_stale)

    def figure(self, interval: Interval | None, text: FigureText) -> str:
        """Return a figure with its mark."""
        return figure_text(interval, text, self.is_predicted)

    def limited(self, interval: Interval | None, text: FigureText) -> str:
        """Return what only notebook services have; elsewhere it is not unknown but nothing."""
        return self.figure(interval, text) if interval else ""

    @property
    def dollars(self) -> str:
        """Dollars, marked where the price is stale."""
        return self.figure(self.usd, price_text) + _STALE_MARK * self.is_stale

    @property
    def remarks(self) -> str:
        """What else there is to know of it; nothing where there is nothing."""
        asked, row = self.asked, self.row
        parts = [f"in {row.precision}"] if row.precision is not asked.precision else []
        if parts and row.precision is Precision.FP16:
            parts = [f"{parts[0]}, which needs a gradient scaler"]
        if row.sessions is not None and row.sessions.high > 1:
            longest = duration_text(row.max_session_s or asked.assumptions.max_session_s)
            weeks = ""
            if row.weeks is not None:
                weeks = f" over {figure_text(row.weeks, _WHOLE)} weeks of {row.hours_per_week:g} h"
            parts.append(f"{figure_text(row.sessions, _WHOLE)} sessions of up to {longest}{weeks}")
        if row.checkpoint_interval_s is not None and (self.on_spot or row.sessions is not None):
            speed, step = (row.rate_samples_per_s or asked.rate_samples_per_s).value, asked.samples_per_step
            step_s = None if step is None else step / asked.measured_gpus * row.gpus / speed
            every = checkpoint_text(row.checkpoint_interval_s, step_s, asked.samples_per_epoch / speed)
            parts.append(f"a checkpoint every {every}")
        parts += _purchase_texts(row)
        hours = row.spot_hours if self.on_spot else row.hours
        if asked.max_hours is not None and hours is not None and hours.high > asked.max_hours:
            parts.append(f"up to {hours_text(hours.high)}, beyond --max-hours {asked.max_hours:,g}")
        if self.is_stale:
            parts.append(f"price of {row.spot_as_of if self.on_spot else row.price_as_of}")
        if row.may_not_fit:
            parts.append("its memory may be too small")
        rate = row.rate_samples_per_s
        if rate is not None and row.is_loader_bound:
            parts.append(f"loader-bound, GPUs {row.gpu_busy:.0%} busy")
        elif rate and row.is_predicted and (rate.value > asked.rate_samples_per_s.value or asked.predicted):
            parts.append(f"needs {rate_text(rate.value)} samples/s from the loader")
        if self.rivals:
            parts.append(f"within the ranges {self.rivals}")
        return "; ".join(parts)


def _machine(asked: PlanRequest, row: PlanRow, on_spot: bool = False, name: str = "") -> _Offer:
    hours, usd = (row.spot_hours, row.usd_spot) if on_spot else (row.hours, row.usd_on_demand)
    return _Offer(asked, row, on_spot, hours, usd, name)


def _options(plan: Plan) -> list[_Offer]:
    """Return every machine that was chosen, once at each of its prices.

    A balanced choice that is the cheapest or the fastest too is not named.
    """
    together: dict[tuple[int, bool], list[ChoiceKind]] = {}
    for choice in plan.choices:
        together.setdefault((choice.row, choice.on_spot), []).append(choice.kind)
    options = []
    for (row, on_spot), kinds in together.items():
        ends = [kind for kind in kinds if kind is not ChoiceKind.BALANCED]
        rivals = [
            f"{_name(plan.rows[one.rival])} may be {_BETTER[one.kind]}"
            for one in plan.choices
            if one.rival is not None and (one.row, one.on_spot) == (row, on_spot)
        ]
        offer = _machine(plan.request, plan.rows[row], on_spot, ", ".join(ends or kinds))
        options.append(offer._replace(rivals=" and ".join(rivals)))
    return options


def _runs(request: PlanRequest, one: MilestoneCost) -> _Offer:
    of = one.milestone
    runs = f"{of.runs}{' at once' if one.machines > 1 else ' in turn' if of.runs > 1 else ''}"
    return _Offer(of.request(request), one.row, one.on_spot, one.hours, one.usd, of.name, runs)


def _remarks(offers: Iterable[_Offer], more: str = "") -> Passage:
    lines = (f"{one.name}: {said}" for one in offers if (said := one.remarks))
    return Passage("", (*lines, *([more] if more else [])))


_MACHINE: tuple[Column[_Offer], ...] = (
    Column("machine", lambda one: _name(one.row) + " spot" * one.on_spot, is_numeric=False),
    Column("GPUs", lambda one: _gpus_text(one.row), is_numeric=False),
)
_HOURS = Column[_Offer]("training", lambda one: one.figure(one.hours, hours_text))
_DOLLARS = Column[_Offer]("dollars", field_text("dollars"))
_UNITS = Column[_Offer]("units", lambda one: one.limited(one.row.compute_units, rate_text), is_optional=True)
_OPTION_COLUMNS: tuple[Column[_Offer], ...] = (
    Column("", field_text("name"), is_numeric=False),
    *_MACHINE,
    Column("epoch", lambda one: one.figure(one.hours and one.hours.times(1 / one.asked.epochs), hours_text)),
    *(_HOURS, _DOLLARS, _UNITS),
)
_MACHINE_COLUMNS: tuple[Column[_Offer], ...] = (
    *(*_MACHINE, _HOURS),
    Column("samples/s", lambda one: one.figure(one.row.rate_samples_per_s, rate_text)),
    replace(_DOLLARS, title="on demand", is_optional=True),
    Column("spot", lambda one: _machine(one.asked, one.row, on_spot=True).dollars, is_optional=True),
    _UNITS,
    Column("sessions", lambda one: one.limited(one.row.sessions, _WHOLE), is_optional=True),
    Column("price seen", lambda one: (one.row.price_as_of or "") if one.usd else "", is_optional=True),
)
_MILESTONE_COLUMNS: tuple[Column[_Offer], ...] = (
    Column("milestone", field_text("name"), is_numeric=False),
    Column("runs", field_text("runs"), is_numeric=False),
    *(*_MACHINE, replace(_HOURS, title="hours"), _DOLLARS),
)


def _name(row: PlanRow) -> str:
    """Return provider and instance, or what stands for them."""
    if row.is_measured_machine:
        return f"(as {row.how})"
    return "(no offer known)" if row.instance is None else f"{row.provider} {row.instance}"


def _gpus_text(row: PlanRow) -> str:
    """Return number and model of its GPUs, marked where their memory is too small or may be."""
    mark = _DOES_NOT_FIT_MARK if row.fits is False else _MAY_NOT_FIT_MARK if row.may_not_fit else ""
    return f"{row.gpus}x {row.profile_id}{mark}"


def _purchase_texts(row: PlanRow) -> list[str]:
    """Return what a notebook's units are bought as, beside what they are worth; nothing elsewhere."""
    units, bought = row.compute_units, row.purchase
    if units is None or bought is None:
        return []
    counts = bought.count(units)
    count = ends_text(counts, _WHOLE) or _WHOLE(counts.value)
    of = f"months of {bought.name}" if bought.is_monthly else f"packs of {bought.units:g}"
    worth = f" ({usd_text(row.usd_of_units.value)})" if row.usd_of_units else ""
    return [f"{rate_text(units.value)} units{worth}, sold as {count} {of} at {usd_text(bought.usd)}"]


# --- figures ---------------------------------------------------------------------------------


def price_text(usd: float | None) -> str:
    """Return what has to be paid."""
    return _FREE if usd == 0 else usd_text(usd)


def ends_text(interval: Interval, text: FigureText) -> str:
    """Return "LOW to HIGH"; nothing where both read the same."""
    low, high = text(interval.low), text(interval.high)
    if high.endswith(_HOUR_UNIT):
        low = low.removesuffix(_HOUR_UNIT)
    return "" if low == high.removesuffix(_HOUR_UNIT) else f"{low} to {high}"


def figure_text(
    interval: Interval | None, text: FigureText, is_predicted: bool = False, unit: str = ""
) -> str:
    """Return "MIDDLE (LOW to HIGH)", without the range where it reads the same, and marked if predicted."""
    if interval is None:
        return UNKNOWN
    figure, ends = text(interval.value), ends_text(interval, text)
    mark = PREDICTED_MARK * (is_predicted and figure not in (UNKNOWN, _FREE))
    return f"{mark}{figure}{unit}{f' ({ends})' if ends else ''}"


def _rate_basis(asked: PlanRequest) -> str:
    """Return the known rate, with where it comes from."""
    rate = figure_text(asked.rate_samples_per_s, rate_text, unit=" samples/s")
    assumed = ", assumed" if asked.precision_is_assumed else ""
    return f"{rate} in {asked.precision}{assumed} ({asked.source}).{taken_text(asked.taken_names)}"


def _with_legend(table: Table) -> Table:
    """Return a table whose title explains the marks in its cells."""
    cells = "".join(cell for row in table.rows for cell in row)
    legend = ", ".join(f"{mark} {meaning}" for mark, meaning in _MARKS.items() if mark in cells)
    return replace(table, title=f"{table.title} ({legend})") if legend else table


# --- what was assumed ------------------------------------------------------------------------


def _assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what these figures rest on and was not measured, a line each with the flag that sets it."""
    asked, assumed, rows = plan.request, plan.request.assumptions, plan.rows
    has_spot, has_sessions = any(row.usd_spot for row in rows), any(row.sessions for row in rows)
    scaled = {row.scaling_is_predicted for row in rows if row.scaling}
    is_predicted = any(row.is_predicted for row in rows)
    checkpoints = "the script writes no checkpoints"
    if assumed.checkpoint_cost_s is not None:
        cost, restart = map(duration_text, (assumed.checkpoint_cost_s, assumed.restart_cost_s))
        checkpoints = f"checkpoints of {cost}, a restart takes {restart}"
    efficiency = f"{assumed.scaling_low:.0%} to {assumed.scaling_high:.0%}"
    same = "the same batch per GPU (--scaling)"
    holds = {
        f"{bytes_text(asked.gradients_bytes)} of gradients per step, {same}": True in scaled,
        f"each of more GPUs has {efficiency} of its rate, {same}": False in scaled,
        **dict.fromkeys(plan.model_assumptions, True),
        f"the rate is in {asked.precision} (--precision)": asked.precision_is_assumed,
        f"{checkpoints} (--no-checkpoints)": has_spot or has_sessions,
        f"a spot machine is preempted every {duration_text(assumed.interrupted_every_s)}": has_spot,
        f"a session lasts {duration_text(assumed.max_session_s)} at most (--max-session)": has_sessions,
        "dollars are for the hours of training: no storage, transfer, set-up or tax": any(
            row.usd_on_demand for row in rows
        ),
        f"another GPU needs {bytes_text(asked.peak_reserved_bytes)} of memory (--memory-gib)": (
            asked.peak_reserved_bytes is not None and is_predicted
        ),
    }
    return (*_of_loader(plan), *(line for line, is_assumed in holds.items() if is_assumed))


def _of_loader(plan: Plan) -> list[str]:
    """Return what was assumed of how much a CPU loads, and of how many there are."""
    asked = plan.request
    per_cpu = asked.loader_per_cpu
    if per_cpu is None or all(row.loader_samples_per_s is None for row in plan.rows):
        return []
    loads = f"a CPU loads {figure_text(per_cpu, rate_text)} samples/s"
    if asked.loader_samples_per_s_per_cpu is not None:
        return [f"{loads}, by the cost of a batch (--loader-rate)"]
    used = count_text((asked.measured_vcpus_per_gpu or 0) * asked.measured_gpus, "CPU")
    usual = " of its usual machine" if asked.vcpus_are_assumed else ""
    return [f"{loads} at least: {used}{usual} fed the {asked.rate_source} rate (--loader-rate)"]
