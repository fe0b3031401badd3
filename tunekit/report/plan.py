"""A plan in words: what to choose on one screen; all machines and what was assumed in full. Pure."""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from tunekit.plain_text import printable
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.plan import (
    Choice,
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
    checkpoint_text,
    counted,
    ends_text,
    figure_text,
    gpus_text,
    machine_name,
    marked_gpus,
    middle_text,
    price_text,
    purchase_text,
    range_text,
    remarks,
    starred,
    weeks_text,
    whole_text,
)
from tunekit.report.text import finding_text, taken_text
from tunekit.trial.typed_commands import quoted
from tunekit.units import (
    bytes_text,
    count_text,
    duration_text,
    hours_text,
    rate_text,
    usd_text,
)

_PREVENTING = {
    "rates-unknown": "Nothing is known of other machines",
    "memory-too-small": "No other machine can hold it",
    "session-too-short": "No other machine gets through it",
    "no-torch-build": "No other machine can train it",
    "gpus-would-idle": "No other machine has CPUs enough",
    "no-price": "No other machine can be priced",
    "too-slow": "No other machine is fast enough",
}
"""Findings that say why no machine could be chosen, with what follows from each."""


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
        Line(_reasons(plan), is_quiet=True),
        machines,
        Passage("", _below(plan, rows), is_quiet=True),
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
    options = _options(plan)
    return (
        Lead(printable(_measured_text(plan))),
        Lead("" if plan.choices else _without_choice(preventing)),
        Line(_basis(plan), is_quiet=True),
        fitted_table(_options_title(options), _option_columns(plan), options, width),
        Passage("", tuple(text for one in options if (text := _remark(plan, one)))),
    )


def _options(plan: Plan) -> tuple[_Option, ...]:
    """Return every machine that was chosen, once at each of its prices."""
    together: dict[tuple[int, bool], list[str]] = {}
    for choice in _choices(plan):
        name = f"{choice.kind}{' in time' if choice.is_by_limit else ''}"
        together.setdefault((choice.row, choice.on_spot), []).append(name)
    return tuple(
        _Option(", ".join(names), plan.rows[row], on_spot) for (row, on_spot), names in together.items()
    )


def _choices(plan: Plan) -> list[Choice]:
    """Return the choices, without a balanced one that is the cheapest or the fastest."""
    ends = [(one.row, one.on_spot) for one in plan.choices if one.kind is not ChoiceKind.BALANCED]
    return [
        one
        for one in plan.choices
        if one.kind is not ChoiceKind.BALANCED or (one.row, one.on_spot) not in ends
    ]


def _measured_text(plan: Plan) -> str:
    """Return what was measured, with what it costs where somebody offers that GPU."""
    own, offer = plan.rows[0], plan.measured_offer
    is_offered = offer is not None and offer.how is RateSource.MEASURED
    hours = offer.hours if offer is not None and is_offered else own.hours  # of its sessions too
    text = f"Measured on {gpus_text(own)}: {range_text(hours, hours_text)}, {_epoch(plan, hours)} an epoch"
    here = plan.request.here_usd_per_h
    if here is not None:
        usd = range_text(own.usd_on_demand, price_text)
        return f"{text}, {usd} at {usd_text(here)} an hour (--here-cost-per-hour)."
    if offer is None:
        return f"{text}; {_without_offer(plan)}."
    stale = f", at a stale price of {offer.price_as_of}" if offer.is_stale else ""
    if is_offered:
        parts = " in sessions" if offer.sessions is not None and offer.sessions.high > 1 else ""
        parts += f" over {weeks_text(offer.weeks)}" if offer.weeks is not None and parts else ""
        return (
            f"{text}, {range_text(offer.usd_on_demand, price_text)} on {machine_name(offer)}{parts}{stale}."
        )
    usd = range_text(offer.usd_on_demand, price_text)
    return f"{text}; {usd}, predicted, on {machine_name(offer)}, which has fewer CPUs{stale}."


def _without_offer(plan: Plan) -> str:
    """Return why the measured GPU has no dollars: it has no offer here, or what is in the way there."""
    own, *offers = plan.rows
    same = [row for row in offers if (row.profile_id, row.gpus) == (own.profile_id, own.gpus)]
    blocked = next((row for row in same if row.obstacle and row.instance), None)
    if blocked is not None:
        return f"on {machine_name(blocked)} {blocked.obstacle}"
    asked = plan.request
    filters = {"--provider": asked.providers, "--only": asked.only, "--max-hours": asked.max_hours}
    given = [flag for flag, value in filters.items() if value]
    return f"no price with {' and '.join(given)} as given" if given else "no price is known"


def _preventing(plan: Plan) -> Finding | None:
    """Return why nothing was chosen; None where something was."""
    return None if plan.choices else next((one for one in plan.findings if one.code in _PREVENTING), None)


