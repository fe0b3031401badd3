"""Milestones in words: the choices on one screen; every choice, what pays when and what was assumed. Pure."""

from collections.abc import Callable, Iterable, Sequence

from tunekit.plain_text import printable
from tunekit.records.interval import Interval
from tunekit.records.milestones import (
    GpuBreakEven,
    HardwareKind,
    Milestone,
    MilestoneOption,
    MilestonePlan,
    Programme,
    RunsWay,
)
from tunekit.records.plan import ChoiceKind, PlanRow, RateSource
from tunekit.report.blocks import (
    Block,
    Column,
    Item,
    Lead,
    Line,
    Passage,
    Report,
    Table,
    fitted_table,
    note_of,
)
from tunekit.report.plan_figures import (
    MAY_NOT_FIT_MARK,
    PREDICTED_MARK,
    STALE_MARK,
    FigureText,
    checkpoint_text,
    counted,
    ends_text,
    few_text,
    figure_text,
    machine_name,
    marked_gpus,
    price_text,
    purchase_text,
    range_text,
    remarks,
    starred,
    whole_text,
)
from tunekit.report.text import UNKNOWN
from tunekit.units import (
    count_text,
    duration_text,
    hours_text,
    percent_text,
    rate_text,
    usd_text,
)

_Part = tuple[ChoiceKind, MilestoneOption]
"""An option, and the choice that it is of."""

_CostOf = Callable[[MilestoneOption], tuple[Interval | None, Interval | None]]
"""What returns the hours and the dollars of a part of an option; None for each where there is none of it."""

_TITLE = "Milestones"
_PAGE = 120
"""Letters in a row of a table that a page of 1,200 pixels shows whole."""
_NAMES = (60, 16, 12)
"""Letters that milestones' names may have in a table; fewer where it is too wide otherwise."""


def milestones_report(plan: MilestonePlan, width: int = 80) -> Report:
    """Return everything that is shown of milestones."""
    room = min(width, _PAGE)
    shown = _distinct(plan.choices or plan.nearest)
    parts = _with_parts(shown)
    blocks = (
        Lead(_headline(shown) if plan.choices else ""),
        *_answer(plan, width),
        Line(_quota(plan), is_quiet=True),
        Passage("Beside each other", _given_up(shown), is_list=True),
        *(_programme_table(plan, one, room) for one in shown),
        _with_names(_PARTS_TITLE, _part_columns(parts), 1, lambda one: one[1], parts, room),
        _options_table(
            plan,
            "Independent runs: an instance with one GPU for each, or one instance with several",
            plan.together,
            room,
        ),
        fitted_table(_gpus_title(plan.gpu_break_evens), _GPUS, plan.gpu_break_evens, room),
        Passage("When it pays", (*_tuning(plan), *map(_gpu_text, plan.gpu_break_evens)), is_list=True),
        Passage("The machines", _machines(plan, shown), is_list=True),
        Passage("The milestones", tuple(_milestone_text(plan, one) for one in plan.milestones), is_list=True),
        Passage("Assumed, not measured", _assumptions(plan), is_list=True),
        Passage("Sources", tuple(map(printable, plan.sources)), is_list=True, is_quiet=True),
        *map(note_of, plan.findings),
    )
    return Report(f"{_TITLE}: {printable(plan.request.source)}", blocks)


def milestones_answer(plan: MilestonePlan, width: int = 80) -> tuple[Block, ...]:
    """Return the choices, and the milestones of the one in the middle: one screen."""
    shown = _distinct(plan.choices or plan.nearest)
    balanced = next((one for one in shown if one.kind is ChoiceKind.BALANCED), shown[0])
    more = [*counted(plan.findings), "every choice"]
    return (
        *_answer(plan, width),
        _programme_table(plan, balanced, width),
        Line("" if plan.left_out else _pays(plan)),
        Line("" if plan.left_out else _quota(plan), is_quiet=True),
        Line(f"{', '.join(more)} and what was assumed: --full, or --html FILE", is_quiet=True),
    )


# --- the answer ------------------------------------------------------------------------------


