"""Milestones in words: the choices on one screen; every choice, what pays when and what was assumed. Pure."""

import sys
from collections.abc import Sequence

from tunekit.plain_text import printable
from tunekit.records.interval import Interval
from tunekit.records.milestones import (
    GpuBreakEven,
    Milestone,
    MilestoneOption,
    MilestonePlan,
    Programme,
    RunsWay,
)
from tunekit.records.plan import ChoiceKind, RateSource
from tunekit.report.blocks import WIDE, Block, Column, Lead, Line, Passage, Report, fitted_table
from tunekit.report.plan import (
    PREDICTED_MARK,
    STALE_MARK,
    FigureText,
    checkpoint_text,
    ends_text,
    figure_text,
    machine_name,
    marked_gpus,
    range_text,
    starred,
)
from tunekit.report.text import UNKNOWN
from tunekit.units import (
    count_text,
    digits_text,
    duration_text,
    hours_text,
    percent_text,
    rate_text,
    usd_text,
)

_TITLE = "Milestones"


def milestones_report(plan: MilestonePlan, width: int = 80) -> Report:
    """Return everything that is shown of milestones."""
    room = width if width < WIDE else sys.maxsize
    shown = _distinct(plan.choices or plan.nearest)
    blocks = (
        *_answer(plan, width),
        Passage("Beside each other", _given_up(shown), is_list=True),
        *(_programme_table(plan, one, room) for one in shown),
        fitted_table("Besides the training itself", _PARTS, _with_parts(shown), room),
        fitted_table(
            "Independent runs: an instance with one GPU for each, or one instance with several",
            _OPTION_COLUMNS,
            plan.together,
            room,
        ),
        fitted_table(
            "A faster GPU at a higher price, beside the measured one", _GPUS, plan.gpu_break_evens, room
        ),
        Passage("When it pays", (*_tuning(plan), *map(_gpu_text, plan.gpu_break_evens)), is_list=True),
        Passage("In sessions", _sessions(plan, shown), is_list=True),
        Passage("The milestones", tuple(_milestone_text(plan, one) for one in plan.milestones), is_list=True),
        Passage("Assumed, not measured", _assumptions(plan), is_list=True),
        Passage("Sources", tuple(map(printable, plan.sources)), is_list=True, is_quiet=True),
    )
    return Report(f"{_TITLE}: {printable(plan.request.source)}", blocks)


def milestones_answer(plan: MilestonePlan, width: int = 80) -> tuple[Block, ...]:
    """Return the choices, and the milestones of the one in the middle: one screen."""
    shown = _distinct(plan.choices or plan.nearest)
    balanced = next((one for one in shown if one.kind is ChoiceKind.BALANCED), shown[0])
    return (
        *_answer(plan, width),
        _programme_table(plan, balanced, width),
        Line("" if plan.left_out else _pays(plan)),
        Line("every choice, validation, checkpoints and what was assumed: --full", is_quiet=True),
    )


# --- the answer ------------------------------------------------------------------------------


def _answer(plan: MilestonePlan, width: int) -> tuple[Block, ...]:
    """Return the totals of what stands out, what each gives up, and what the limits leave out."""
    asked, shown = plan.request, _distinct(plan.choices or plan.nearest)
    runs = count_text(sum(one.runs for one in plan.milestones), "run")
    rate = range_text(asked.rate_samples_per_s, rate_text, " samples/s")
    assumed = ", assumed" if asked.precision_is_assumed else ""
    from_rate = f"from {rate} in {asked.precision}{assumed} ({asked.source})"
    return (
        Lead(_without_choice(plan)),
        Line(printable(f"{count_text(len(plan.milestones), 'milestone')}, {runs}, {from_rate}.")),
        fitted_table(_totals_title(plan, shown), _totals(plan, shown), shown, width),
        Passage("", tuple(_left_out(one) for one in plan.left_out) if plan.choices else ()),
    )


def _distinct(programmes: Sequence[Programme]) -> tuple[Programme, ...]:
    """Return the programmes, without one whose machines are all those of an earlier or outer one."""
    order = sorted(programmes, key=lambda one: one.kind is ChoiceKind.BALANCED)
    kept = [one for at, one in enumerate(order) if all(one.options != by.options for by in order[:at])]
    return tuple(one for one in programmes if any(one is by for by in kept))


def _names(plan: MilestonePlan, programme: Programme) -> str:
    """Return what a choice is best at; where nothing holds both limits, which of them it holds."""
    programmes = plan.choices or plan.nearest
    if not plan.choices and programme.usd_over is None and programme.usd is not None:
        return "within the dollars"
    if not plan.choices and programme.hours_over is None and plan.deadline is not None:
        return "by the deadline"
    same = [str(one.kind) for one in programmes if one.options == programme.options]
    ends = [name for name in same if name != ChoiceKind.BALANCED]
    return ", ".join(ends or same)


