"""Every number and sentence that a report shows, computed once from the run. Pure.

Terminal, Markdown and HTML draw this view; none of them computes a figure of its own.
"""

from dataclasses import dataclass

from tunekit.plain_text import printable
from tunekit.recommend.largest import largest_line
from tunekit.recommend.loss_guard import guarded_modes, losses_line
from tunekit.records.finding import WORST_FIRST, Severity
from tunekit.records.plan import Plan
from tunekit.records.run import Run
from tunekit.report.answer import (
    answer_text,
    best_recommendation,
    change_lines,
    failure_lines,
    headroom_text,
    how_measured,
    missing_lines,
    price_text,
)
from tunekit.report.ceilings import ceilings_passage
from tunekit.report.charts.chart import Chart, HeatMap
from tunekit.report.charts.charts import charts_of
from tunekit.report.commands import search_again
from tunekit.report.environment import environment_table, method_lines
from tunekit.report.findings import FindingView, finding_view
from tunekit.report.next_steps import next_steps
from tunekit.report.plan import PlanView, view_plan
from tunekit.report.prediction import prediction_passage
from tunekit.report.scaling_table import scaling_table
from tunekit.report.table import Passage, Table
from tunekit.report.telemetry import telemetry_table
from tunekit.report.text import Note
from tunekit.report.tiers_table import short_tiers_table, tiers_table
from tunekit.report.trials_table import TrialTable, trials_table

_WIDE = 160
"""Columns of the plan's table where it can be scrolled."""


@dataclass(frozen=True)
class RunView:
    """What a report shows, in its order."""

    title: str
    """The target and the device, for headings."""
    answer: str
    """The result in one or two sentences."""
    headroom: str
    """What of the memory stays free; empty without a recommendation."""
    price: str
    """What the speed-up does to the price; empty where there is none."""
    how_measured: str
    losses: str
    """What other arithmetic did to the losses, in one line; empty where none was run."""
    largest: str
    """What the data set's largest samples mean for the tiers, in one line; empty where sizes do not vary."""
    changes: tuple[str, ...]
    """What to change, "knob: before -> after"."""
    tiers: Table
    short_tiers: Table
    """The same with a row for each tier."""
    missing_tiers: tuple[str, ...]
    """Why tiers are missing, a line for each reason; none where the answer says it already."""
    ceilings: Passage
    """What holds the rate of the baseline and of the best config; without lines where nothing tells."""
    prediction: Passage
    """What fits the GPU that was asked for; without lines where nothing was predicted."""
    charts: tuple[Chart | HeatMap, ...]
    """Those that there are figures for, in their order."""
    trials: TrialTable
    telemetry: Table
    scaling: Table
    plan: PlanView | None
    """None where nothing can be planned, or nothing was."""
    findings: tuple[FindingView, ...]
    """Of the machine, the loop and the search, the worst first."""
    notes: tuple[Note, ...]
    """What failed."""
    environment: Table
    method: tuple[str, ...]
    """How the figures came about."""
    reproduce: str
    """The command of the same search."""
    next_steps: tuple[str, ...]

    def chart(self, name: str) -> Chart | HeatMap | None:
        """Return a chart by its id; None where there are no figures for it."""
        return next((chart for chart in self.charts if chart.id == name), None)


def view(run: Run, folder: str = "FOLDER", plan: Plan | None = None) -> RunView:
    """Return everything that a report of this run shows.

    Args:
        run: the saved run.
        folder: where it lies, for the commands that come next.
        plan: of the training with the recommended config.
    """
    best = best_recommendation(run)
    return RunView(
        title=printable(f"{run.target.name} on {run.measured_on}"),
        answer=answer_text(run, best),
        headroom=headroom_text(run, best),
        price=price_text(run, best),
        how_measured=how_measured(run, best),
        losses=losses_line(guarded_modes(run.trials)),
        largest=largest_line(run.recommendations),
        changes=change_lines(run, best),
        tiers=tiers_table(run),
        short_tiers=short_tiers_table(run),
        missing_tiers=missing_lines(run),
        ceilings=ceilings_passage(run, best),
        prediction=prediction_passage(run),
        charts=charts_of(run, best),
        trials=trials_table(run),
        telemetry=telemetry_table(run, best),
        scaling=scaling_table(run, best),
        plan=None if plan is None else view_plan(plan, width=_WIDE, every_row=True),
        findings=tuple(
            finding_view(finding)
            for finding in sorted(run.findings, key=lambda one: WORST_FIRST.index(one.severity))
        ),
        notes=tuple(Note(Severity.INFO, line) for line in failure_lines(run)),
        environment=environment_table(run),
        method=method_lines(run),
        reproduce=search_again(run),
        next_steps=next_steps(run, best, folder),
    )
