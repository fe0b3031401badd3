"""A plan on a terminal: the machines that stand out, then all of them, then what was assumed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from tunekit.records.measurement import Interval
from tunekit.records.plan import Choice, How, Plan, PlanRow
from tunekit.report.table import Table
from tunekit.report.terminal import draw_table, say
from tunekit.report.text import printable
from tunekit.units import bytes_text, duration_text, hours_text, rate_text, usd_text

_SHOWN_ROWS = 15
"""Machines in the table before the rest is only counted."""

_Text = Callable[[float | None], str]
"""How a figure is written."""

_SPOT = "spot"
_RANGE = "range"
_RANGES = 2
"""Columns of that title, beside hours and beside dollars."""

_GAP = 2
"""Spaces between two columns, as `draw_table` puts them."""


@dataclass(frozen=True)
class PlanView:
    """What a plan shows, in its order."""

    answers: tuple[str, ...]
    """A sentence for each machine that stands out."""
    basis: str
    """The training and the rate that everything follows from."""
    reasons: str | None
    """Why these machines stand out."""
    machines: Table
    left_out: tuple[str, ...]
    """What the table does not show, and how to see it."""
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    sources: tuple[str, ...]


class _Column(NamedTuple):
    """One column, and how early it yields on a narrow terminal: 0 stays."""

    title: str
    cells: tuple[str, ...]
    yields: int = 0
    is_numeric: bool = True


def draw_plan(console: Console, shown: PlanView) -> None:
    """Print the view: the answer first."""
    console.print()
    for answer in shown.answers:
        say(console, answer, "bold")
    say(console, shown.basis, "dim")
    if shown.reasons:
        say(console, shown.reasons, "dim")
    console.print()
    draw_table(console, shown.machines)
    for line in shown.left_out:
        say(console, line, "dim")
    for title, lines, style in (
        ("Assumed, not measured", shown.assumptions, ""),
        ("Sources", shown.sources, "dim"),
    ):
        if lines:
            console.print()
            say(console, title, "bold")
            for line in lines:
                _say_indented(console, line, style)
    if shown.notes:
        console.print()
        for note in shown.notes:
            say(console, f"note: {note}", "yellow")


def view_plan(plan: Plan, width: int = 80, every_row: bool = False) -> PlanView:
    """Return everything that is shown of a plan.

    Args:
        plan: the plan.
        width: columns of the terminal; a narrow one leaves ranges and details out.
        every_row: whether the table has every machine, not only the first and the chosen ones.
    """
    rows = plan.rows if every_row else _first_rows(plan)
    machines = _machines(plan, rows, width)
    return PlanView(
        answers=_answers(plan),
        basis=_basis(plan),
        reasons=_reasons(plan),
        machines=machines,
        left_out=_left_out(plan, len(plan.rows) - len(rows), machines),
        assumptions=_assumptions(plan),
        notes=tuple(
            printable("; ".join(part for part in (one.message, one.evidence, one.remedy) if part))
            for one in plan.findings
        ),
        sources=tuple(printable(one) for one in plan.sources),
    )


def _first_rows(plan: Plan) -> tuple[PlanRow, ...]:
    """Return the measured machine, the next ones, and the chosen ones, in the plan's order."""
    chosen = {choice.row for choice in plan.choices}
    return tuple(row for index, row in enumerate(plan.rows) if index <= _SHOWN_ROWS or index in chosen)


def _answers(plan: Plan) -> tuple[str, ...]:
    """Return a sentence per machine that was chosen; a machine that is best at two things is named once."""
    if not plan.choices:
        return (_without_choice(plan),)
    together: dict[tuple[int, bool], list[Choice]] = {}
    for choice in plan.choices:
        together.setdefault((choice.row, choice.on_spot), []).append(choice)
    answers = []
    for (index, on_spot), choices in together.items():
        *first, last = (str(choice.kind) for choice in choices)
        name = f"{', '.join(first)} and {last}".capitalize() if first else last.capitalize()
        answers.append(printable(f"{name}: {_machine_answer(plan, plan.rows[index], on_spot)}"))
    return tuple(answers)


def _without_choice(plan: Plan) -> str:
    own = next((row for row in plan.rows if row.is_measured_machine), None)
    if own is None or own.hours is None:
        return "No machine can be planned for."
    hours = _range_text(own.hours, hours_text, " h")
    return f"Where it was measured ({_gpus_text(own)}): {hours}, measured. No other machine can be priced."