def _without_choice(plan: MilestonePlan) -> str:
    """Return which limit gives way, and by how much, where nothing holds both."""
    if plan.choices:
        return ""
    limits = " and ".join(
        [f"--max-cost {usd_text(plan.max_usd)}"] * (plan.max_usd is not None)
        + [f"--deadline {plan.deadline}"] * (plan.deadline is not None)
    )
    ways = ", or ".join(_over_text(one) for one in _distinct(plan.nearest))
    return printable(f"Nothing holds {limits}: {ways}.")


def _over_text(one: Programme) -> str:
    over = [f"{hours_text(one.hours_over)} past the deadline"] if one.hours_over else []
    over += [f"{usd_text(one.usd_over)} over the cost"] if one.usd_over else []
    over += ["no price is known"] if one.usd is None else []
    usd = "" if one.usd is None else f", {usd_text(one.usd.value)}"
    return f"{' and '.join(over)} ({hours_text(one.hours.value)}{usd})"


def _left_out(one: Programme) -> str:
    return f"left out: {one.kind}, {_over_text(one)}"


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
        mark = PREDICTED_MARK if any(map(_is_predicted, one.options)) else ""
        return UNKNOWN if interval is None else mark + text(interval.value)

    def usd(one: Programme) -> str:
        return starred(total(one, one.usd, usd_text), any(map(_is_stale, one.options)))

    return (
        Column("", lambda one: _names(plan, one), is_numeric=False),
        Column("hours", lambda one: total(one, one.hours, hours_text)),
        Column("range", lambda one: ends_text(one.hours, hours_text), is_optional=True, is_below=True),
        Column("dollars", usd),
        Column("range", lambda one: ends_text(one.usd, usd_text), is_optional=True, is_below=True),
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
    return fitted_table(title, _OPTION_COLUMNS, one.options, width)


def _marked(option: MilestoneOption, interval: Interval | None, text: FigureText) -> str:
    return figure_text(option.row, interval, text, _is_predicted(option))


def _range(option: MilestoneOption, interval: Interval | None, text: FigureText) -> str:
    return "" if option.row.has_range_only else ends_text(interval, text)


def _usd(option: MilestoneOption) -> str:
    text = starred(_marked(option, option.usd, usd_text), _is_stale(option))
    return f"{text}spot" if option.on_spot else text


def _runs(option: MilestoneOption) -> str:
    """Return how its runs share machines; of those in sessions, which are in turn, their number."""
    if option.sessions is not None:
        return count_text(round(option.sessions.value), "session")
    return "" if option.way is RunsWay.ONE else str(option.way)


def _machine(option: MilestoneOption) -> str:
    times = f"{option.machines}x " if option.machines > 1 else ""
    return times + printable(option.row.instance or machine_name(option.row))


def _gpus(option: MilestoneOption) -> str:
    provider = f"{option.row.provider}, " if option.row.provider else ""
    if option.way is not RunsWay.GPUS:
        return printable(provider) + marked_gpus(option.row)
    return printable(f"{provider}{option.machine_gpus}x {option.row.profile_id}")


def _steps_text(option: MilestoneOption) -> str:
    return "" if option.iterations_per_epoch is None else f"{option.iterations_per_epoch:,} it"


_OPTION_COLUMNS: tuple[Column[MilestoneOption], ...] = (
    Column("milestone", lambda one: printable(one.milestone), is_numeric=False),
    Column("runs", _runs, is_numeric=False, is_below=True),
    Column("machine", _machine, is_numeric=False),
    Column("provider, GPUs", _gpus, is_numeric=False, is_below=True),
    Column("epoch", lambda one: _marked(one, one.epoch_hours, hours_text), drop=1),
    Column("steps", _steps_text, is_below=True, is_optional=True),
    Column("hours", lambda one: _marked(one, one.hours, hours_text)),
    Column("range", lambda one: _range(one, one.hours, hours_text), is_optional=True, is_below=True),
    Column("dollars", _usd),
    Column("range", lambda one: _range(one, one.usd, usd_text), is_optional=True, is_below=True),
)


def _with_parts(programmes: Sequence[Programme]) -> tuple[tuple[ChoiceKind, MilestoneOption], ...]:
    return tuple(
        (one.kind, option)
        for one in programmes
        for option in one.options
        if option.validation_hours is not None or option.checkpoint_hours is not None
    )


_PARTS: tuple[Column[tuple[ChoiceKind, MilestoneOption]], ...] = (
    Column("choice", lambda one: str(one[0]), is_numeric=False),
    Column("milestone", lambda one: printable(one[1].milestone), is_numeric=False, is_below=True),
    Column("validation", lambda one: range_text(one[1].validation_hours, hours_text), is_optional=True),
    Column(
        "dollars",
        lambda one: range_text(one[1].validation_usd, usd_text),
        is_optional=True,
        is_below=True,
    ),
    Column("checkpoints", lambda one: range_text(one[1].checkpoint_hours, hours_text), is_optional=True),
    Column(
        "dollars",
        lambda one: range_text(one[1].checkpoint_usd, usd_text),
        is_optional=True,
        is_below=True,
    ),
)

# --- what pays when --------------------------------------------------------------------------


def _pays(plan: MilestonePlan) -> str:
    """Return the break-evens in a line."""
    parts = []
    if plan.tuning is not None:
        parts.append(f"the search {_epochs_text(plan.tuning.epochs)} of x1")
    if plan.gpu_break_evens:
        best = plan.gpu_break_evens[0]
        gpus = f"{best.row.profile_id} instead of {best.beside.profile_id}"
        parts.append(f"the start of {gpus} {_epochs_text(best.epochs)}")
    return printable(f"Paid back: {'; '.join(parts)}.") if parts else ""


def _epochs_text(epochs: float | None) -> str:
    return "never" if epochs is None else f"after {_number(epochs)} epochs"


def _number(epochs: float) -> str:
    return rate_text(epochs) if epochs >= 0.1 else digits_text(epochs, ".1g")


def _epochs_range(epochs: float | None, low: float | None, high: float | None) -> str:
    """Return epochs with their range, whose high end may be never."""
    ends = [("never" if one is None else _number(one)) for one in (low, high)]
    text = "never" if epochs is None else _number(epochs)
    return text if ends[0] == ends[1] else f"{text} ({ends[0]} to {ends[1]})"


_GPUS: tuple[Column[GpuBreakEven], ...] = (
    Column("machine", lambda one: machine_name(one.row), is_numeric=False),
    Column("GPUs", lambda one: marked_gpus(one.row), is_numeric=False, is_below=True),
    Column("an hour", lambda one: usd_text(one.usd_per_h)),
    Column("an epoch", lambda one: range_text(one.usd_per_epoch, usd_text)),
    Column("its start", lambda one: usd_text(one.start_usd)),
    Column(
        "pays from epoch",
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
        text = f"costs no more than {beside} from {epochs} epochs on, {hours_text(one.hours)} there"
    return f"{machine_name(one.row)}: {text} (predicted)"


def _tuning(plan: MilestonePlan) -> tuple[str, ...]:
    one = plan.tuning
    if one is None:
        return ()
    usd = "" if one.usd_per_h is None else f", {usd_text(one.search_hours * one.usd_per_h)} on its machine"
    speedup = range_text(one.speedup, lambda factor: f"{factor:.2f}x" if factor is not None else UNKNOWN)
    if one.epochs is None:
        return (f"the search took {hours_text(one.search_hours)}{usd}; at {speedup} it saves nothing",)
    saved = range_text(one.saved_hours, hours_text)
    worth = ""
    if one.usd_per_h is not None:
        worth = f", {range_text(one.saved_hours.times(one.usd_per_h), usd_text)}"
    epochs = _epochs_range(one.epochs, one.epochs_low, one.epochs_high)
    return (
        f"the search took {hours_text(one.search_hours)}{usd}; at {speedup} it is paid back after {epochs} "
        f"epochs of x1, and all milestones on that machine would take {saved}{worth} less",
    )


# --- what was asked and assumed --------------------------------------------------------------


def _milestone_text(plan: MilestonePlan, one: Milestone) -> str:
    parts = [
        f"{one.data}, {one.samples_per_epoch:,} samples an epoch",
        count_text(one.epochs, "epoch"),
        count_text(one.runs, "run"),
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


def _sessions(plan: MilestonePlan, shown: Sequence[Programme]) -> tuple[str, ...]:
    """Return how many sessions it takes where they are limited, and how often to write a checkpoint."""
    longest = duration_text(plan.request.assumptions.max_session_s)
    lines = []
    for option in (option for one in shown for option in one.options):
        if option.sessions is not None:
            counted = range_text(option.sessions, lambda count: f"{count or 0:,.0f}")
            every_s = option.row.checkpoint_interval_s
            every = "" if every_s is None else f", a checkpoint every {duration_text(every_s)}"
            where = f"{option.milestone} on {machine_name(option.row)}"
            lines.append(printable(f"{where}: {counted} sessions of up to {longest}{every}"))
    return tuple(dict.fromkeys(lines))


def _option_of(plan: MilestonePlan, one: Milestone) -> MilestoneOption | None:
    shown = plan.choices or plan.nearest
    return next((option for option in shown[0].options if option.milestone == one.name), None)


def _assumptions(plan: MilestonePlan) -> tuple[str, ...]:
    asked = plan.request
    assumed = asked.assumptions
    lines = ["milestones follow one another, and each begins on a machine of its own"]
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
    if plan.deadline_h is not None:
        lines.append(
            f"until the deadline there are {hours_text(plan.deadline_h)}, and training goes on day and night"
        )
    lines.append("limits hold the expected hours and dollars, not the high end of their ranges")
    return tuple(lines)
