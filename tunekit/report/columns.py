"""Tables that drop their least needed columns until they fit a terminal. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tunekit.report.table import Table
from tunekit.report.text import UNKNOWN

Item = TypeVar("Item")

GAP = 2
"""Blanks between the columns of a drawn table."""


@dataclass(frozen=True)
class Column(Generic[Item]):
    """One figure of every item."""

    title: str
    cell: Callable[[Item], str]
    is_numeric: bool = True
    drop: int = 0
    """When the table is too wide the highest goes first, together with those of the same number; 0 stays."""
    is_optional: bool = False
    """Whether it goes where it has no figure of any item."""


def fitted_table(title: str, columns: Sequence[Column[Item]], items: Sequence[Item], width: int) -> Table:
    """Return the items, a row each, in as many columns as fit.

    Args:
        title: stands above the table.
        columns: in the order in which they are shown.
        items: what the rows are of.
        width: the terminal's, in letters; columns that stay may still exceed it.
    """
    kept = [one for one in columns if not one.is_optional or _has_figures(one, items)]
    table = _table(title, kept, items)
    while _drawn_width(table) > width and (first := max(column.drop for column in kept)):
        kept = [column for column in kept if column.drop != first]
        table = _table(title, kept, items)
    return table


def _has_figures(column: Column[Item], items: Sequence[Item]) -> bool:
    return any(column.cell(item).strip() not in ("", UNKNOWN) for item in items)


def _table(title: str, columns: Sequence[Column[Item]], items: Sequence[Item]) -> Table:
    return Table(
        title,
        tuple(column.title for column in columns),
        tuple(tuple(column.cell(item) for column in columns) for item in items),
        tuple(index for index, column in enumerate(columns) if column.is_numeric),
    )


def _drawn_width(table: Table) -> int:
    widths = [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]
    return sum(widths) + GAP * (len(widths) - 1)
