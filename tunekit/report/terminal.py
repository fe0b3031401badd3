"""Draws a run's view on a terminal of any width."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tunekit.report.table import Passage, Table
from tunekit.report.view import RunView


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
    say(console, shown.how_measured, "dim")
    if shown.changes:
        console.print()
        say(console, "Change", "bold")
        for change in shown.changes:
            say(console, f"  {change}")
    for table in (shown.tiers, shown.telemetry, shown.scaling):
        if table.rows:
            console.print()
            draw_table(console, table)
    if shown.notes:
        console.print()
        for note in shown.notes:
            say(console, f"note: {note}", "yellow")
    if files:
        console.print()
        say(console, f"Written to {folder}/", "bold")
        say(console, "  " + "  ".join(path.name for path in files))
    console.print()
    say(console, "Next", "bold")
    for step in shown.next_steps:
        console.print(Text(f"  {step}"), soft_wrap=True)


def draw_parts(console: Console, parts: Sequence[Table | Passage]) -> None:
    """Print tables and passages with an empty line before each; a path or an address is never broken."""
    for part in parts:
        console.print()
        if isinstance(part, Table):
            draw_table(console, part)
            continue
        if part.title:
            say(console, part.title, "bold")
        for line in part.lines:
            wrapped = textwrap.fill(
                line, console.width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
            console.print(Text(wrapped), soft_wrap=True)


def say(console: Console, sentence: str, style: str = "") -> None:
    """Print text as it is, wrapped, without spaces at the ends of its lines."""
    for line in Text(sentence, style=style).wrap(console, console.width):
        line.rstrip()
        console.print(line, soft_wrap=True)


def draw_table(console: Console, table: Table) -> None:
    """Print a table with every cell whole: a terminal too narrow for it wraps its lines.

    Columns without titles have no line of titles.
    """
    say(console, table.title, "bold")
    has_titles = any(table.columns)
    rows = (table.columns, *table.rows) if has_titles else table.rows
    widths = [max(len(row[index]) for row in rows) for index in range(len(table.columns))]
    for number, row in enumerate(rows):
        cells = [
            cell.rjust(width) if index in table.numeric else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        console.print(
            Text("  ".join(cells).rstrip(), style="bold" if has_titles and number == 0 else ""),
            soft_wrap=True,
        )
