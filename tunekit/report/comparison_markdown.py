"""A comparison as Markdown for a pull request: under 60 lines, nothing folded away that decides. Pure."""

from collections.abc import Sequence

from tunekit.report.comparison import ComparisonView
from tunekit.report.findings import FindingView
from tunekit.report.markdown_text import as_code, clipped
from tunekit.report.table import Table

MOST_LINES = 59
_CELL_LETTERS = 200
_LINE_LETTERS = 2_000
"""As Markdown; only what is hostile is longer. GitHub takes 65,536 in all."""


def comparison_markdown(shown: ComparisonView) -> str:
    """Return the comparison, its answer first, in at most 59 lines; findings that go beyond are counted."""
    mark = "regression" if shown.has_regression else "no regression"
    runs = "; ".join(f"**{run.name}** {_folder(run.folder)} ({_line(run.told)})" for run in shown.runs)
    lines = [f"### tunekit compare: {mark}", "", f"**{_line(' '.join(shown.answers))}**"]
    if shown.machines:
        lines += ["", _line(" ".join(shown.machines))]
    lines += ["", runs]
    for table in (*shown.tables, shown.time):
        lines += _table(table)
    if shown.changes.lines:
        lines += ["", _line(" ".join(shown.changes.lines))]
    last = ["", f"<sub>{_line(shown.how_compared)}</sub>"]
    lines += _findings(shown, MOST_LINES - len(lines) - len(last))
    return "\n".join([*lines, *last]) + "\n"


def _table(table: Table) -> list[str]:
    return ["", f"**{_line(table.title)}**", "", *_rows(table)]


def _findings(shown: ComparisonView, room: int) -> list[str]:
    lines = [f"- {_line(note.line)}" for note in shown.notes]
    lines += [f"- {_line(_finding_line(finding))}" for finding in shown.findings]
    if not lines:
        return []
    room -= 1
    if len(lines) > room:
        kept = max(0, room - 1)
        lines = [*lines[:kept], f"- and {len(lines) - kept} more: see `tunekit compare`"]
    return ["", *lines]


def _rows(table: Table) -> list[str]:
    """Return titles, alignment and rows; cells that differ from the reference's are bold."""
    align = ["---:" if place in table.numeric else "---" for place in range(len(table.columns))]
    changed = set(table.changed)
    rows = [
        [
            f"**{_cell(cell)}**" if (place, column) in changed else _cell(cell)
            for column, cell in enumerate(row)
        ]
        for place, row in enumerate(table.rows)
    ]
    return [_row([_cell(title) for title in table.columns]), _row(align), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return clipped(text, _CELL_LETTERS)


def _line(text: str) -> str:
    return clipped(text, _LINE_LETTERS)


def _folder(path: str) -> str:
    """Return where a run lies as code; only the end of a long path, which tells runs apart."""
    return as_code(path if len(path) <= _CELL_LETTERS else f"...{path[-_CELL_LETTERS:]}")


def _finding_line(finding: FindingView) -> str:
    return "; ".join((finding.heading, *_unlabelled(finding.details)))


def _unlabelled(details: Sequence[str]) -> list[str]:
    return [detail.removeprefix("seen: ") for detail in details]
