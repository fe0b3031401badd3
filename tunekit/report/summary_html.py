"""The answer of a run as a piece of HTML, for a notebook. Pure."""

from tunekit.recommend.recommendation import answer_of
from tunekit.records.run import Run
from tunekit.report import answer
from tunekit.report.blocks import Line, found_blocks
from tunekit.report.html.drawing import fragment
from tunekit.report.tiers import short_tiers_table


def summary_html(run: Run) -> str:
    """Return the answer, what to change, the tiers and the findings; every text is escaped."""
    best = answer_of(run.recommendations)
    return fragment(
        (
            answer.answer_lead(run, best),
            Line(answer.candidate_text(run)),
            Line(answer.headroom_text(run, best)),
            *map(Line, answer.missing_lines(run)),
            answer.changes_of(run, best),
            short_tiers_table(run),
            *found_blocks(run.findings),
            Line(answer.how_measured(run, best)),
        )
    )