def _answer(plan: MilestonePlan, width: int) -> tuple[Block, ...]:
    """Return the totals of what stands out, what each gives up, and what the limits leave out."""
    asked, shown = plan.request, _distinct(plan.choices or plan.nearest)
    runs = count_text(sum(one.runs for one in plan.milestones), "run")
    rate = range_text(asked.rate_samples_per_s, rate_text, " samples/s")
    assumed = ", assumed" if asked.precision_is_assumed else ""
    from_rate = f"from {rate} in {asked.precision}{assumed} ({asked.source})"
    below = _left_out(plan.left_out) if plan.choices else ()
    return (
        Lead(_without_choice(plan)),
        Line(printable(f"{count_text(len(plan.milestones), 'milestone')}, {runs}, {from_rate}.")),
        _totals_table(plan, shown, width),
        Passage("", (*below, *_doubts(plan, shown))),
        Line(_unpriced(shown)),
        Line(_borrowed_epochs(plan), is_quiet=True),
    )


def _distinct(programmes: Sequence[Programme]) -> tuple[Programme, ...]:
    """Return the programmes, without one whose machines are all those of an earlier or outer one."""
    order = sorted(programmes, key=lambda one: one.kind is ChoiceKind.BALANCED)
    kept = [one for at, one in enumerate(order) if all(one.options != by.options for by in order[:at])]
    return tuple(one for one in programmes if any(one is by for by in kept))


def _names(plan: MilestonePlan, programme: Programme) -> str:
    """Return what a choice is best at; where nothing holds the limits, which of them it holds."""
    if not plan.choices:
        return _nearest_name(plan, programme)
    same = [one.kind for one in plan.choices if one.options == programme.options]
    ends = [kind for kind in same if kind is not ChoiceKind.BALANCED]
    return ", ".join(f"{kind}{_within(plan, kind)}" for kind in ends or same)


def _nearest_name(plan: MilestonePlan, programme: Programme) -> str:
    if plan.max_usd is not None and programme.usd_over is None and programme.usd is not None:
        return "within the dollars"
    if plan.deadline is not None and programme.hours_over is None:
        return "by the deadline"
    return ", ".join(one.kind for one in plan.nearest if one.options == programme.options)


def _within(plan: MilestonePlan, kind: ChoiceKind) -> str:
    """Return which limits keep another way from being this choice."""
    out = next((one for one in plan.left_out if one.kind is kind), None)
    if out is None:
        return ""
    if out.hours_over and out.usd_over:
        return " in both"
    return " in time" if out.hours_over else " in budget"


def _without_choice(plan: MilestonePlan) -> str:
    """Return which limit gives way, and by how much, where nothing holds both."""
    if plan.choices:
        return ""
    limits = " and ".join(flag for _, _, flag in _limits(plan))
    ways = ", or ".join(_over_text(one) for one in _distinct(plan.nearest))
    return printable(f"Nothing holds {limits}: {ways}.")


def _limits(plan: MilestonePlan) -> tuple[tuple[str, float, str], ...]:
    """Return what limits there are: the field of what they hold, their value, and the flag as given."""
    usd, hours = plan.max_usd, plan.deadline_h
    limits = (("usd", usd, f"--max-cost {usd_text(usd)}"), ("hours", hours, f"--deadline {plan.deadline}"))
    return tuple((field, most, flag) for field, most, flag in limits if most is not None)


def _doubts(plan: MilestonePlan, shown: Sequence[Programme]) -> tuple[str, ...]:
    """Return which choices hold a limit by the expected figure, and not to the end of the range."""
    lines = []
    for field, most, flag in _limits(plan) if plan.choices else ():
        names = []
        for one in shown:
            figure: Interval | None = getattr(one, field)
            if figure is not None and figure.high > most:
                names.append(_names(plan, one))
        if names:
            lines.append(f"may go beyond {flag}: {'; '.join(names)}")
    return tuple(map(printable, lines))


def _unpriced(shown: Sequence[Programme]) -> str:
    """Return which milestones the dollars leave out, and what would say theirs."""
    names = dict.fromkeys(option.milestone for one in shown for option in one.options if option.usd is None)
    if not names:
        return ""
    return printable(
        f"Dollars without {', '.join(names)}: the machine of the rate has no price; say it with "
        "--here-cost-per-hour USD."
    )


