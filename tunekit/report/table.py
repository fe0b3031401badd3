"""The parts that reports are made of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Texts in rows and columns; numeric columns are drawn to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()


@dataclass(frozen=True)
class Passage:
    """Sentences under a heading; either may be empty."""

    title: str
    lines: tuple[str, ...]
