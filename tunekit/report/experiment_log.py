"""A run as an entry in a Markdown log of experiments. Pure."""

import re

from tunekit.recommend.recommendation import answer_of
from tunekit.records.plan import Plan
from tunekit.records.run import Run
from tunekit.report import answer
from tunekit.report.blocks import Commands, Lead, Line, Report
from tunekit.report.markdown import markdown
from tunekit.report.plan import plan_blocks
from tunekit.report.run import shell_lines
from tunekit.report.text import about_text
from tunekit.report.tiers import short_tiers_table

_HEADING = "# Experiment log\n"
_MAX_STEPS = 2
"""Next steps in an entry; more would make it longer than 25 lines."""


def log_entry(run: Run, plan: Plan | None, folder: str) -> str:
    """Return a run's entry: when and where, result with range, config, data check, cost and next steps."""
    best = answer_of(run.recommendations)
    costs = [block.text for block in plan_blocks(plan) if isinstance(block, Lead)][:1] if plan else []
    report = Report(
        f"{run.created_at[:10]}: {run.target.name} on {run.measured_on}",
        (
            answer.answer_lead(run, best),
            short_tiers_table(run),
            answer.changes_of(run, best),
            Line(answer.candidate_text(run, folder)),
            Line(answer.how_measured(run, best)),
            Line(f"{about_text(run)}; tunekit {run.tunekit_version}"),
            *(Line(f"Cost of {run.options.epochs} epochs: {text}") for text in costs),
            Commands("Next", shell_lines(answer.next_steps(run, best, folder)[:_MAX_STEPS])),
        ),
    )
    begin, end = _markers(run)
    return f"{begin}\n{markdown(report)}{end}\n"


def with_entry(log: str, run: Run, entry: str) -> tuple[str, bool]:
    """Return a log with the run's entry, and whether it was appended, not put in place of an earlier one."""
    begin, end = map(re.escape, _markers(run))
    earlier = re.compile(rf"^{begin}\s.*?^{end}\s?", re.MULTILINE | re.DOTALL)
    if earlier.search(log):
        return earlier.sub(lambda _: entry, log), False
    return f"{(log or _HEADING).rstrip()}\n\n{entry}", True


def _markers(run: Run) -> tuple[str, str]:
    return f"<!-- tunekit {run.id} -->", f"<!-- end {run.id} -->"
