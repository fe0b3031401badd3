"""A plan in words: the machines that stand out, then all of them, then what was assumed. Pure."""

from collections.abc import Callable, Iterable, Sequence

from tunekit.plain_text import printable
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.plan import Choice, Plan, PlanRow, RateSource
from tunekit.report.blocks import Block, Column, Lead, Line, Passage, Report, Table, fitted_table, note_of
from tunekit.report.text import UNKNOWN, finding_text
from tunekit.units import bytes_text, count_text, duration_text, hours_text, rate_text, usd_text

_SHOWN_ROWS = 15
"""Machines in the table before the rest is only counted."""

_PREVENTING = {
    "rates-unknown": "Nothing is known of other machines",
    "memory-too-small": "No other machine can hold it",
    "session-too-short": "No other machine gets through it",
    "no-torch-build": "No other machine can train it",
    "no-price": "No other machine can be priced",
    "too-slow": "No other machine is fast enough",
}
"""Findings that say why no machine could be chosen, with what follows from each."""

_Text = Callable[[float | None], str]
"""How a figure is written."""

_RANGE = "range"
_PREDICTED = "~"
_STALE = "*"
_MAY_NOT_FIT = "?"
_DOES_NOT_FIT = "!"


def plan_report(plan: Plan, width: int = 80, every_row: bool = False) -> Report:
    """Return everything that is shown of a plan; the arguments are those of `plan_blocks`."""
    return Report(f"Plan: {printable(plan.request.source)}", plan_blocks(plan, width, every_row))


def plan_blocks(plan: Plan, width: int = 80, every_row: bool = False) -> tuple[Block, ...]:
    """Return the same as blocks: a narrow table leaves ranges and details out.

    Only the first machines and the chosen ones stand in it, unless it shall have every row.
    """
    rows = plan.rows if every_row else _first_rows(plan)
    machines = fitted_table(_table_title(plan, rows), _COLUMNS, rows, width)
    kept_from = (one for one in plan.findings if one.code in _PREVENTING)
    preventing = None if plan.choices else next(kept_from, None)
    answers = _answers(plan) if plan.choices else _without_choice(plan, preventing)
    return (
        *map(Lead, answers),
        Line(_basis(plan), is_quiet=True),
        Line(_reasons(plan), is_quiet=True),
        machines,
        Passage("", _below(plan, rows, machines), is_quiet=True),
        Passage("Assumed, not measured", _assumptions(plan), is_list=True),
        Passage("Sources", tuple(map(printable, plan.sources)), is_list=True, is_quiet=True),
        *(note_of(one) for one in plan.findings if one is not preventing),
    )


def _first_rows(plan: Plan) -> tuple[PlanRow, ...]:
    """Return the measured machine, the next ones with a rate, and the chosen ones, in the plan's order."""
    chosen = {choice.row for choice in plan.choices}
    return tuple(
        row
        for index, row in enumerate(plan.rows)
        if (index <= _SHOWN_ROWS and row.how is not None) or index in chosen
    )


def _answers(plan: Plan) -> tuple[str, ...]:
    """Return a sentence per machine that was chosen; a machine that is best at two things is named once."""
    together: dict[tuple[int, bool], list[Choice]] = {}
    for choice in plan.choices:
        together.setdefault((choice.row, choice.on_spot), []).append(choice)
    answers = []
    for (index, on_spot), choices in together.items():
        *first, last = (str(choice.kind) for choice in choices)
        name = f"{', '.join(first)} and {last}".capitalize() if first else last.capitalize()
        answers.append(printable(f"{name}: {_machine_answer(plan, plan.rows[index], on_spot)}"))
    return tuple(answers)


def _without_choice(plan: Plan, why: Finding | None) -> tuple[str, ...]:
    own = next(row for row in plan.rows if row.is_measured_machine)
    where = (
        f"Where it was measured ({_gpus_text(own)}): {_range_text(own.hours, hours_text, ' h')}, measured."
    )
    if why is None:
        return (where, "No other machine is known to be offered.")
    reason = finding_text(why)
    return (where, f"{_PREVENTING[why.code]}: {reason[0].lower()}{reason[1:]}.")