def _borrowed_epochs(plan: MilestonePlan) -> str:
    """Return which milestones have no epochs of their own, and whose they take."""
    of = {one.name: one for one in plan.milestones if one.epochs_from}
    if not of:
        return ""
    first = next(iter(of.values()))
    epochs = count_text(first.epochs, "epoch")
    whose, takes = ("its own", "it takes") if len(of) == 1 else ("their own", "they take")
    names = ", ".join(of)
    return printable(f"Without epochs of {whose}: {names}; {takes} {epochs} ({first.epochs_from}).")


def _quota(plan: MilestonePlan) -> str:
    """Return which machines are left out, and why."""
    names = ", ".join(plan.with_quota)
    return printable(f"Left out: {names}, whose weekly quota all runs would share.") if names else ""


def _over_text(one: Programme) -> str:
    over = [f"{hours_text(one.hours_over)} past the deadline"] if one.hours_over else []
    over += [f"{usd_text(one.usd_over)} over the cost"] if one.usd_over else []
    over += ["no price is known"] if one.usd is None else []
    usd = "" if one.usd is None else f", {usd_text(one.usd.value)}"
    return f"{' and '.join(over)} ({hours_text(one.hours.value)}{usd})"


def _left_out(programmes: Sequence[Programme]) -> tuple[str, ...]:
    """Return what would stand out but for the limits, each way once."""
    kinds: dict[str, list[str]] = {}
    for one in programmes:
        kinds.setdefault(_over_text(one), []).append(one.kind)
    return tuple(f"left out: {', '.join(names)}, {over}" for over, names in kinds.items())


def _headline(programmes: Sequence[Programme]) -> str:
    """Return what each choice comes to, such as "cheapest: ~$85.13, ~92.4 h; fastest: ~$343, ~7.16 h."."""
    totals = []
    for one in programmes:
        about = "~" if any(map(_is_predicted, one.options)) else ""
        usd = "no price is known" if one.usd is None else f"{about}{usd_text(one.usd.value)}"
        totals.append(f"{one.kind}: {usd}, {about}{hours_text(one.hours.value)}")
    return f"{'; '.join(totals)}.".capitalize()


def _given_up(programmes: Sequence[Programme]) -> tuple[str, ...]:
    """Return what each choice takes and costs more than each other that is shown."""
    kinds = {one.kind for one in programmes}
    lines = []
    for one in programmes:
        parts = []
        for beside in one.given_up:
            more = [hours_text(beside.hours_more)] if beside.hours_more > 0 else []
            more += [usd_text(beside.usd_more)] if beside.usd_more and beside.usd_more > 0 else []
            if more and beside.beside in kinds:
                parts.append(f"{' and '.join(more)} more than the {beside.beside}")
        if parts:
            lines.append(f"{one.kind}: {', '.join(parts)}")
    return tuple(lines)


def _is_predicted(option: MilestoneOption) -> bool:
    return option.on_spot or option.row.how is RateSource.PREDICTED


def _is_stale(option: MilestoneOption) -> bool:
    return option.row.is_spot_stale if option.on_spot else option.row.is_stale


def _totals_table(plan: MilestonePlan, shown: Sequence[Programme], width: int) -> Table:
    """Return the totals, without what each gives up where that alone would take them a second line each."""
    title, columns = _totals_title(plan, shown), _totals(plan, shown)
    table, short = (fitted_table(title, some, shown, width) for some in (columns, columns[:-1]))
    return short if table.is_stacked and not short.is_stacked else table


def _totals_title(plan: MilestonePlan, shown: Sequence[Programme]) -> str:
    title = "What to choose" if plan.choices else "What comes nearest"
    options = [option for one in shown for option in one.options]
    return f"{title}, all milestones one after another{_legend(options)}"


def _legend(options: Sequence[MilestoneOption]) -> str:
    marks = {
        f"{PREDICTED_MARK} predicted": any(map(_is_predicted, options)),
        f"{STALE_MARK} old price": any(map(_is_stale, options)),
    }
    legend = ", ".join(mark for mark, is_there in marks.items() if is_there)
    return f" ({legend})" if legend else ""