def _machine_answer(plan: Plan, row: PlanRow, on_spot: bool) -> str:
    usd, hours = (row.usd_spot, row.spot_hours) if on_spot else (row.usd_on_demand, row.hours)
    kind = "spot" if on_spot else "on demand"
    how = str(How.PREDICTED) if on_spot else str(row.how)
    as_of, is_stale = (row.spot_as_of, row.is_spot_stale) if on_spot else (row.price_as_of, row.is_stale)
    money = f"{_range_text(usd, usd_text)} {kind}" if usd else "price n/a"
    parts = [f"{money}, {_range_text(hours, hours_text, ' h')}, {how}"]
    if row.precision is not plan.request.precision:
        parts.append(f"in {row.precision}")
    if row.compute_units is not None and not on_spot:
        parts.append(f"{_middle(row.compute_units, rate_text)} compute units")
    if row.sessions is not None and row.sessions.high > 1:
        parts.append(f"in {_range_text(row.sessions, _count_text)} sessions")
    if row.checkpoint_interval_s is not None and (on_spot or row.sessions is not None):
        parts.append(f"a checkpoint every {duration_text(row.checkpoint_interval_s)}")
    if row.loader_may_limit:
        parts.append("its CPUs may not feed it")
    if usd is not None:
        parts.append(f"price of {as_of}" + (", stale" if is_stale else ""))
    return f"{row.provider} {row.instance}, {_gpus_text(row)}: {'; '.join(parts)}."


def _basis(plan: Plan) -> str:
    asked = plan.request
    rate = _range_text(asked.rate_samples_per_s, rate_text, " samples/s")
    return printable(
        f"{asked.epochs:,} epochs of {asked.samples_per_epoch:,} samples, from {rate} measured on "
        f"{asked.measured_gpus}x {asked.measured_on} in {asked.precision} ({asked.source})."
    )


def _reasons(plan: Plan) -> str | None:
    if not plan.choices:
        return None
    reasons = "; ".join(f"{choice.kind}: {choice.reason}" for choice in plan.choices)
    return reasons[0].upper() + reasons[1:] + "."


def _left_out(plan: Plan, hidden: int, machines: Table) -> tuple[str, ...]:
    lines = []
    if hidden:
        more = "1 more machine" if hidden == 1 else f"{hidden} more machines"
        lines.append(f"{more}: --all, or narrow with --only and --provider")
    has_ranges = any(row.hours and row.hours.low < row.hours.high for row in plan.rows)
    if has_ranges and machines.columns.count(_RANGE) < _RANGES:
        lines.append("ranges and details: on a wider terminal, or with --json")
    return tuple(lines)


def _machines(plan: Plan, rows: Sequence[PlanRow], width: int) -> Table:
    columns = _columns(rows)
    while sum(_width_of(one) + _GAP for one in columns) - _GAP > width:
        yielding = max(columns, key=lambda one: one.yields)
        if not yielding.yields:
            break
        columns.remove(yielding)
    days = plan.request.assumptions.stale_after_days
    has_stale = any(
        (row.usd_on_demand and row.is_stale) or (row.usd_spot and row.is_spot_stale) for row in rows
    )
    shown = [one.title for one in columns]
    title = "Machines by expected dollars"
    title += "; spot is predicted" if _SPOT in shown else ""
    title += f" (* price older than {days} days)" if has_stale else ""
    return Table(
        title=title,
        columns=tuple(shown),
        rows=tuple(zip(*(one.cells for one in columns), strict=True)),
        numeric=tuple(index for index, one in enumerate(columns) if one.is_numeric),
    )