def _machine_answer(plan: Plan, row: PlanRow, on_spot: bool) -> str:
    hours = row.spot_hours if on_spot else row.hours
    how = str(RateSource.PREDICTED) if on_spot else str(row.how)
    parts = [f"{_money_answer(row, on_spot)}, {_range_text(hours, hours_text, ' h')}, {how}"]
    if row.precision is not plan.request.precision:
        parts.append(f"in {row.precision}")
    if row.sessions is not None and row.sessions.high > 1:
        longest = duration_text(plan.request.assumptions.max_session_s)
        parts.append(f"in {_range_text(row.sessions, _count_text)} sessions of {longest} at most")
    if row.checkpoint_interval_s is not None and (on_spot or row.sessions is not None):
        parts.append(f"a checkpoint every {duration_text(row.checkpoint_interval_s)}")
    if row.may_not_fit:
        parts.append("its memory may be too small")
    measured = plan.request.rate_samples_per_s
    if row.rate_samples_per_s is not None:
        rate = f"{rate_text(row.rate_samples_per_s.value)} samples/s"
        if row.loader_may_limit:
            parts.append(f"its CPUs may not feed {rate}")
        elif row.how is RateSource.PREDICTED and row.rate_samples_per_s.value > measured.value:
            parts.append(f"its loader has to feed {rate}")
    as_of, is_stale = (row.spot_as_of, row.is_spot_stale) if on_spot else (row.price_as_of, row.is_stale)
    if row.usd_spot if on_spot else row.usd_on_demand:
        price = "spot price" if on_spot else "price"
        parts.append(f"{price} of {as_of}" + (", stale" if is_stale else ""))
    return f"{row.provider} {row.instance}, {_gpus_text(row)}: {'; '.join(parts)}."


def _money_answer(row: PlanRow, on_spot: bool) -> str:
    if on_spot:
        return f"{_range_text(row.usd_spot, usd_text)} spot"
    units = None if row.compute_units is None else f"{_middle(row.compute_units, rate_text)} compute units"
    if row.usd_on_demand is None:
        return f"price {UNKNOWN}" + (f", {units}" if units else "")
    return f"{_range_text(row.usd_on_demand, usd_text)} " + (f"for {units}" if units else "on demand")


def _basis(plan: Plan) -> str:
    asked = plan.request
    rate = _range_text(asked.rate_samples_per_s, rate_text, " samples/s")
    return printable(
        f"{asked.epochs:,} epochs of {asked.samples_per_epoch:,} samples, from {rate} measured on "
        f"{asked.measured_gpus}x {asked.measured_on} in {asked.precision} ({asked.source})."
    )


def _reasons(plan: Plan) -> str:
    if not plan.choices:
        return ""
    reasons = "; ".join(f"{choice.kind}: {choice.reason}" for choice in plan.choices)
    return reasons[0].upper() + reasons[1:] + "."


# --- the table -------------------------------------------------------------------------------


def _table_title(plan: Plan, rows: Sequence[PlanRow]) -> str:
    days = plan.request.assumptions.stale_after_days
    marks = {
        f"{_PREDICTED} predicted": any(row.how is RateSource.PREDICTED or row.usd_spot for row in rows),
        f"{_STALE} price older than {days} days": any(
            (row.usd_on_demand and row.is_stale) or (row.usd_spot and row.is_spot_stale) for row in rows
        ),
        f"{_MAY_NOT_FIT} may not fit its memory": any(row.may_not_fit for row in rows),
        f"{_DOES_NOT_FIT} does not fit it": any(row.fits is False for row in rows),
    }
    legend = ", ".join(mark for mark, is_there in marks.items() if is_there)
    by = "the lower of on demand and spot" if plan.request.may_use_spot else "dollars on demand"
    return f"Machines by {by}" + (f" ({legend})" if legend else "")


def _below(plan: Plan, rows: Sequence[PlanRow], machines: Table) -> tuple[str, ...]:
    lines = []
    if prices := _price_dates(rows):
        lines.append(f"prices seen: {prices}")
    hidden = [row for row in plan.rows if row not in rows]
    if hidden:
        more = count_text(len(hidden), "more machine")
        has_rates = any(row.how for row in hidden)
        narrow = ", or narrow with --only and --provider"
        lines.append(f"{more}: --all{narrow}" if has_rates else f"{more}, without a rate: --all")
    has_ranges = any(row.hours and row.hours.low < row.hours.high for row in plan.rows)
    if has_ranges and _RANGE not in machines.columns:
        lines.append("ranges and details: on a wider terminal, or with --json")
    return tuple(lines)


def _price_dates(rows: Sequence[PlanRow]) -> str:
    """Return when each provider's prices were seen, such as "aws 2025-11-30 (spot 2024 or 2026)"."""
    texts = []
    for provider in sorted({row.provider for row in rows if row.provider}):
        offers = [row for row in rows if row.provider == provider]
        on_demand = _dates(row.price_as_of for row in offers if row.usd_on_demand)
        spot = _dates(row.spot_as_of for row in offers if row.usd_spot)
        if on_demand or spot:
            dates = [part for part in (on_demand, f"(spot {spot})" if spot else "") if part]
            texts.append(printable(f"{provider} {' '.join(dates)}"))
    return ", ".join(texts)


def _price_date(row: PlanRow) -> str:
    on_demand = row.price_as_of if row.usd_on_demand else None
    spot = f"spot {row.spot_as_of}" if row.usd_spot else None
    return ", ".join(part for part in (on_demand, spot) if part)


def _dates(seen: Iterable[str | None]) -> str:
    return " or ".join(sorted({date for date in seen if date}))


def _marked(row: PlanRow, interval: Interval | None, text: _Text) -> str:
    return _middle(interval, text, _PREDICTED if row.how is RateSource.PREDICTED else "")