def _totals(plan: MilestonePlan, shown: Sequence[Programme]) -> tuple[Column[Programme], ...]:
    def total(one: Programme, interval: Interval | None, text: FigureText) -> str:
        return figure_text(interval, text, any(map(_is_predicted, one.options)))

    def usd(one: Programme) -> str:
        return starred(total(one, one.usd, price_text), any(map(_is_stale, one.options)))

    return (
        Column("", lambda one: _names(plan, one), is_numeric=False),
        Column("hours", lambda one: total(one, one.hours, hours_text)),
        Column("range", lambda one: ends_text(one.hours, hours_text), is_optional=True, is_below=True),
        Column("dollars", usd),
        Column("range", lambda one: ends_text(one.usd, price_text), is_optional=True, is_below=True),
        Column("gives up", lambda one: _beside_best(one, shown), is_optional=True),
    )


def _beside_best(one: Programme, shown: Sequence[Programme]) -> str:
    """Return its hours beyond the fastest's, and its dollars beyond the cheapest's."""
    hours = one.hours.value - min(other.hours.value for other in shown)
    usd = 0.0
    if one.usd is not None:
        usd = one.usd.value - min(other.usd.value for other in shown if other.usd is not None)
    more = [hours_text(hours)] if hours > 0 else []
    return ", ".join(more + ([usd_text(usd)] if usd > 0 else []))


# --- a choice, milestone by milestone --------------------------------------------------------


def _programme_table(plan: MilestonePlan, one: Programme, width: int) -> Block:
    title = f"Milestone by milestone: {_names(plan, one)}"
    return _options_table(plan, title, one.options, width)


def _marked(option: MilestoneOption, interval: Interval | None, text: FigureText) -> str:
    return figure_text(interval, text, _is_predicted(option))


def _usd(option: MilestoneOption) -> str:
    text = starred(_marked(option, option.usd, price_text), _is_stale(option))
    return f"{text}spot" if option.on_spot else text


def _runs(option: MilestoneOption) -> str:
    """Return how its runs share machines; of those in sessions, which are in turn, their number."""
    if option.sessions is not None:
        return count_text(round(option.sessions.value), "session")
    return "" if option.way is RunsWay.ONE else str(option.way)


def _machine(option: MilestoneOption) -> str:
    times = f"{option.machines}x " if option.machines > 1 else ""
    return times + printable(option.row.instance or machine_name(option.row))


def _gpus(plan: MilestonePlan, option: MilestoneOption) -> str:
    """Return whose GPUs they are, their number and model, and the precision where it is another."""
    row = option.row
    provider = f"{row.provider}, " if row.provider else ""
    other = f" {row.precision}" if row.precision is not plan.request.precision else ""
    return printable(provider) + marked_gpus(row, option.machine_gpus) + other


def _steps_text(option: MilestoneOption) -> str:
    return "" if option.iterations_per_epoch is None else f"{option.iterations_per_epoch:,} it"


def _options_table(plan: MilestonePlan, title: str, options: Sequence[MilestoneOption], width: int) -> Table:
    doubted = _memory_legend(one.row for one in options)
    return _with_names(title + doubted, _option_columns(plan), 0, lambda one: one, options, width)


def _memory_legend(rows: Iterable[PlanRow]) -> str:
    return f" ({MAY_NOT_FIT_MARK} may not fit its memory)" if any(row.may_not_fit for row in rows) else ""


def _with_names(
    title: str,
    columns: tuple[Column[Item], ...],
    place: int,
    option: Callable[[Item], MilestoneOption],
    items: Sequence[Item],
    width: int,
) -> Table:
    """Return a table with as much of the milestones' names, in that place, as there is room for."""

    def table(most: int) -> Table:
        def name(one: Item) -> str:
            text = printable(option(one).milestone)
            return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"

        named = Column("milestone", name, is_numeric=False, is_below=place > 0)
        return fitted_table(title, (*columns[:place], named, *columns[place:]), items, width)

    tables = [table(most) for most in _NAMES]
    return next((one for one in tables if one.width <= width), tables[-1])