def _without_choice(why: Finding | None) -> str:
    if why is None:
        return "No other machine is known to be offered."
    reason = finding_text(why)
    return f"{_PREVENTING[why.code]}: {reason[0].lower()}{reason[1:]}."


def _basis(plan: Plan) -> str:
    asked = plan.request
    rate = range_text(asked.rate_samples_per_s, rate_text, " samples/s")
    return printable(
        f"{count_text(asked.epochs, 'epoch')} of {asked.samples_per_epoch:,} samples, at {rate} in "
        f"{asked.precision}{', assumed' if asked.precision_is_assumed else ''} ({asked.source})."
        + taken_text(asked.taken_names)
    )


def _epoch(plan: Plan, hours: Interval | None) -> str:
    return middle_text(_of_epoch(plan, hours), hours_text)


def _of_epoch(plan: Plan, hours: Interval | None) -> Interval | None:
    return None if hours is None else hours.times(1 / plan.request.epochs)


def _options_title(options: Sequence[_Option]) -> str:
    marks = {
        f"{PREDICTED_MARK} predicted": any(one.is_predicted for one in options),
        f"{STALE_MARK} stale price": any(_is_stale(one) for one in options),
        f"{MAY_NOT_FIT_MARK} may not fit its memory": any(one.row.may_not_fit for one in options),
    }
    legend = ", ".join(mark for mark, is_there in marks.items() if is_there)
    return "What to choose" + (f" ({legend})" if legend else "")


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
    row, asked = option.row, plan.request
    parts = []
    if row.precision is not asked.precision:
        parts.append(f"in {row.precision}")
    if row.sessions is not None and row.sessions.high > 1:
        longest = duration_text(row.max_session_s or asked.assumptions.max_session_s)
        weeks = f" over {weeks_text(row.weeks)} of {row.hours_per_week:g} h" if row.weeks is not None else ""
        parts.append(f"{range_text(row.sessions, whole_text)} sessions of up to {longest}{weeks}")
    if row.checkpoint_interval_s is not None and (option.on_spot or row.sessions is not None):
        parts.append(f"a checkpoint every {checkpoint_text(asked, row, row.checkpoint_interval_s)}")
    if bought := purchase_text(row):
        parts.append(bought)
    parts += remarks(asked, row, option.on_spot)
    return printable(f"{option.name}: {'; '.join(parts)}") if parts else ""


def _reasons(plan: Plan) -> str:
    if not plan.choices:
        return ""
    reasons = "; ".join(f"{choice.kind}: {choice.reason}" for choice in _choices(plan))
    return reasons[0].upper() + reasons[1:] + "."


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
    days = plan.request.assumptions.stale_after_days
    marks = {
        f"{PREDICTED_MARK} predicted": any(row.how is RateSource.PREDICTED or row.usd_spot for row in rows),
        f"{STALE_MARK} price older than {days} days": any(
            (row.usd_on_demand and row.is_stale) or (row.usd_spot and row.is_spot_stale) for row in rows
        ),
        f"{MAY_NOT_FIT_MARK} may not fit its memory": any(row.may_not_fit for row in rows),
        f"{DOES_NOT_FIT_MARK} does not fit it": any(row.fits is False for row in rows),
    }
    legend = ", ".join(mark for mark, is_there in marks.items() if is_there)
    by = "the lower of on demand and spot" if plan.request.may_use_spot else "dollars on demand"
    return f"Machines by {by}" + (f" ({legend})" if legend else "")


def _below(plan: Plan, rows: Sequence[PlanRow]) -> tuple[str, ...]:
    lines = []
    if any(row.has_range_only for row in rows):
        lines.append(
            "where the loader of a machine is not known, it is expected to feed no more than it was seen to; "
            "the range goes up to one that keeps up with the GPUs"
        )
    unknown = sum(row.how is None for row in plan.rows)
    if unknown and plan.choices:
        lines.append(f"left out: {count_text(unknown, 'machine')} without a known rate")
    return tuple(lines)


def _date(usd: Interval | None, seen: str | None) -> str:
    return (seen or "") if usd else ""


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
    Column("weeks", lambda row: _limited(row, row.weeks, whole_text), is_optional=True, is_below=True),
    Column("worth", lambda row: _limited(row, row.usd_of_units, usd_text), is_optional=True, is_below=True),
    Column(
        "price seen", lambda row: _date(row.usd_on_demand, row.price_as_of), is_optional=True, is_below=True
    ),
    Column("spot seen", lambda row: _date(row.usd_spot, row.spot_as_of), is_optional=True, is_below=True),
)


# --- what was assumed ------------------------------------------------------------------------


