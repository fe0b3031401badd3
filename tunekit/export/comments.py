"""Comment lines that nothing in their text can break out of."""

import textwrap
from collections.abc import Sequence

MAX_COLUMNS = 100

_MARK = "# "


def comment(text: str, indent: str = "") -> list[str]:
    """Return the text as comment lines of at most 100 columns; further lines are indented.

    Line breaks, control characters and whatever else can't be printed become spaces: YAML readers refuse
    them even in comments, and a line break would end the comment.
    """
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    lines = textwrap.wrap(
        plain,
        width=MAX_COLUMNS,
        initial_indent=_MARK + indent,
        subsequent_indent=_MARK + indent + "  ",
        break_on_hyphens=False,
    )
    return lines or [_MARK.rstrip()]


def comment_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows under a header as right-aligned comment lines, wrapped where 100 columns are too few."""
    table = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    lines: list[str] = []
    for row in table:
        line = _MARK + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines += [line] if len(line) <= MAX_COLUMNS else comment("  ".join(row))
    return lines
