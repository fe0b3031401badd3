"""Draws a run's view on a terminal of any width."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from tunekit.report.view import RunView, Table


def draw(console: Console, shown: RunView, folder: Path, files: Sequence[Path] = ()) -> None:
    """Print the view: the answer first, then its evidence, then files and next steps.

    Args:
        console: where to print.
        shown: what to print.
        folder: the run folder, named in the next steps.
        files: files that were written, by path.
    """
    console.print()
    console.print(Text(shown.answer, style="bold"))
    console.print(Text(shown.how_measured, style="dim"))
    if shown.changes:
        console.print()
        console.print(Text("Change", style="bold"))
        for change in shown.changes:
            console.print(Text(f"  {change}"))
    for table in (shown.tiers, shown.scaling):
        if table.rows:
            console.print()
            console.print(_rich(table))
    if shown.notes:
        console.print()
        for note in shown.notes:
            console.print(Text(f"note: {note}", style="yellow"))
    if files:
        console.print()
        console.print(Text(f"Written to {folder}/", style="bold"))
        console.print(Text("  " + "  ".join(path.name for path in files)))
    console.print()
    console.print(Text("Next", style="bold"))
    for step in shown.next_steps:
        console.print(Text(f"  {step.replace('FOLDER', str(folder))}"), soft_wrap=True)


def _rich(table: Table) -> RichTable:
    drawn = RichTable(title=table.title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for index, column in enumerate(table.columns):
        right = index in table.numeric
        drawn.add_column(Text(column), justify="right" if right else "left", no_wrap=index == 0)
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn
