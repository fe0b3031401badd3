"""A project's milestones in words: one table with its sum. Pure."""

from tunekit.records.interval import Interval
from tunekit.records.milestones import MilestoneCost, MilestonePlan
from tunekit.records.plan import RateSource
from tunekit.report.blocks import Block, Lead, Line, Passage, Report, Table
from tunekit.report.plan_figures import (
    figure_text,
    gpus_text,
    machine_name,
    machine_remarks,
    price_text,
    rate_basis,
    with_legend,
)
from tunekit.units import hours_text, usd_text


def milestones_report(plan: MilestonePlan) -> Report:
    """Return what milestones take and cost."""
    rows = [*map(_row, plan.milestones)]
    is_predicted = any(_is_predicted(one) for one in plan.milestones)
    rows.append(("total", "", "", "", *_figures(plan.hours, plan.usd, is_predicted)))
    columns = ("milestone", "runs", "machine", "GPUs", "hours", "dollars")
    blocks: tuple[Block, ...] = (
        Lead(f"{figure_text(plan.hours, hours_text)} and {figure_text(plan.usd, usd_text)} in total."),
        *map(Lead, _checks(plan)),
        Line(f"At {rate_basis(plan.request)}", is_quiet=True),
        with_legend(Table("Milestones, each on its cheapest machine", columns, tuple(rows), (4, 5))),
        Passage("", _remarks(plan)),
    )
    return Report(f"Milestones: {plan.request.source}", blocks)


def _row(one: MilestoneCost) -> tuple[str, ...]:
    runs = str(one.milestone.runs)
    runs += " at once" if one.machines > 1 else " in turn" if one.milestone.runs > 1 else ""
    machine = machine_name(one.row) + (" spot" if one.on_spot else "")
    figures = _figures(one.hours, one.usd, _is_predicted(one))
    return (one.milestone.name, runs, machine, gpus_text(one.row), *figures)


def _figures(hours: Interval, usd: Interval | None, is_predicted: bool) -> tuple[str, str]:
    return figure_text(hours, hours_text, is_predicted), figure_text(usd, price_text, is_predicted)


def _is_predicted(one: MilestoneCost) -> bool:
    return one.on_spot or one.row.how is RateSource.PREDICTED


def _checks(plan: MilestonePlan) -> list[str]:
    """Return whether the sum holds the limits."""
    lines = []
    if plan.max_usd is not None and plan.usd is not None:
        over = plan.usd.value - plan.max_usd
        by = f"exceeded by {usd_text(over)}" if over > 0 else "met"
        lines.append(f"--max-cost {usd_text(plan.max_usd)}: {by}.")
    if plan.deadline_h is not None:
        over = plan.hours.value - plan.deadline_h
        by = f"exceeded by {hours_text(over)}" if over > 0 else "met"
        lines.append(f"--deadline {plan.deadline}: {by}.")
    return lines


def _remarks(plan: MilestonePlan) -> tuple[str, ...]:
    lines = []
    for one in plan.milestones:
        asked = plan.request.changed(
            samples_per_epoch=one.milestone.samples_per_epoch, epochs=one.milestone.epochs
        )
        if remarks := machine_remarks(asked, one.row, one.on_spot):
            lines.append(f"{one.milestone.name}: {remarks}")
    unpriced = ", ".join(one.milestone.name for one in plan.milestones if one.usd is None)
    return (*lines, *([f"not in the dollars, without a price: {unpriced}"] if unpriced else ()))
