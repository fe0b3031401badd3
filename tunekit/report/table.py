"""The parts that reports are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Basis(StrEnum):
    """Where a shown figure comes from."""

    MEASURED = "measured"
    PREDICTED = "predicted"


PREDICTED = "(predicted)"
"""What the label of a predicted row ends in."""


@dataclass(frozen=True)
class Table:
    """Texts in rows and columns; numeric columns are drawn to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()
    basis: Basis | None = None
    """Of its figures, but for `predicted_rows`; None where they are neither."""
    predicted_rows: tuple[int, ...] = ()
    """Rows whose figures are predictions."""
    changed: tuple[tuple[int, int], ...] = ()
    """Cells, by row and column, that differ from the baseline's of their row."""


@dataclass(frozen=True)
class Passage:
    """Sentences under a heading; either may be empty."""

    title: str
    lines: tuple[str, ...]
    basis: Basis | None = None
    """Of its figures, but for those named measured in their line; None where they are neither."""


def changed_cells(rows: Sequence[Sequence[str]]) -> tuple[tuple[int, int], ...]:
    """Return the cells that differ from the first figure of their row, which is that of the reference."""
    return tuple(
        (place, column)
        for place, row in enumerate(rows)
        for column in range(2, len(row))
        if row[column] != row[1]
    )


def predicted_rows(rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Return the rows whose label says that they are predicted."""
    return tuple(place for place, row in enumerate(rows) if row[0].endswith(PREDICTED))