def _option_columns(plan: MilestonePlan) -> tuple[Column[MilestoneOption], ...]:
    return (
        Column("runs", _runs, is_numeric=False, is_below=True),
        Column("machine", _machine, is_numeric=False),
        Column("provider, GPUs", lambda one: _gpus(plan, one), is_numeric=False, is_below=True),
        Column("epoch", lambda one: _marked(one, one.epoch_hours, hours_text), drop=1),
        Column("steps", _steps_text, is_below=True, is_optional=True),
        Column("hours", lambda one: _marked(one, one.hours, hours_text)),
        Column("range", lambda one: ends_text(one.hours, hours_text), is_optional=True, is_below=True),
        Column("dollars", _usd),
        Column("range", lambda one: ends_text(one.usd, price_text), is_optional=True, is_below=True),
    )


def _with_parts(programmes: Sequence[Programme]) -> tuple[_Part, ...]:
    return tuple(
        (one.kind, option)
        for one in programmes
        for option in one.options
        if option.validation_hours is not None or option.checkpoint_hours is not None
    )


def _part(hours: Interval | None, interval: Interval | None, text: FigureText) -> str:
    """Return what a part takes; a dash where there is none of it."""
    return "-" if hours is None else range_text(interval, text)


_PARTS_TITLE = "Validation and checkpoints, counted above (machine hours of all runs)"


def _part_columns(parts: Sequence[_Part]) -> tuple[Column[_Part], ...]:
    """Return the columns of what any of the parts has."""
    columns: list[Column[_Part]] = [Column("choice", lambda one: str(one[0]), is_numeric=False)]
    if any(one.validation_hours for _, one in parts):
        columns += _cost("validation", lambda one: (one.validation_hours, one.validation_usd))
    if any(one.checkpoint_hours for _, one in parts):
        columns += _cost("checkpoints", lambda one: (one.checkpoint_hours, one.checkpoint_usd))
    return tuple(columns)


def _cost(name: str, cost_of: _CostOf) -> tuple[Column[_Part], Column[_Part]]:
    """Return the columns of one part: its hours, and the dollars below them."""

    def hours(part: _Part) -> str:
        spent, _ = cost_of(part[1])
        return _part(spent, spent, hours_text)

    def dollars(part: _Part) -> str:
        spent, usd = cost_of(part[1])
        return _part(spent, usd, usd_text)

    return Column(name, hours), Column("dollars", dollars, is_below=True)


# --- what pays when --------------------------------------------------------------------------


def _pays(plan: MilestonePlan) -> str:
    """Return the break-evens in a line."""
    parts = []
    if plan.tuning is not None:
        of = " of x1" if plan.tuning.epochs is not None else ""
        parts.append(f"the search, {_after(plan.tuning.hours, plan.tuning.epochs)}{of}")
    if plan.gpu_break_evens:
        best = plan.gpu_break_evens[0]
        gpus = f"{best.row.profile_id} instead of {best.beside.profile_id}"
        parts.append(f"the start of {gpus}, {_after(best.hours, best.epochs)}")
    return printable(f"Paid back: {'; '.join(parts)}.") if parts else ""


def _after(hours: float | None, epochs: float | None) -> str:
    """Return after how much training something is paid back."""
    if hours is None or epochs is None:
        return "never"
    return f"after {hours_text(hours)} of training, {few_text(epochs)} epochs"


def _epochs_range(epochs: float | None, low: float | None, high: float | None) -> str:
    """Return epochs with their range, whose high end may be never."""
    ends = [("never" if one is None else few_text(one)) for one in (low, high)]
    text = "never" if epochs is None else few_text(epochs)
    return text if ends[0] == ends[1] else f"{text} ({ends[0]} to {ends[1]})"


def _gpus_title(pays: Sequence[GpuBreakEven]) -> str:
    return f"A faster GPU at a higher price, beside the measured one{_memory_legend(one.row for one in pays)}"