def _columns(rows: Sequence[PlanRow]) -> list[_Column]:
    """Return every column that has something to say."""
    columns = [
        _Column("machine", tuple(_name(row) for row in rows), is_numeric=False),
        _Column("GPUs", tuple(_gpus_text(row) for row in rows), is_numeric=False),
        _Column("samples/s", tuple(_middle(row.rate_samples_per_s, rate_text) for row in rows), 7),
        _Column("hours", tuple(_middle(row.hours, hours_text) for row in rows)),
        _Column(_RANGE, tuple(_ends(row.hours, hours_text) for row in rows), 3),
        _Column(
            "on demand", tuple(_starred(_middle(row.usd_on_demand, usd_text), row.is_stale) for row in rows)
        ),
        _Column(_RANGE, tuple(_ends(row.usd_on_demand, usd_text) for row in rows), 2),
        _Column(
            "spot", tuple(_starred(_middle(row.usd_spot, usd_text), row.is_spot_stale) for row in rows), 1
        ),
        _Column("spot range", tuple(_ends(row.usd_spot, usd_text) for row in rows), 8),
        _Column("units", tuple(_middle(row.compute_units, rate_text) for row in rows), 4),
        _Column("sessions", tuple(_middle(row.sessions, _count_text) for row in rows), 5),
        _Column("price of", tuple(row.price_as_of or "" for row in rows), 6, is_numeric=False),
        _Column("fits", tuple(_fits_text(row) for row in rows), 9, is_numeric=False),
        _Column("how", tuple(str(row.how) if row.how else "n/a" for row in rows), is_numeric=False),
    ]
    return [
        one
        for one in columns
        if one.yields == 0 or any(cell.strip() not in ("", "n/a") for cell in one.cells)
    ]


def _width_of(column: _Column) -> int:
    return max(len(column.title), *(len(cell) for cell in column.cells))


def _assumptions(plan: Plan) -> tuple[str, ...]:
    asked, assumed = plan.request, plan.request.assumptions
    lines = []
    if asked.precision_is_assumed:
        lines.append(f"the rate was measured in {asked.precision} (--precision)")
    if any(row.scaling for row in plan.rows):
        lines.append(
            f"on more GPUs each has {assumed.scaling_low:.0%} to {assumed.scaling_high:.0%} of its rate "
            "(--scaling), with the same batch each, and as many epochs do"
        )
    restart = f"a restart takes {duration_text(assumed.restart_cost_s)} (--restart-cost)"
    checkpoint = (
        "the script writes no checkpoints (--no-checkpoints)"
        if assumed.checkpoint_cost_s is None
        else f"the script resumes from checkpoints of {duration_text(assumed.checkpoint_cost_s)} each "
        "(--checkpoint-cost, --no-checkpoints)"
    )
    has_spot = any(row.usd_spot or row.spot_refused for row in plan.rows)
    has_sessions = any(row.sessions for row in plan.rows)
    if has_spot or has_sessions:
        lines += [checkpoint, restart]
    if has_spot:
        every = duration_text(assumed.interrupted_every_s)
        lines.append(f"a spot machine is taken away every {every} on average (--interrupted-every)")
    if has_sessions:
        longest = duration_text(assumed.max_session_s)
        lines.append(f"a Colab session lasts {longest} at most (--max-session)")
    if any(row.usd_on_demand for row in plan.rows):
        lines.append("dollars are for the hours of training: no storage, transfer, set-up or tax")
    if asked.peak_reserved_bytes is not None and any(row.how is How.PREDICTED for row in plan.rows):
        peak = bytes_text(asked.peak_reserved_bytes)
        lines.append(f"another GPU would need the {peak} of memory that were reserved where it was measured")
    return tuple(lines)


def _name(row: PlanRow) -> str:
    if row.is_measured_machine:
        return "(where it was measured)"
    return "(no offer known)" if row.instance is None else printable(f"{row.provider} {row.instance}")


def _gpus_text(row: PlanRow) -> str:
    return printable(f"{row.gpus}x {row.profile_id}")


def _fits_text(row: PlanRow) -> str:
    return "n/a" if row.fits is None else ("yes" if row.fits else "no")


def _middle(interval: Interval | None, text: _Text) -> str:
    return "n/a" if interval is None else text(interval.value)


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
    return "n/a" if count is None else f"{count:,.0f}"


def _starred(text: str, is_stale: bool) -> str:
    """Return a price with its mark, or with the mark's place so that figures stand below each other."""
    if text == "n/a":
        return text + " "
    return text + ("*" if is_stale else " ")


def _say_indented(console: Console, line: str, style: str) -> None:
    """Print a line under its title; its continuation stands further in."""
    for number, part in enumerate(Text(line, style=style).wrap(console, max(20, console.width - 4))):
        part.rstrip()
        console.print(Text("  " if number == 0 else "    ") + part, soft_wrap=True)
