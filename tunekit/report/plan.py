"""A plan in words: what to choose on one screen; all machines and what was assumed in full. Pure."""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from tunekit.plain_text import printable
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
    WIDE,
    Block,
    Column,
    Commands,
    Lead,
    Line,
    Passage,
    Report,
    fitted_table,
    note_of,
)
from tunekit.report.plan_figures import (
    DOES_NOT_FIT_MARK,
    MAY_NOT_FIT_MARK,
    PREDICTED_MARK,
    STALE_MARK,
    FigureText,
    counted,
    ends_text,
    figure_text,
    gpus_text,
    machine_name,
    machine_remarks,
    marked_gpus,
    middle_text,
    price_text,
    range_text,
    rate_basis,
    starred,
    whole_text,
)
from tunekit.report.text import finding_text
from tunekit.trial.typed_commands import quoted
from tunekit.units import (
    bytes_text,
    count_text,
    duration_text,
    hours_text,
    rate_text,
    usd_text,
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
    def usd(self) -> Interval | None:
        """Of the training."""
        return self.row.usd_spot if self.on_spot else self.row.usd_on_demand

    @property
    def is_predicted(self) -> bool:
        """Whether its figures are predictions; interruptions always are."""
        return self.on_spot or self.row.how is RateSource.PREDICTED

    def figure(self, interval: Interval | None, text: FigureText) -> str:
        """Return an expected figure with its mark."""
        return figure_text(interval, text, self.is_predicted)


def plan_report(plan: Plan, width: int = 80, folder: str = "") -> Report:
    """Return everything that is shown of a plan; the arguments are those of `plan_answer`."""
    title = f"Plan: {printable(plan.request.source)}"
    return Report(title, (*plan_blocks(plan, width), _next_step(plan, folder)))


def plan_blocks(plan: Plan, width: int = 80) -> tuple[Block, ...]:
    """Return the same without the next command."""
    rows = tuple(row for row in plan.rows if row.how is not None and row.obstacle != NO_TORCH_BUILD)
    room = width if width < WIDE else sys.maxsize
    machines = fitted_table(_table_title(plan, rows), _COLUMNS, rows if len(rows) > 1 else (), room)
    preventing = _preventing(plan)
    return (
        *_answer(plan, width),
        machines,
        Passage("Assumed, not measured", _assumptions(plan), is_list=True),
        Passage("Sources", tuple(map(printable, plan.sources)), is_list=True, is_quiet=True),
        *(note_of(one) for one in plan.findings if one is not preventing),
    )


def plan_answer(plan: Plan, width: int = 80, folder: str = "") -> tuple[Block, ...]:
    """Return what to choose, its hours and dollars and the next command: one screen.

    Args:
        plan: the whole plan.
        width: letters of a line.
        folder: of the run that it was made from, if there is one.
    """
    return (
        *_answer(plan, width),
        Line(_more(plan), is_quiet=True),
        _next_step(plan, folder),
    )


# --- the answer ------------------------------------------------------------------------------


def _answer(plan: Plan, width: int) -> tuple[Block, ...]:
    """Return the measured machine, those that stand out beside it, and what to know of these."""
    preventing = _preventing(plan)
    options, asked = _options(plan), plan.request
    samples = f"{count_text(asked.epochs, 'epoch')} of {asked.samples_per_epoch:,} samples"
    return (
        Lead(printable(_measured_text(plan))),
        Lead("" if plan.choices else _without_choice(preventing)),
        Line(printable(f"{samples}, at {rate_basis(asked)}"), is_quiet=True),
        fitted_table(_options_title(options), _option_columns(plan), options, width),
        Passage("", tuple(text for one in options if (text := _remark(plan, one)))),
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
    epoch = middle_text(_of_epoch(plan, hours), hours_text)
    text = f"Measured on {gpus_text(own)}: {range_text(hours, hours_text)}, {epoch} an epoch"
    if offer is None:
        return f"{text}; no price in this plan."
    stale = f", at a stale price of {offer.price_as_of}" if offer.is_stale else ""
    usd = range_text(offer.usd_on_demand, price_text)
    few = "" if is_offered else ", predicted: it has fewer CPUs"
    return f"{text}, {usd} on {machine_name(offer)}{few}{stale}."


def _preventing(plan: Plan) -> Finding | None:
    """Return why nothing was chosen; None where something was."""
    return None if plan.choices else next((one for one in plan.findings if one.code in _PREVENTING), None)


def _without_choice(why: Finding | None) -> str:
    if why is None:
        return "No other machine is known to be offered."
    reason = finding_text(why)
    return f"No other machine can be chosen: {reason[0].lower()}{reason[1:]}."


def _of_epoch(plan: Plan, hours: Interval | None) -> Interval | None:
    return None if hours is None else hours.times(1 / plan.request.epochs)


def _legend(title: str, is_predicted: bool, is_stale: bool, rows: Sequence[PlanRow]) -> str:
    """Return a title with the marks that its table has."""
    marks = {
        f"{PREDICTED_MARK} predicted": is_predicted,
        f"{STALE_MARK} stale price": is_stale,
        f"{MAY_NOT_FIT_MARK} may not fit its memory": any(row.may_not_fit for row in rows),
        f"{DOES_NOT_FIT_MARK} does not fit it": any(row.fits is False for row in rows),
    }
    legend = ", ".join(mark for mark, is_there in marks.items() if is_there)
    return f"{title} ({legend})" if legend else title


def _options_title(options: Sequence[_Option]) -> str:
    is_predicted, is_stale = any(one.is_predicted for one in options), any(map(_is_stale, options))
    return _legend("What to choose", is_predicted, is_stale, [one.row for one in options])


def _is_stale(option: _Option) -> bool:
    is_stale = option.row.is_spot_stale if option.on_spot else option.row.is_stale
    return is_stale and option.usd is not None


def _usd_text(option: _Option) -> str:
    text = starred(option.figure(option.usd, price_text), _is_stale(option))
    return f"{text}spot" if option.on_spot else text


def _option_columns(plan: Plan) -> tuple[Column[_Option], ...]:
    return (
        Column("", lambda one: one.name, is_numeric=False),
        Column("machine", lambda one: machine_name(one.row), is_numeric=False),
        Column("GPUs", lambda one: marked_gpus(one.row), is_numeric=False, is_below=True),
        Column("epoch", lambda one: one.figure(_of_epoch(plan, one.hours), hours_text), drop=1),
        Column("training", lambda one: one.figure(one.hours, hours_text)),
        Column("range", lambda one: ends_text(one.hours, hours_text), is_optional=True, is_below=True),
        Column("dollars", _usd_text),
        Column("range", lambda one: ends_text(one.usd, price_text), is_optional=True, is_below=True),
        Column(
            "units", lambda one: _limited(one.row, one.row.compute_units, rate_text), drop=2, is_optional=True
        ),
    )


def _remark(plan: Plan, option: _Option) -> str:
    """Return what else there is to know of a machine; nothing where there is nothing."""
    remarks = machine_remarks(plan.request, option.row, option.on_spot)
    return printable(f"{option.name}: {remarks}") if remarks else ""


def _more(plan: Plan) -> str:
    """Return what else there is to see, and how."""
    rated = sum(row.how is not None for row in plan.rows) - 1
    notes = [one for one in plan.findings if one is not _preventing(plan)]
    shown = [*([count_text(rated, "machine")] if rated > 0 else []), *counted(notes)]
    return f"{', '.join(shown)}, and what was assumed: --full, or --html FILE" if shown else ""


def _next_step(plan: Plan, folder: str) -> Commands:
    asked = plan.request
    if asked.measured_on == "cpu":
        size = f"--samples {asked.samples_per_epoch} --epochs {asked.epochs}"
        return Commands("Next, with a rate of a GPU", (f"tunekit plan --rate R {size} --gpu t4",))
    if asked.tier is not None:
        config = quoted(f"{folder}/{asked.tier}.yaml")
        here = printable(f"on {asked.measured_on}: tunekit run {config}")
        return Commands("Next", (here, "on another GPU: tunekit search -- COMMAND"))
    return Commands("Next, on the machine that you choose", ("tunekit search -- COMMAND",))


# --- the table -------------------------------------------------------------------------------


def _table_title(plan: Plan, rows: Sequence[PlanRow]) -> str:
    is_predicted = any(row.how is RateSource.PREDICTED or row.usd_spot for row in rows)
    is_stale = any(
        (row.usd_on_demand and row.is_stale) or (row.usd_spot and row.is_spot_stale) for row in rows
    )
    by = "the lower of on demand and spot" if plan.request.may_use_spot else "dollars on demand"
    return _legend(f"Machines by {by}", is_predicted, is_stale, rows)


def _marked(row: PlanRow, interval: Interval | None, text: FigureText) -> str:
    return figure_text(interval, text, row.how is RateSource.PREDICTED)


def _limited(row: PlanRow, interval: Interval | None, text: FigureText) -> str:
    """Return what only notebook services have; elsewhere it is not unknown but nothing."""
    return "" if interval is None else _marked(row, interval, text)


_COLUMNS: tuple[Column[PlanRow], ...] = (
    Column("machine", machine_name, is_numeric=False),
    Column("GPUs", marked_gpus, is_numeric=False, is_below=True),
    Column("training", lambda row: _marked(row, row.hours, hours_text)),
    Column("range", lambda row: ends_text(row.hours, hours_text), is_optional=True, is_below=True),
    Column("samples/s", lambda row: _marked(row, row.rate_samples_per_s, rate_text), is_below=True),
    Column(
        "on demand",
        lambda row: starred(_marked(row, row.usd_on_demand, price_text), row.is_stale),
        is_optional=True,
    ),
    Column("range", lambda row: ends_text(row.usd_on_demand, price_text), is_optional=True, is_below=True),
    Column(
        "spot",
        lambda row: starred(figure_text(row.usd_spot, usd_text, is_predicted=True), row.is_spot_stale),
        is_optional=True,
        is_below=True,
    ),
    Column("range", lambda row: ends_text(row.usd_spot, usd_text), is_optional=True, is_below=True),
    Column("units", lambda row: _limited(row, row.compute_units, rate_text), is_optional=True),
    Column("sessions", lambda row: _limited(row, row.sessions, whole_text), is_optional=True, is_below=True),
    Column(
        "price seen",
        lambda row: (row.price_as_of or "") if row.usd_on_demand else "",
        is_optional=True,
        is_below=True,
    ),
)


# --- what was assumed ------------------------------------------------------------------------


def _assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what these figures rest on and was not measured, a line each with the flag that sets it."""
    asked, assumed, rows = plan.request, plan.request.assumptions, plan.rows
    lines = [*_of_loader(plan), *_of_numbers(plan), *plan.model_assumptions]
    if asked.precision_is_assumed:
        lines.append(f"the rate was measured in {asked.precision} (--precision)")
    has_spot, has_sessions = any(row.usd_spot for row in rows), any(row.sessions for row in rows)
    if has_spot or has_sessions:
        cost_s, restart = assumed.checkpoint_cost_s, duration_text(assumed.restart_cost_s)
        lines.append(
            "the script writes no checkpoints (--no-checkpoints)"
            if cost_s is None
            else f"the script resumes from checkpoints of {duration_text(cost_s)} (--no-checkpoints), a "
            f"restart takes {restart}"
        )
    if has_spot:
        every = duration_text(assumed.interrupted_every_s)
        lines.append(f"a spot machine is preempted every {every} on average")
    if has_sessions:
        lines.append(f"a session lasts {duration_text(assumed.max_session_s)} at most (--max-session)")
    if any(row.usd_on_demand for row in rows):
        lines.append("dollars are for the hours of training: no storage, transfer, set-up or tax")
    if asked.peak_reserved_bytes is not None and any(row.how is RateSource.PREDICTED for row in rows):
        lines.append(f"another GPU needs {bytes_text(asked.peak_reserved_bytes)} of memory (--memory-gib)")
    return tuple(lines)


def _of_loader(plan: Plan) -> list[str]:
    """Return what was assumed of how much a CPU loads, and of how many there are."""
    asked = plan.request
    per_cpu = asked.loader_per_cpu
    if per_cpu is None or all(row.loader_samples_per_s is None for row in plan.rows):
        return []
    loads = f"a CPU loads {range_text(per_cpu, rate_text, ' samples/s')}"
    if asked.loader_samples_per_s_per_cpu is not None:
        return [f"{loads}, from the cost of a batch here"]
    used = count_text((asked.measured_vcpus_per_gpu or 0) * asked.measured_gpus, "CPU")
    usual = " of its usual machine" if asked.vcpus_are_assumed else ""
    return [
        f"{loads}, since {used}{usual} fed the measured rate; ranges go up to a loader that keeps up with "
        "the GPUs"
    ]


def _of_numbers(plan: Plan) -> list[str]:
    """Return what was assumed of another number of GPUs."""
    assumed, lines = plan.request.assumptions, []
    gradients_bytes = plan.request.gradients_bytes
    if gradients_bytes is not None and any(row.scaling_is_predicted for row in plan.rows):
        lines.append(
            f"more GPUs exchange {bytes_text(gradients_bytes)} of gradients a step behind the backward pass, "
            "with the same batch each (--scaling)"
        )
    if any(row.scaling and not row.scaling_is_predicted for row in plan.rows):
        low, high = assumed.scaling_low, assumed.scaling_high
        lines.append(
            f"each of more GPUs has {low:.0%} to {high:.0%} of its rate (--scaling), with the same batch each"
        )
    return lines
