"""A plan in words: what to choose on one screen; all machines and what was assumed in full. Pure."""

from typing import NamedTuple

from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.plan import (
    ChoiceKind,
    Plan,
    PlanRow,
    RateSource,
)
from tunekit.records.profile import NO_TORCH_BUILD
from tunekit.report.blocks import (
    Block,
    Column,
    Commands,
    Lead,
    Line,
    Passage,
    Report,
    note_of,
    table_of,
)
from tunekit.report.plan_figures import (
    FigureText,
    dollars_text,
    figure_text,
    gpus_text,
    machine_name,
    machine_remarks,
    price_text,
    rate_basis,
    whole_text,
    with_legend,
)
from tunekit.report.text import finding_text
from tunekit.trial.typed_commands import quoted
from tunekit.units import (
    bytes_text,
    count_text,
    duration_text,
    hours_text,
    rate_text,
)

_PREVENTING = (
    *("rates-unknown", "memory-too-small", "session-too-short", "no-torch-build"),
    *("gpus-would-idle", "no-price", "too-slow"),
)
"""Findings that say why no machine could be chosen."""


class _Option(NamedTuple):
    """A machine to choose, at one of its prices."""

    name: str
    """What it is best at."""
    row: PlanRow
    on_spot: bool = False

    @property
    def hours(self) -> Interval | None:
        """Of the training, on spot with its interruptions."""
        return self.row.spot_hours if self.on_spot else self.row.hours

    @property
    def usd(self) -> str:
        """Dollars of the training."""
        return dollars_text(self.row, self.on_spot) + " spot" * self.on_spot

    def figure(self, interval: Interval | None, text: FigureText) -> str:
        """Return a figure with its mark; interruptions are always predicted."""
        return figure_text(interval, text, self.on_spot or self.row.how is RateSource.PREDICTED)


def plan_report(plan: Plan, folder: str = "") -> Report:
    """Return everything that is shown of a plan, which was made from the run in a folder, if any."""
    return Report(f"Plan: {plan.request.source}", (*plan_blocks(plan), _next_step(plan, folder)))


