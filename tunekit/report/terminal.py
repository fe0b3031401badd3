"""Draws blocks on a terminal of any width."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tunekit.plain_text import printable
from tunekit.records.finding import Severity
from tunekit.report.blocks import (
    Block,
    Changes,
    Commands,
    Drawing,
    Facts,
    FoundBlock,
    Lead,
    Line,
    Note,
    Passage,
    Section,
    Table,
    TrialTable,
    has_content,
)

SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: ""}

GAP = 2
"""Spaces between two columns."""
MIN_WIDTH = 20
"""Minimum characters of text in a line, however narrow the terminal."""


def draw(console: Console, blocks: Sequence[Block]) -> None:
    """Print blocks, with an empty line before each that doesn't belong to the one above.

    Charts, and what only a page can show, are left out.
    """
    above: Block | None = None
    shown = (one for one in blocks if not isinstance(one, Drawing | Section))
    for block in filter(has_content, shown):
        if _is_apart(block, above):
            console.print()
        _draw(console, block)
        above = block


def _is_apart(block: Block, above: Block | None) -> bool:
    if above is None:
        return not isinstance(block, Facts)  # a list by itself
    match block:
        case Lead():
            return False
        case Line():
            return block.is_apart
        case Passage(title=""):
            return block.is_apart
        case Note():
            return not isinstance(above, Note)
        case _:
            return True


def _draw(console: Console, block: Block) -> None:
    match block:
        case Lead():
            say(console, block.sentence, "bold")
        case Line():
            say(console, block.text, "dim" if block.is_quiet else "")
        case Changes():
            say(console, "Change", "bold")
            for line in block.lines:
                say(console, f"  {line}")
        case Facts():
            width = max(len(label) for label, _ in block.rows) + GAP
            for label, text in block.rows:
                hang(console, text, label.ljust(width), " " * width)
        case Passage():
            if block.title:
                say(console, block.title, "bold")
            first = "  " if block.is_list else ""
            for line in block.lines:
                hang(console, line, first, f"{first}  ", "dim" if block.is_quiet else "")
        case Table():
            say(console, block.title, "bold")
            _draw_table(console, block.columns, block.rows, block.numeric)
        case TrialTable():
            say(console, block.title, "bold")
            same = f". In all of them: {block.same}" if block.same else ""
            hang(console, f"{block.summary}{same}.")
            _draw_table(console, block.columns, [row.cells for row in block.rows], block.numeric)
        case FoundBlock():
            say(console, block.heading, SEVERITY_STYLES[block.severity])
            for detail in block.details:
                hang(console, detail, "  ", "  ")
        case Note():
            say(console, block.line, SEVERITY_STYLES[block.severity])
        case Commands():
            say(console, block.title, "bold")
            for line in block.lines:
                console.print(shown_text(f"  {line}"), soft_wrap=True)


def shown_text(text: str, style: str = "") -> Text:
    """Return text for a terminal, with escapes made visible; all output passes through here."""
    return Text(printable(text), style=style)


def say(console: Console, sentence: str, style: str = "") -> None:
    """Print text as it is, wrapped, without spaces at the ends of its lines."""
    for line in shown_text(sentence, style).wrap(console, console.width):
        line.rstrip()
        console.print(line, soft_wrap=True)


def hang(console: Console, text: str, first: str = "", rest: str = "  ", style: str = "") -> None:
    """Print a paragraph whose first line begins with an indent or a label, and every other with the rest.

    A path or an address is never broken.
    """
    width = max(console.width, MIN_WIDTH + max(len(first), len(rest)))
    line, is_empty = first, True
    lines = []
    for word in printable(text).split(" "):
        longer = line + word if is_empty else f"{line} {word}"
        if is_empty or cell_len(longer) <= width:  # some letters take two columns
            line, is_empty = longer, False
            continue
        lines.append(line)
        line = rest + word
    for whole in (*lines, line):
        console.print(shown_text(whole.rstrip(), style), soft_wrap=True)


def _draw_table(
    console: Console, titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], numeric: Sequence[int]
) -> None:
    """Print every cell whole; columns that do not fit follow below, with the first column repeated.

    Columns without titles have no header line.
    """
    lines = [tuple(map(printable, row)) for row in ((titles, *rows) if any(titles) else rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    parts: list[list[int]] = [[0]]
    for place, width in enumerate(widths[1:], start=1):
        if len(parts[-1]) > 1 and sum(GAP + widths[one] for one in parts[-1]) + width > console.width:
            parts.append([0])
        parts[-1].append(place)
    for number, part in enumerate(parts):
        if number:
            console.print()
        for row, line in enumerate(lines):
            cells = [
                line[place].rjust(widths[place]) if place in numeric else line[place].ljust(widths[place])
                for place in part
            ]
            style = "bold" if row == 0 and any(titles) else ""
            console.print(shown_text((" " * GAP).join(cells).rstrip(), style), soft_wrap=True)
