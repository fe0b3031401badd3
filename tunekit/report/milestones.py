"""A project's milestones in words: one table with its sum. Pure."""

from typing import NamedTuple

from tunekit.plain_text import printable
from tunekit.records.interval import Interval
from tunekit.records.milestones import MilestoneCost, MilestonePlan
from tunekit.records.plan import RateSource
from tunekit.report.blocks import Block, Column, Lead, Line, Passage, Report, fitted_table
from tunekit.report.plan_figures import (
    PREDICTED_MARK,
    ends_text,
    figure_text,
    machine_name,
    machine_remarks,
    marked_gpus,
    price_text,
    range_text,
    rate_basis,
)
from tunekit.units import count_text, hours_text, usd_text


class _Line(NamedTuple):
    """One line of the table."""

    name: str
    machine: str
    gpus: str
    runs: str
    hours: Interval
    usd: Interval | None
    is_predicted: bool


def milestones_report(plan: MilestonePlan, width: int = 80) -> Report:
    """Return what milestones take and cost."""
    lines = [_line(one) for one in plan.milestones]
    is_predicted = any(one.is_predicted for one in lines)
    lines.append(_Line("total", "", "", "", plan.hours, plan.usd, is_predicted))
    columns = (
        Column[_Line]("milestone", lambda one: one.name, is_numeric=False),
        Column[_Line]("runs", lambda one: one.runs, is_numeric=False, is_below=True),
        Column[_Line]("machine", lambda one: one.machine, is_numeric=False),
        Column[_Line]("GPUs", lambda one: one.gpus, is_numeric=False, is_below=True),
        Column[_Line]("hours", lambda one: figure_text(one.hours, hours_text, one.is_predicted)),
        Column[_Line]("range", lambda one: ends_text(one.hours, hours_text), is_below=True),
        Column[_Line]("dollars", lambda one: figure_text(one.usd, price_text, one.is_predicted)),
        Column[_Line]("range", lambda one: ends_text(one.usd, price_text), is_below=True),
    )
    legend = f" ({PREDICTED_MARK} predicted)" if is_predicted else ""
    blocks: tuple[Block, ...] = (
        Lead(f"{range_text(plan.hours, hours_text)} and {range_text(plan.usd, usd_text)} in total."),
        *map(Lead, _checks(plan)),
        Line(printable(f"At {rate_basis(plan.request)}"), is_quiet=True),
        fitted_table(f"Milestones, each on its cheapest machine{legend}", columns, lines, width),
        Passage("", _remarks(plan)),
    )
    return Report(f"Milestones: {printable(plan.request.source)}", blocks)


def _line(one: MilestoneCost) -> _Line:
    runs = str(one.milestone.runs)
    runs += " at once" if one.machines > 1 else " in turn" if one.milestone.runs > 1 else ""
    machine = machine_name(one.row) + (" spot" if one.on_spot else "")
    is_predicted = one.on_spot or one.row.how is RateSource.PREDICTED
    name = printable(one.milestone.name)
    return _Line(name, machine, marked_gpus(one.row), runs, one.hours, one.usd, is_predicted)


def _checks(plan: MilestonePlan) -> list[str]:
    """Return whether the sum holds the limits."""
    lines = []
    if plan.max_usd is not None and plan.usd is not None:
        over = plan.usd.value - plan.max_usd
        by = f"exceeded by {usd_text(over)}" if over > 0 else "met"
        lines.append(f"--max-cost {usd_text(plan.max_usd)}: {by}.")
    if plan.deadline_h is not None:
        over = plan.hours.value - plan.deadline_h
        by = f"exceeded by {hours_text(over)}; name faster hardware" if over > 0 else "met"
        lines.append(printable(f"--deadline {plan.deadline}: {by}."))
    return lines


def _remarks(plan: MilestonePlan) -> tuple[str, ...]:
    lines = []
    for one in plan.milestones:
        asked = plan.request.changed(
            samples_per_epoch=one.milestone.samples_per_epoch, epochs=one.milestone.epochs
        )
        if remarks := machine_remarks(asked, one.row, one.on_spot):
            lines.append(printable(f"{one.milestone.name}: {remarks}"))
    unpriced = [one.milestone.name for one in plan.milestones if one.usd is None]
    if unpriced:
        without = count_text(len(unpriced), "milestone")
        lines.append(printable(f"the dollars leave out {without} without a price: {', '.join(unpriced)}"))
    return tuple(lines)