def plan_blocks(plan: Plan) -> tuple[Block, ...]:
    """Return the same without the next command."""
    rows = tuple(row for row in plan.rows if row.how is not None and row.obstacle != NO_TORCH_BUILD)
    by = "the lower of on demand and spot" if plan.request.may_use_spot else "dollars on demand"
    machines = with_legend(table_of(f"Machines by {by}", _COLUMNS, rows if len(rows) > 1 else ()))
    preventing = _preventing(plan)
    return (
        *_answer(plan),
        machines,
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


# --- the answer ------------------------------------------------------------------------------


def _answer(plan: Plan) -> tuple[Block, ...]:
    """Return the measured machine, those that stand out beside it, and what to know of these."""
    options, asked = _options(plan), plan.request
    samples = f"{count_text(asked.epochs, 'epoch')} of {asked.samples_per_epoch:,} samples"
    remarks = ((one.name, machine_remarks(asked, one.row, one.on_spot)) for one in options)
    columns = (
        Column[_Option]("", lambda one: one.name, is_numeric=False),
        Column[_Option]("machine", lambda one: machine_name(one.row), is_numeric=False),
        Column[_Option]("GPUs", lambda one: gpus_text(one.row), is_numeric=False),
        Column[_Option](
            "epoch", lambda one: one.figure(one.hours and one.hours.times(1 / asked.epochs), hours_text)
        ),
        Column[_Option]("training", lambda one: one.figure(one.hours, hours_text)),
        Column[_Option]("dollars", lambda one: one.usd),
        Column[_Option](
            "units", lambda one: _limited(one.row, one.row.compute_units, rate_text), is_optional=True
        ),
    )
    return (
        Lead(_measured_text(plan)),
        Lead("" if plan.choices else _without_choice(_preventing(plan))),
        Line(f"{samples}, at {rate_basis(asked)}", is_quiet=True),
        with_legend(table_of("What to choose", columns, options)),
        Passage("", tuple(f"{name}: {text}" for name, text in remarks if text)),
    )


def _options(plan: Plan) -> tuple[_Option, ...]:
    """Return every machine that was chosen, once at each of its prices.

    A balanced choice that is the cheapest or the fastest too is not named.
    """
    together: dict[tuple[int, bool], list[ChoiceKind]] = {}
    for choice in plan.choices:
        together.setdefault((choice.row, choice.on_spot), []).append(choice.kind)
    options = []
    for (row, on_spot), kinds in together.items():
        ends = [kind for kind in kinds if kind is not ChoiceKind.BALANCED]
        options.append(_Option(", ".join(ends or kinds), plan.rows[row], on_spot))
    return tuple(options)


def _measured_text(plan: Plan) -> str:
    """Return what was measured, with what it costs where that GPU is offered."""
    own, offer = plan.rows[0], plan.measured_offer
    is_offered = offer is not None and offer.how is RateSource.MEASURED
    hours = offer.hours if offer is not None and is_offered else own.hours  # of its sessions too
    epoch_h = None if hours is None else hours.value / plan.request.epochs
    text = f"Measured on {gpus_text(own)}: {figure_text(hours, hours_text)}, {hours_text(epoch_h)} an epoch"
    if offer is None:
        return f"{text}; no price in this plan."
    few = "" if is_offered else ", predicted: it has fewer CPUs"
    stale = f", price of {offer.price_as_of}" if offer.is_stale else ""
    return f"{text}, {figure_text(offer.usd_on_demand, price_text)} on {machine_name(offer)}{few}{stale}."


def _preventing(plan: Plan) -> Finding | None:
    """Return why nothing was chosen; None where something was."""
    return None if plan.choices else next((one for one in plan.findings if one.code in _PREVENTING), None)


def _without_choice(why: Finding | None) -> str:
    return f"No machine to choose: {finding_text(why) if why else 'no other offer is known'}."


def _next_step(plan: Plan, folder: str) -> Commands:
    asked = plan.request
    if asked.measured_on == "cpu":
        size = f"--samples {asked.samples_per_epoch} --epochs {asked.epochs}"
        return Commands("Next, with a rate of a GPU", (f"tunekit plan --rate R {size} --gpu t4",))
    here = (f"on {asked.measured_on}", f"tunekit run {quoted(f'{folder}/{asked.tier}.yaml')}")
    steps = (here,) if asked.tier is not None else ()
    return Commands("Next", (*steps, ("on the machine that you choose", "tunekit search -- COMMAND")))


# --- the table -------------------------------------------------------------------------------


def _figure(row: PlanRow, interval: Interval | None, text: FigureText) -> str:
    return figure_text(interval, text, row.how is RateSource.PREDICTED)


def _limited(row: PlanRow, interval: Interval | None, text: FigureText) -> str:
    """Return what only notebook services have; elsewhere it is not unknown but nothing."""
    return _figure(row, interval, text) if interval else ""


_COLUMNS: tuple[Column[PlanRow], ...] = (
    Column("machine", machine_name, is_numeric=False),
    Column("GPUs", gpus_text, is_numeric=False),
    Column("training", lambda row: _figure(row, row.hours, hours_text)),
    Column("samples/s", lambda row: _figure(row, row.rate_samples_per_s, rate_text)),
    Column("on demand", lambda row: dollars_text(row, on_spot=False), is_optional=True),
    Column("spot", lambda row: dollars_text(row, on_spot=True), is_optional=True),
    Column("units", lambda row: _limited(row, row.compute_units, rate_text), is_optional=True),
    Column("sessions", lambda row: _limited(row, row.sessions, whole_text), is_optional=True),
    Column("price seen", lambda row: (row.price_as_of or "") if row.usd_on_demand else "", is_optional=True),
)


# --- what was assumed ------------------------------------------------------------------------


def _assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what these figures rest on and was not measured, a line each with the flag that sets it."""
    asked, assumed, rows = plan.request, plan.request.assumptions, plan.rows
    has_spot, has_sessions = any(row.usd_spot for row in rows), any(row.sessions for row in rows)
    is_predicted = any(row.how is RateSource.PREDICTED for row in rows)
    cost_s, gradients_bytes = assumed.checkpoint_cost_s, asked.gradients_bytes
    checkpoints = "the script writes no checkpoints"
    if cost_s is not None:
        restart = duration_text(assumed.restart_cost_s)
        checkpoints = f"checkpoints of {duration_text(cost_s)}, a restart takes {restart}"
    holds = {
        f"{bytes_text(gradients_bytes)} of gradients per step, the same batch per GPU (--scaling)": (
            gradients_bytes is not None and any(row.scaling_is_predicted for row in rows)
        ),
        (
            f"each of more GPUs has {assumed.scaling_low:.0%} to {assumed.scaling_high:.0%} of its rate, the "
            "same batch per GPU (--scaling)"
        ): any(row.scaling and not row.scaling_is_predicted for row in rows),
        **dict.fromkeys(plan.model_assumptions, True),
        f"the rate was measured in {asked.precision} (--precision)": asked.precision_is_assumed,
        f"{checkpoints} (--no-checkpoints)": has_spot or has_sessions,
        f"a spot machine is preempted every {duration_text(assumed.interrupted_every_s)}": has_spot,
        f"a session lasts {duration_text(assumed.max_session_s)} at most (--max-session)": has_sessions,
        "dollars are for the hours of training: no storage, transfer, set-up or tax": (
            any(row.usd_on_demand for row in rows)
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
        return [f"{loads}, from the cost of a batch here"]
    used = count_text((asked.measured_vcpus_per_gpu or 0) * asked.measured_gpus, "CPU")
    usual = " of its usual machine" if asked.vcpus_are_assumed else ""
    return [f"{loads}, at least: {used}{usual} fed the measured rate"]
