"""Draws views on a terminal of any width."""

from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tunekit.plain_text import printable
from tunekit.records.finding import Severity
from tunekit.report.comparison import ComparisonView
from tunekit.report.findings import FindingView
from tunekit.report.fits import FitsView
from tunekit.report.loop_profile import LoopProfileView
from tunekit.report.plan import PlanView
from tunekit.report.table import Passage, Table
from tunekit.report.text import Note
from tunekit.report.view import RunView

SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: ""}

_LEAST_WIDTH = 20
"""Letters of text in a line, however narrow the terminal."""


def draw(console: Console, shown: RunView, folder: Path, files: Sequence[Path] = ()) -> None:
    """Print the view: the answer first, then its evidence, then files and next steps.

    Args:
        console: where to print.
        shown: what to print.
        folder: the run folder, named in the next steps.
        files: files that were written, by path.
    """
    console.print()
    say(console, shown.answer, "bold")
    for line in (shown.headroom, shown.price):
        if line:
            say(console, line)
    for line in (shown.how_measured, shown.losses, shown.largest):
        if line:
            say(console, line, "dim")
    if shown.changes:
        console.print()
        say(console, "Change", "bold")
        for change in shown.changes:
            say(console, f"  {change}")
    if shown.missing_tiers:
        console.print()
        for line in shown.missing_tiers:
            say(console, line)
    for part in (shown.tiers, shown.ceilings, shown.prediction, shown.telemetry, shown.scaling):
        if part.rows if isinstance(part, Table) else part.lines:
            draw_parts(console, (part,))
    draw_findings(console, shown.findings)
    _draw_notes(console, shown.notes)
    if files:
        console.print()
        say(console, f"Written to {folder}/", "bold")
        hang(console, ", ".join(path.name for path in files), "  ", "  ")
    _draw_next(console, shown.next_steps)


def draw_plan(console: Console, shown: PlanView) -> None:
    """Print a plan: the answer first, then all machines, then what was assumed."""
    console.print()
    for answer in shown.answers:
        say(console, answer, "bold")
    say(console, shown.basis, "dim")
    if shown.reasons:
        say(console, shown.reasons, "dim")
    console.print()
    draw_table(console, shown.machines)
    for line in shown.below:
        hang(console, line, style="dim")
    for title, lines, style in (
        ("Assumed, not measured", shown.assumptions, ""),
        ("Sources", shown.sources, "dim"),
    ):
        if lines:
            console.print()
            say(console, title, "bold")
            for line in lines:
                hang(console, line, "  ", "    ", style)
    _draw_notes(console, shown.notes)


def draw_loop_profile(console: Console, shown: LoopProfileView) -> None:
    """Print a loop profile: the answer, what was compared, the step's time, what holds it back, the rest."""
    console.print()
    for answer in shown.answers:
        say(console, answer, "bold")
    draw_parts(console, shown.comparisons, joins=True)
    draw_parts(console, shown.step, joins=True)
    draw_findings(console, shown.findings)
    draw_parts(console, shown.parts, joins=True)
    _draw_notes(console, shown.notes)
    if shown.how_measured:
        console.print()
        say(console, shown.how_measured, "dim")
    _draw_next(console, shown.next_steps)


def draw_fits(console: Console, shown: FitsView) -> None:
    """Print what fits which GPU: the answer, the table, what it goes by, what is doubtful."""
    console.print()
    say(console, shown.answer, "bold")
    draw_parts(console, shown.parts, joins=True)
    _draw_notes(console, shown.notes)
    _draw_next(console, shown.next_steps)


def draw_comparison(console: Console, shown: ComparisonView) -> None:
    """Print runs side by side: the answers, what was compared, figures, where the time went, doubts."""
    console.print()
    for answer in shown.answers:
        say(console, answer, "bold")
    for line in shown.machines:
        say(console, line)
    console.print()
    for run in shown.runs:
        hang(console, run.line, rest="   ")
    draw_parts(console, (*shown.tables, shown.time, shown.changes), joins=True)
    draw_findings(console, shown.findings)
    _draw_notes(console, shown.notes)
    console.print()
    say(console, shown.how_compared, "dim")


def draw_findings(console: Console, findings: Sequence[FindingView]) -> None:
    """Print findings, each in lines of its own."""
    for finding in findings:
        console.print()
        say(console, finding.heading, SEVERITY_STYLES[finding.severity])
        for detail in finding.details:
            hang(console, detail, "  ", "  ")


def _draw_next(console: Console, steps: Sequence[str]) -> None:
    """Print the commands that come next, each on one line, to be copied."""
    if not steps:
        return
    console.print()
    say(console, "Next", "bold")
    for step in steps:
        console.print(shown_text(f"  {step}"), soft_wrap=True)


def _draw_notes(console: Console, notes: Sequence[Note]) -> None:
    if notes:
        console.print()
    for note in notes:
        say(console, note.line, SEVERITY_STYLES[note.severity])


def draw_parts(console: Console, parts: Sequence[Table | Passage], joins: bool = False) -> None:
    """Print tables and passages with an empty line before each; a path or an address is never broken.

    Args:
        console: where to print.
        parts: in their order.
        joins: a passage without a title belongs to the part above it, so no empty line parts them.
    """
    for part in parts:
        if not (joins and isinstance(part, Passage) and not part.title):
            console.print()
        if isinstance(part, Table):
            draw_table(console, part)
            continue
        if part.title:
            say(console, part.title, "bold")
        for line in part.lines:
            hang(console, line)


def shown_text(text: str, style: str = "") -> Text:
    """Return text for a terminal; all that one is shown passes here, so that nothing in it can steer it."""
    return Text(printable(text), style=style)


def say(console: Console, sentence: str, style: str = "") -> None:
    """Print text as it is, wrapped, without spaces at the ends of its lines."""
    for line in shown_text(sentence, style).wrap(console, console.width):
        line.rstrip()
        console.print(line, soft_wrap=True)


def hang(console: Console, text: str, first: str = "", rest: str = "  ", style: str = "") -> None:
    """Print text whose further lines stand further in; a path or an address is never broken.

    Args:
        console: where to print.
        text: one paragraph.
        first: what its first line begins with: an indent, or a label.
        rest: what every further line begins with.
        style: of the text.
    """
    width = max(console.width, _LEAST_WIDTH + max(len(first), len(rest)))
    for line in _wrapped(printable(text), width, first, rest):
        console.print(shown_text(line, style), soft_wrap=True)


def _wrapped(paragraph: str, width: int, first: str, rest: str) -> list[str]:
    """Return a paragraph's lines by the columns that its letters take: some take two."""
    lines, line, is_empty = [], first, True
    for word in paragraph.split(" "):
        longer = line + word if is_empty else f"{line} {word}"
        if is_empty or cell_len(longer) <= width:
            line, is_empty = longer, False
            continue
        lines.append(line.rstrip())
        line = rest + word
    return [*lines, line.rstrip()]


def draw_table(console: Console, table: Table) -> None:
    """Print a table with every cell whole: a terminal too narrow for it wraps its lines.

    Columns without titles have no line of titles.
    """
    say(console, table.title, "bold")
    has_titles = any(table.columns)
    cells_of = (table.columns, *table.rows) if has_titles else table.rows
    rows = [tuple(printable(cell) for cell in row) for row in cells_of]
    widths = [max(len(row[index]) for row in rows) for index in range(len(table.columns))]
    for number, row in enumerate(rows):
        cells = [
            cell.rjust(width) if index in table.numeric else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        console.print(
            shown_text("  ".join(cells).rstrip(), "bold" if has_titles and number == 0 else ""),
            soft_wrap=True,
        )