def _limited(row: PlanRow, interval: Interval | None, text: _Text) -> str:
    """Return what only notebook services have; elsewhere it is not unknown but nothing."""
    return "" if interval is None else _marked(row, interval, text)


def _name(row: PlanRow) -> str:
    if row.is_measured_machine:
        return "(as measured)"
    return "(no offer known)" if row.instance is None else printable(f"{row.provider} {row.instance}")


def _gpus_text(row: PlanRow) -> str:
    return printable(f"{row.gpus}x {row.profile_id}")


def _marked_gpus(row: PlanRow) -> str:
    return _gpus_text(row) + (_DOES_NOT_FIT if row.fits is False else _MAY_NOT_FIT if row.may_not_fit else "")


def _fits_text(row: PlanRow) -> str:
    if row.is_measured_machine:
        return ""
    return UNKNOWN if row.fits is None else ("yes" if row.fits else "no")


_COLUMNS: tuple[Column[PlanRow], ...] = (
    Column("machine", _name, is_numeric=False),
    Column("GPUs", _marked_gpus, is_numeric=False),
    Column("samples/s", lambda row: _marked(row, row.rate_samples_per_s, rate_text), drop=5),
    Column("hours", lambda row: _marked(row, row.hours, hours_text)),
    Column(_RANGE, lambda row: _ends(row.hours, hours_text), drop=3, is_optional=True),
    Column("on demand", lambda row: _starred(_marked(row, row.usd_on_demand, usd_text), row.is_stale)),
    Column(_RANGE, lambda row: _ends(row.usd_on_demand, usd_text), drop=3, is_optional=True),
    Column("spot", lambda row: _starred(_middle(row.usd_spot, usd_text, _PREDICTED), row.is_spot_stale)),
    Column("spot range", lambda row: _ends(row.usd_spot, usd_text), drop=6, is_optional=True),
    Column("units", lambda row: _limited(row, row.compute_units, rate_text), drop=1, is_optional=True),
    Column("sessions", lambda row: _limited(row, row.sessions, _count_text), drop=2, is_optional=True),
    Column("price of", _price_date, is_numeric=False, drop=4, is_optional=True),
    Column("fits", _fits_text, is_numeric=False, drop=7, is_optional=True),
)


def _middle(interval: Interval | None, text: _Text, mark: str = "") -> str:
    return UNKNOWN if interval is None else mark + text(interval.value)


def _ends(interval: Interval | None, text: _Text) -> str:
    """Return "LOW to HIGH"; nothing where both read the same."""
    if interval is None:
        return ""
    low, high = text(interval.low), text(interval.high)
    return "" if low == high else f"{low} to {high}"


def _range_text(interval: Interval | None, text: _Text, unit: str = "") -> str:
    """Return "MIDDLE (LOW to HIGH)", without the range where it reads the same."""
    ends = _ends(interval, text)
    return _middle(interval, text) + unit + (f" ({ends})" if ends else "")


def _count_text(count: float | None) -> str:
    return UNKNOWN if count is None else f"{count:,.0f}"


def _starred(text: str, is_stale: bool) -> str:
    """Return a price with its mark, or with the mark's place so that figures stand below each other."""
    return text + (_STALE if is_stale and text != UNKNOWN else " ")


# --- what was assumed ------------------------------------------------------------------------


def _assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what these figures rest on and nobody measured, a line each with the flag that sets it."""
    asked = plan.request
    lines = []
    if asked.precision_is_assumed:
        lines.append(f"the rate was measured in {asked.precision} (--precision)")
    lines += [*_of_numbers(plan), *plan.model_assumptions, *_of_interruptions(plan)]
    if any(row.usd_on_demand for row in plan.rows):
        lines.append("dollars are for the hours of training: no storage, transfer, set-up or tax")
    if asked.peak_reserved_bytes is not None and any(row.how is RateSource.PREDICTED for row in plan.rows):
        peak = bytes_text(asked.peak_reserved_bytes)
        known = "(--memory-gib)" if asked.peak_is_given else "that were reserved where it was measured"
        lines.append(f"another GPU would need the {peak} of memory {known}")
    return tuple(lines)


def _of_numbers(plan: Plan) -> list[str]:
    """Return what was assumed of another number of GPUs, of fewer, and of as many of another kind."""
    low, high = plan.request.assumptions.scaling_low, plan.request.assumptions.scaling_high
    measured = plan.request.measured_gpus
    numbers = {row.gpus for row in plan.rows if row.scaling}
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
        lines.append(f"a spot machine is taken away every {every} on average (--interrupted-every)")
    if has_sessions:
        longest = duration_text(assumed.max_session_s)
        writes = any(row.sessions and row.checkpoint_interval_s for row in plan.rows)
        counted = "; its hours count a checkpoint after every interval" if writes else ""
        lines.append(f"a Colab session lasts {longest} at most (--max-session){counted}")
    return lines