_GPUS: tuple[Column[GpuBreakEven], ...] = (
    Column("machine", lambda one: machine_name(one.row), is_numeric=False),
    Column("GPUs", lambda one: marked_gpus(one.row), is_numeric=False, is_below=True),
    Column("an hour", lambda one: usd_text(one.usd_per_h)),
    Column("its start", lambda one: usd_text(one.start_usd), is_below=True),
    Column("an epoch", lambda one: usd_text(one.usd_per_epoch.value)),
    Column("range", lambda one: ends_text(one.usd_per_epoch, usd_text), is_optional=True, is_below=True),
    Column("pays after", lambda one: "never" if one.hours is None else hours_text(one.hours)),
    Column(
        "in epochs",
        lambda one: _epochs_range(one.epochs, one.epochs_low, one.epochs_high),
        is_below=True,
    ),
)


def _gpu_text(one: GpuBreakEven) -> str:
    beside = f"{machine_name(one.beside)} at {usd_text(one.beside_usd_per_h)} an hour"
    if one.epochs is None:
        epoch = usd_text(one.beside_usd_per_epoch.value)
        text = f"never: an epoch costs {usd_text(one.usd_per_epoch.value)} there, and {epoch} on {beside}"
    else:
        epochs = _epochs_range(one.epochs, one.epochs_low, one.epochs_high)
        text = f"costs no more than {beside} after {hours_text(one.hours)} there, {epochs} epochs"
    return f"{machine_name(one.row)}: {text} (predicted)"


def _tuning(plan: MilestonePlan) -> tuple[str, ...]:
    one = plan.tuning
    if one is None:
        return ()
    usd = "" if one.usd_per_h is None else f", {usd_text(one.search_hours * one.usd_per_h)} on its machine"
    speedup = range_text(one.speedup, lambda factor: f"{factor:.2f}x" if factor is not None else UNKNOWN)
    if one.epochs is None:
        return (f"the search took {hours_text(one.search_hours)}{usd}; at {speedup} it saves nothing",)
    saved = [_saved(one.saved_hours, hours_text)]
    if one.usd_per_h is not None:
        saved.append(_saved(one.saved_hours.times(one.usd_per_h), usd_text))
    epochs = _epochs_range(one.epochs, one.epochs_low, one.epochs_high)
    return (
        f"the search took {hours_text(one.search_hours)}{usd}; at {speedup} it is paid back after "
        f"{hours_text(one.hours)} of training, {epochs} epochs of x1, and all milestones on that machine "
        f"would take {', '.join(saved)}",
    )


def _saved(interval: Interval, text: FigureText) -> str:
    """Return how much less something is; of a range that goes below nothing, how much more it may be."""
    if interval.low >= 0:
        return f"{range_text(interval, text)} less"
    return f"{text(interval.value)} less ({text(-interval.low)} more to {text(interval.high)} less)"


# --- what was asked and assumed --------------------------------------------------------------


def _hardware(one: Milestone) -> list[str]:
    """Return what a milestone asks to run on."""
    if one.hardware is None:
        return []
    typed = f" ({one.hardware.typed})" if one.hardware.typed else ""
    here = ", where the rate was measured" if one.hardware.kind is HardwareKind.MEASURED else ""
    return [f"on {one.hardware.name}{typed}{here}"]


def _milestone_text(plan: MilestonePlan, one: Milestone) -> str:
    multiple = "" if one.data.endswith("samples") else f"{one.data}, "
    parts = [
        f"{multiple}{one.samples_per_epoch:,} samples an epoch",
        count_text(one.epochs, "epoch") + (f" ({one.epochs_from})" if one.epochs_from else ""),
        count_text(one.runs, "run"),
        *_hardware(one),
    ]
    if one.validation_share:
        parts.append(f"validation {percent_text(one.validation_share)} of the training's time")
    if one.checkpoint_every_s is not None:
        every = f"a checkpoint every {duration_text(one.checkpoint_every_s)} of work"
        option = _option_of(plan, one)
        if option is not None:
            machine_request = plan.request.changed(samples_per_epoch=one.samples_per_epoch)
            counted = checkpoint_text(machine_request, option.row, one.checkpoint_every_s)
            every = f"a checkpoint every {counted} on {machine_name(option.row)}"
        parts.append(every)
    return printable(f"{one.name}: {'; '.join(parts)}")


