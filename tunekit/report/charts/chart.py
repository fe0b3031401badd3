"""The kinds of chart, and each as a table: what is shown, without how it is drawn. Pure."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from tunekit.report.table import Basis, Table


@dataclass(frozen=True)
class Point:
    """One figure of a series."""

    x: float | str
    """Its place: a number, or the name of a bar."""
    y: float
    text: str
    """The figure with its unit, as every report writes it: "980 samples/s (955 to 1,005)"."""
    low: float | None = None
    high: float | None = None
    """Ends of its 95% range; both None where it has none."""
    note: str = ""
    """What else is known of it, such as the config of a trial."""


@dataclass(frozen=True)
class Series:
    """Figures of one kind."""

    name: str
    basis: Basis
    points: tuple[Point, ...]
    mark: Literal["points", "line", "steps", "bars", "failures", "totals"] = "points"
    """"failures" are places without a figure: drawn as crosses at their y. "steps" hold until the next point.
    "totals" are written above the bars that they sum up."""
    stands_out: bool = False
    """Whether it is what the chart is about: drawn larger, on top of the others."""


@dataclass(frozen=True)
class LimitLine:
    """A value that y is held against."""

    value: float
    text: str
    """What it is, with its figure."""


@dataclass(frozen=True)
class Chart:
    """Series over one axis."""

    id: str
    """Of its element in the page, and its name in `run.figures`."""
    title: str
    summary: str
    """What it shows, in a sentence or two: its text alternative."""
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    x_is_log: bool = False
    is_horizontal: bool = False
    """Whether bars lie: x then holds their names and y their lengths."""
    is_stacked: bool = False
    limits: tuple[LimitLine, ...] = ()
    """Drawn across; the largest is in view, however far it is from the figures."""


@dataclass(frozen=True)
class HeatCell:
    """One cell of a heat map."""

    value: float | None
    """What colours it, from 0 (best) to 1 (worst); None for an empty cell."""
    text: str
    """What stands in it: colour is never the only sign."""
    note: str = ""
    marks: tuple[str, ...] = ()
    """Whose cell it is, below the text."""


@dataclass(frozen=True)
class HeatMap:
    """Figures over two knobs."""

    id: str
    title: str
    summary: str
    x_title: str
    y_title: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: tuple[tuple[HeatCell, ...], ...]
    """A tuple of columns for each row."""
    basis: Basis


def chart_table(chart: Chart | HeatMap) -> Table:
    """Return a chart's figures as a table, for those who can't see it."""
    if isinstance(chart, HeatMap):
        rows = tuple(
            (name, *(_cell_text(cell) for cell in cells))
            for name, cells in zip(chart.rows, chart.cells, strict=True)
        )
        corner = f"{chart.y_title} / {chart.x_title}"
        return Table(chart.title, (corner, *chart.columns), rows, basis=chart.basis)
    rows = tuple(
        (one.name, _place_text(point.x), point.text, one.basis.value, point.note)
        for one in chart.series
        for point in one.points
    )
    columns = ("series", chart.x_title, chart.y_title, "basis", "")
    return Table(chart.title, columns, rows)


def finite(chart: Chart | HeatMap) -> Chart | HeatMap:
    """Return a chart without the points that can't be placed: figures beyond all bounds."""
    if isinstance(chart, HeatMap):
        return chart
    series = tuple(
        replace(one, points=tuple(point for point in one.points if _is_finite(point))) for one in chart.series
    )
    return replace(chart, series=tuple(one for one in series if one.points))


def has_figures(chart: Chart | HeatMap) -> bool:
    """Return whether there is anything to draw."""
    if isinstance(chart, HeatMap):
        return bool(chart.cells)
    return any(one.points for one in chart.series)


def _is_finite(point: Point) -> bool:
    figures = (point.x, point.y, point.low, point.high)
    return all(math.isfinite(one) for one in figures if isinstance(one, int | float))


def _cell_text(cell: HeatCell) -> str:
    return f"{cell.text} (* {', '.join(cell.marks)})" if cell.marks else cell.text


def _place_text(place: float | str) -> str:
    return place if isinstance(place, str) else f"{place:,g}"
