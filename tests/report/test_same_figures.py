"""Figures of any size in the report of a search."""

import re
from collections.abc import Iterator

from any_records import absurd_runs
from hypothesis import given
from read_report import ReadRun, drawn, view

from tunekit.plan.from_run import plan_of_run
from tunekit.records.run import Run
from tunekit.report.blocks import Table
from tunekit.report.markdown import markdown
from tunekit.report.run import in_comment, on_page


def sentences(shown: ReadRun) -> Iterator[str]:
    yield from (shown.answer, shown.headroom, shown.how_measured, *shown.changes)
    yield from (*shown.missing_tiers, *shown.bottleneck.lines)


def cells(table: Table) -> Iterator[str]:
    yield from (cell.strip() for row in (table.columns, *table.rows) for cell in row)


def terminal_text(of: Run) -> str:
    return drawn(on_page(of, "reports/train").blocks, 400)


@given(absurd_runs())
def test_figures_of_any_size_are_written_in_few_letters(absurd: Run):
    shown = view(absurd, "reports/train", plan_of_run(absurd))
    text = terminal_text(absurd)
    assert markdown(in_comment(absurd))
    told = [*sentences(shown), *cells(shown.tiers), *cells(shown.telemetry), text]
    told += [cell for row in shown.trials.rows for cell in row.cells]
    told += [text for block in shown.section("plan") for text in getattr(block, "lines", ())]
    for one in told:
        assert not re.search(r"\b(inf|nan)\b", one)
        assert not re.search(r"\d{22}|(\d{3},){6}", re.sub(r" --[a-z-]+ \d+", "", one))  # as it was typed