def _assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what these figures rest on and nobody measured, a line each with the flag that sets it."""
    asked = plan.request
    lines = []
    if asked.precision_is_assumed:
        lines.append(f"the rate was measured in {asked.precision} (--precision)")
    lines += [
        *_of_loader(plan),
        *_of_links(plan),
        *_of_numbers(plan),
        *plan.model_assumptions,
        *_of_interruptions(plan),
    ]
    if any(row.usd_on_demand for row in plan.rows):
        lines.append("dollars are for the hours of training: no storage, transfer, set-up or tax")
    if asked.peak_reserved_bytes is not None and any(row.how is RateSource.PREDICTED for row in plan.rows):
        peak = bytes_text(asked.peak_reserved_bytes)
        known = "(--memory-gib)" if asked.peak_is_given else "that were reserved where it was measured"
        lines.append(f"another GPU would need the {peak} of memory {known}")
    return tuple(lines)


def _of_loader(plan: Plan) -> list[str]:
    """Return what was assumed of how much a CPU loads, and of how many there are."""
    asked = plan.request
    per_cpu = asked.loader_per_cpu
    if per_cpu is None or all(row.loader_samples_per_s is None for row in plan.rows):
        return []
    unknown = any(row.vcpus is None and row.loader_samples_per_s is not None for row in plan.rows)
    unsaid = "a machine of unknown CPUs has as many as the GPU's usual machine, else as many as fed the rate"
    lines = [unsaid] if unknown else []
    if asked.loader_samples_per_s_per_cpu is not None:
        loads = range_text(per_cpu, rate_text, " samples/s")
        return [f"a CPU there loads {loads}, by what a batch costs here", *lines]
    used = count_text((asked.measured_vcpus_per_gpu or 0) * asked.measured_gpus, "CPU")
    whose = ", as its usual machine has," if asked.vcpus_are_assumed else ""
    fed = (
        f"a CPU loads {rate_text(per_cpu.value)} samples/s, since {used}{whose} fed the measured rate; it "
        "may load more, which a search measures"
    )
    return [fed, *lines]


def _of_links(plan: Plan) -> list[str]:
    """Return what a predicted efficiency of more GPUs takes for granted."""
    gradients_bytes = plan.request.gradients_bytes
    if gradients_bytes is None or not any(row.scaling_is_predicted for row in plan.rows):
        return []
    return [
        f"more GPUs exchange {bytes_text(gradients_bytes)} of gradients a step behind the backward pass, "
        "with the same batch each, and as many epochs do; none of them is slower than the others (--scaling)"
    ]


def _of_numbers(plan: Plan) -> list[str]:
    """Return what was assumed of another number of GPUs, of fewer, and of as many of another kind."""
    low, high = plan.request.assumptions.scaling_low, plan.request.assumptions.scaling_high
    measured = plan.request.measured_gpus
    numbers = {row.gpus for row in plan.rows if row.scaling and not row.scaling_is_predicted}
    shares = []
    if any(gpus > measured for gpus in numbers):
        shares.append(f"on more GPUs each has {low:.0%} to {high:.0%} of its rate")
    if any(gpus < measured for gpus in numbers):
        shares.append(f"on fewer GPUs each has {1 / high:.0%} to {1 / low:.0%} of its rate")
    if measured in numbers:
        shares.append(f"as many GPUs of another kind have {low / high:.0%} to {high / low:.0%} of it")
    if not shares:
        return []
    first, *others = shares
    rest = "".join(f"; {share}" for share in others)
    return [f"{first} (--scaling), with the same batch each, and as many epochs do{rest}"]


def _of_interruptions(plan: Plan) -> list[str]:
    assumed = plan.request.assumptions
    has_spot = any(row.usd_spot or row.spot_refused for row in plan.rows)
    has_sessions = any(row.sessions or row.is_without_session for row in plan.rows)
    if not has_spot and not has_sessions:
        return []
    cost_s = assumed.checkpoint_cost_s
    lines = [
        "the script writes no checkpoints (--no-checkpoints)"
        if cost_s is None
        else f"the script resumes from checkpoints of {duration_text(cost_s)} each "
        "(--checkpoint-cost, --no-checkpoints)",
        f"a restart takes {duration_text(assumed.restart_cost_s)} (--restart-cost)",
    ]
    if has_spot:
        every = duration_text(assumed.interrupted_every_s)
        lines.append(f"a spot machine is preempted every {every} on average (--interrupted-every)")
    if has_sessions:
        longest = duration_text(assumed.max_session_s)
        writes = any(row.sessions and row.checkpoint_interval_s for row in plan.rows)
        counted = "; its hours count a checkpoint after every interval" if writes else ""
        lines.append(f"a notebook session lasts {longest} at most (--max-session){counted}")
        if any(row.weeks for row in plan.rows):
            lines.append("a weekly quota is whole when the training begins")
    return lines
