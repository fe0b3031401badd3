"""A plan in words: what to choose on one screen; all machines and what was assumed in full. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tunekit.plain_text import printable
from tunekit.records.finding import Finding, Severity
from tunekit.records.interval import Interval
from tunekit.records.plan import ChoiceKind, Plan, PlanRow, RateSource
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
    fitted_table,
    note_of,
)
from tunekit.report.text import UNKNOWN, finding_text, quoted
from tunekit.units import (
    bytes_text,
    count_text,
    digits_text,
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

_Text = Callable[[float | None], str]
"""How a figure is written."""

_RANGE = "range"
_PREDICTED = "~"
_STALE = "*"
_MAY_NOT_FIT = "?"
_DOES_NOT_FIT = "!"


class _Option(NamedTuple):
    """A machine to choose, at one of its prices."""

    names: tuple[str, ...]
    """What it is best at; that it was measured."""
    row: PlanRow
    on_spot: bool = False

    @property
    def name(self) -> str:
        """The same in words; what is cheapest and fastest is balanced too."""
        is_all = {ChoiceKind.CHEAPEST, ChoiceKind.FASTEST} <= {*self.names}
        return ", ".join(name for name in self.names if not (is_all and name == ChoiceKind.BALANCED))

    @property
    def hours(self) -> Interval | None:
        """Of the training, on spot with its interruptions."""
        return self.row.spot_hours if self.on_spot else self.row.hours

    @property
    def usd(self) -> Interval | None:
        """Of the training."""
        return self.row.usd_spot if self.on_spot else self.row.usd_on_demand

    @property
    def mark(self) -> str:
        """Before a figure that is predicted; interruptions always are."""
        return _PREDICTED if self.on_spot or self.row.how is RateSource.PREDICTED else ""


def plan_report(plan: Plan, width: int = 80, folder: str = "") -> Report:
    """Return everything that is shown of a plan; the arguments are those of `plan_answer`."""
    title = f"Plan: {printable(plan.request.source)}"
    return Report(title, (*plan_blocks(plan, width), _next_step(plan, folder)))


def plan_blocks(plan: Plan, width: int = 80) -> tuple[Block, ...]:
    """Return the same without the next command; narrow tables leave ranges and details out."""
    rows = tuple(row for row in plan.rows if row.how is not None and row.obstacle != NO_TORCH_BUILD)
    machines = fitted_table(_table_title(plan, rows), _COLUMNS, rows if len(rows) > 1 else (), width)
    preventing = _preventing(plan)
    return (
        *_answer(plan, width),
        Line(_reasons(plan), is_quiet=True),
        machines,
        Passage("", _below(plan, machines), is_quiet=True),
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
        Line(_more(plan), is_quiet=True, is_apart=True),
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
        fitted_table(_options_title(options), _option_columns(plan), options if plan.choices else (), width),
        Passage("", tuple(text for one in options if (text := _remark(plan, one)))),
    )


def _options(plan: Plan) -> tuple[_Option, ...]:
    """Return what was measured, then every machine that was chosen, once at each of its prices."""
    offer = plan.measured_offer
    is_measured = offer is not None and offer.how is RateSource.MEASURED
    measured = plan.rows.index(offer) if offer is not None and is_measured else 0
    together: dict[tuple[int, bool], list[str]] = {(measured, False): ["measured"]}
    for choice in plan.choices:
        together.setdefault((choice.row, choice.on_spot), []).append(str(choice.kind))
    return tuple(_Option(tuple(names), plan.rows[row], on_spot) for (row, on_spot), names in together.items())


def _measured_text(plan: Plan) -> str:
    """Return what was measured, with what it costs where somebody offers that GPU."""
    own, offer = plan.rows[0], plan.measured_offer
    hours = f"{_range_text(own.hours, hours_text)}, {_epoch(plan, own.hours)} an epoch"
    text = f"Measured on {_gpus_text(own)}: {hours}"
    if offer is None:
        return f"{text}; no price is known."
    stale = ", a stale price" if offer.is_stale else ""
    if offer.how is RateSource.MEASURED:
        return f"{text}, {_range_text(offer.usd_on_demand, usd_text)} on {_name(offer)}{stale}."
    usd = f"{_range_text(offer.usd_on_demand, usd_text)}, predicted"
    return f"{text}; {usd}, on {_name(offer)}, which has fewer CPUs{stale}."


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
    rate = _range_text(asked.rate_samples_per_s, rate_text, " samples/s")
    return printable(
        f"{asked.epochs:,} epochs of {asked.samples_per_epoch:,} samples, from {rate} measured on "
        f"{asked.measured_gpus}x {asked.measured_on} in {asked.precision} ({asked.source})."
    )


def _epoch(plan: Plan, hours: Interval | None) -> str:
    return hours_text(None if hours is None else hours.value / plan.request.epochs)


def _options_title(options: Sequence[_Option]) -> str:
    marks = {
        f"{_PREDICTED} predicted": any(one.mark for one in options),
        f"{_STALE} stale price": any(_is_stale(one) for one in options),
        f"{_MAY_NOT_FIT} may not fit its memory": any(one.row.may_not_fit for one in options),
    }
    legend = ", ".join(mark for mark, is_there in marks.items() if is_there)
    return "What to choose" + (f" ({legend})" if legend else "")


def _is_stale(option: _Option) -> bool:
    is_stale = option.row.is_spot_stale if option.on_spot else option.row.is_stale
    return is_stale and option.usd is not None


def _usd_text(option: _Option) -> str:
    text = _starred(_middle(option.usd, usd_text, option.mark), _is_stale(option))
    return f"{text}spot" if option.on_spot else text


def _option_columns(plan: Plan) -> tuple[Column[_Option], ...]:
    return (
        Column("", lambda one: one.name, is_numeric=False),
        Column("machine", lambda one: _name(one.row), is_numeric=False),
        Column("GPUs", lambda one: _marked_gpus(one.row), is_numeric=False, drop=1),
        Column("epoch", lambda one: _epoch(plan, one.hours), drop=2),
        Column("training", lambda one: _middle(one.hours, hours_text, one.mark)),
        Column(_RANGE, lambda one: _ends(one.hours, hours_text), drop=3, is_optional=True),
        Column("dollars", _usd_text),
        Column(_RANGE, lambda one: _ends(one.usd, usd_text), drop=3, is_optional=True),
        Column(
            "units", lambda one: _limited(one.row, one.row.compute_units, rate_text), drop=4, is_optional=True
        ),
    )


def _remark(plan: Plan, option: _Option) -> str:
    """Return what else there is to know of a machine; nothing where there is nothing."""
    row, asked = option.row, plan.request
    parts = []
    if row.precision is not asked.precision:
        parts.append(f"in {row.precision}")
    if row.sessions is not None and row.sessions.high > 1:
        longest = duration_text(asked.assumptions.max_session_s)
        parts.append(f"{_range_text(row.sessions, _count_text)} sessions of up to {longest}")
    if row.checkpoint_interval_s is not None and (option.on_spot or row.sessions is not None):
        parts.append(f"a checkpoint every {_checkpoint_text(plan, row, row.checkpoint_interval_s)}")
    if row.may_not_fit:
        parts.append("its memory may be too small")
    rate = row.rate_samples_per_s
    if rate is not None and row.is_loader_bound:
        least = "" if asked.loader_samples_per_s_per_cpu is not None else "at least "
        parts.append(f"loader-bound, GPUs {least}{row.gpu_busy:.0%} busy")
    elif rate is not None and row.how is RateSource.PREDICTED and rate.value > asked.rate_samples_per_s.value:
        parts.append(f"its loader has to feed {rate_text(rate.value)} samples/s")
    return printable(f"{option.name}: {'; '.join(parts)}") if parts else ""


def _checkpoint_text(plan: Plan, row: PlanRow, interval_s: float) -> str:
    """Return the time between two checkpoints, in steps where these are known, and in epochs."""
    asked, rate = plan.request, row.rate_samples_per_s
    if rate is None:
        return duration_text(interval_s)
    samples = interval_s * rate.value
    epochs = samples / asked.samples_per_epoch
    counts = [f"{rate_text(epochs) if epochs >= 0.1 else digits_text(epochs, '.1g')} epochs"]
    if asked.samples_per_step is not None:
        # Each GPU keeps its batch.
        steps = samples / asked.samples_per_step * asked.measured_gpus / row.gpus
        counts.insert(0, f"{max(1.0, steps):,.0f} steps")
    return f"{duration_text(interval_s)} ({', '.join(counts)})"


def _reasons(plan: Plan) -> str:
    if not plan.choices:
        return ""
    reasons = "; ".join(f"{choice.kind}: {choice.reason}" for choice in plan.choices)
    return reasons[0].upper() + reasons[1:] + "."


def _more(plan: Plan) -> str:
    """Return what else there is to see, and how."""
    rated = sum(row.how is not None for row in plan.rows) - 1
    notes = [one for one in plan.findings if one is not _preventing(plan)]
    warnings = sum(one.severity is not Severity.INFO for one in notes)
    parts = [
        count_text(rated, "machine") if rated > 0 else "",
        count_text(warnings, "warning") if warnings else "",
        count_text(len(notes) - warnings, "note") if len(notes) > warnings else "",
    ]
    shown = [part for part in parts if part]
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


def _below(plan: Plan, machines: Table) -> tuple[str, ...]:
    lines = []
    if prices := _price_dates(plan.rows):
        lines.append(f"prices seen: {prices}")
    unknown = sum(row.how is None for row in plan.rows)
    if unknown and plan.choices:
        lines.append(f"left out: {count_text(unknown, 'machine')} without a known rate")
    has_ranges = any(row.hours and row.hours.low < row.hours.high for row in plan.rows)
    if machines.rows and has_ranges and _RANGE not in machines.columns:
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
    Column("training", lambda row: _marked(row, row.hours, hours_text)),
    Column(_RANGE, lambda row: _ends(row.hours, hours_text), drop=3, is_optional=True),
    Column(
        "on demand",
        lambda row: _starred(_marked(row, row.usd_on_demand, usd_text), row.is_stale),
        is_optional=True,
    ),
    Column(_RANGE, lambda row: _ends(row.usd_on_demand, usd_text), drop=3, is_optional=True),
    Column(
        "spot",
        lambda row: _starred(_middle(row.usd_spot, usd_text, _PREDICTED), row.is_spot_stale),
        is_optional=True,
    ),
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
    lines += [*_of_loader(plan), *_of_numbers(plan), *plan.model_assumptions, *_of_interruptions(plan)]
    if any(row.usd_on_demand for row in plan.rows):
        lines.append("dollars are for the hours of training: no storage, transfer, set-up or tax")
    if asked.peak_reserved_bytes is not None and any(row.how is RateSource.PREDICTED for row in plan.rows):
        peak = bytes_text(asked.peak_reserved_bytes)
        known = "(--memory-gib)" if asked.peak_is_given else "that were reserved where it was measured"
        lines.append(f"another GPU would need the {peak} of memory {known}")
    return tuple(lines)


def _of_loader(plan: Plan) -> list[str]:
    """Return what was assumed of how much a CPU loads."""
    asked = plan.request
    per_cpu = asked.loader_per_cpu
    if per_cpu is None or all(row.loader_samples_per_s is None for row in plan.rows):
        return []
    if asked.loader_samples_per_s_per_cpu is not None:
        return [
            f"a CPU there loads {_range_text(per_cpu, rate_text, ' samples/s')}, by what a batch costs here"
        ]
    used = count_text((asked.measured_vcpus_per_gpu or 0) * asked.measured_gpus, "CPU")
    whose = ", as its usual machine has," if asked.vcpus_are_assumed else ""
    return [
        f"a CPU loads {rate_text(per_cpu.value)} samples/s, since {used}{whose} fed the measured rate; it "
        "may load more, which a search measures"
    ]


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
        lines.append(f"a spot machine is preempted every {every} on average (--interrupted-every)")
    if has_sessions:
        longest = duration_text(assumed.max_session_s)
        writes = any(row.sessions and row.checkpoint_interval_s for row in plan.rows)
        counted = "; its hours count a checkpoint after every interval" if writes else ""
        lines.append(f"a Colab session lasts {longest} at most (--max-session){counted}")
    return lines