def _machines(plan: MilestonePlan, shown: Sequence[Programme]) -> tuple[str, ...]:
    """Return what else there is to know of the machines of the choices."""
    of = {one.name: one for one in plan.milestones}
    named: dict[tuple[str, str], dict[str, None]] = {}
    for option in (option for one in shown for option in one.options):
        row, one, parts = option.row, of[option.milestone], []
        if row.precision is not plan.request.precision:
            parts.append(f"in {row.precision}")
        if option.sessions is not None and option.sessions.high > 1:
            counts = range_text(option.sessions, whole_text)
            parts.append(f"{counts} sessions of up to {duration_text(row.max_session_s)}")
        if row.checkpoint_interval_s is not None and (option.sessions is not None or option.on_spot):
            of_it = plan.request.changed(samples_per_epoch=one.samples_per_epoch)
            parts.append(f"a checkpoint every {checkpoint_text(of_it, row, row.checkpoint_interval_s)}")
        if bought := purchase_text(_of_runs(row, one.runs)):
            parts.append(bought)
        parts += remarks(plan.request, row, option.on_spot)
        if parts:
            machine = machine_name(row) + (" spot" if option.on_spot else "")
            named.setdefault((machine, "; ".join(parts)), {})[one.name] = None
    return tuple(
        printable(f"{', '.join(names)} on {machine}: {text}") for (machine, text), names in named.items()
    )


def _of_runs(row: PlanRow, runs: int) -> PlanRow:
    """Return a notebook's row with the compute units of all runs."""
    units, usd = row.compute_units, row.usd_of_units
    return row.changed(
        compute_units=units.times(runs) if units else None, usd_of_units=usd.times(runs) if usd else None
    )


def _option_of(plan: MilestonePlan, one: Milestone) -> MilestoneOption | None:
    shown = plan.choices or plan.nearest
    return next((option for option in shown[0].options if option.milestone == one.name), None)


def _assumptions(plan: MilestonePlan) -> tuple[str, ...]:
    asked = plan.request
    assumed = asked.assumptions
    lines = [
        "milestones follow one another, and each begins on a machine of its own; what is done within an hour "
        "is as fast as can be"
    ]
    if asked.samples_per_step is not None:
        lines.append(
            f"steps are of {asked.samples_per_step:,} samples on {count_text(asked.measured_gpus, 'GPU')}, "
            "and of as many for each GPU elsewhere; an epoch's last, partial batch "
            + ("is left out (drop_last)" if plan.drops_last else "counts (no drop_last)")
        )
    if any(one.runs > 1 for one in plan.milestones):
        lines.append(
            "independent runs: at once, an instance each, where the provider gives as many (instances: N is "
            "fewer); in turn on a notebook service; or a GPU each of one instance, paid until the last is "
            "done"
        )
    if any(one.validation_share for one in plan.milestones):
        lines.append("validation takes the same share of the training's time on every machine")
    if any(one.checkpoint_every_s for one in plan.milestones):
        cost = duration_text(assumed.checkpoint_cost_s)
        lines.append(f"a checkpoint takes {cost} (--checkpoint-cost), and training waits for it")
    if plan.gpu_break_evens:
        own = ", and a search as long as this one on a GPU that was not searched on" if plan.tuning else ""
        lines.append(f"a machine's start takes {duration_text(assumed.restart_cost_s)} (--restart-cost){own}")
    if any(one.row.purchase or one.beside.purchase for one in plan.gpu_break_evens):
        lines.append("compute units count at what they are worth where it says what pays, not by the pack")
    if plan.deadline_h is not None:
        lines.append(
            f"until the deadline there are {hours_text(plan.deadline_h)}, and training goes on day and night"
        )
    if any(option.row.purchases for one in plan.choices for option in one.options):
        lines.append(
            "compute units are bought for all runs of a milestone together; what is left over may serve the "
            "next"
        )
    lines.append("limits hold the expected hours and dollars, not the high end of their ranges")
    return tuple(lines)
