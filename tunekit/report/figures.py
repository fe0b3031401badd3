"""Charts as plotly figures: measured is solid and filled, predicted is hatched, dashed or hollow.

Figures are in colours for light; `DARK_OF` has the colour for dark of each. All texts are escaped: plotly
reads some tags in them, and a target's names and messages are not ours.
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go

from tunekit.plain_text import printable
from tunekit.report.blocks import (
    Basis,
    Chart,
    Drawing,
    HeatCell,
    HeatMap,
    LimitLine,
    Panel,
    Point,
    Series,
    Timeline,
    Trace,
    Window,
)

PALETTE = (
    ("#1f5fbf", "#7fb0ff"),
    ("#b8500f", "#f0a060"),
    ("#2f7d4f", "#76c893"),
    ("#8a3ea8", "#c792e6"),
    ("#a3203a", "#ff8fa3"),
    ("#0f7285", "#5cc9dd"),
    ("#6f6400", "#d4c955"),
    ("#6b6b76", "#a9a9b5"),
)
"""Colours of series, on light and on dark; each stands out 4.5 : 1 from its background."""
INK, GRID = ("#1c1c22", "#e8e8ee"), ("#d5d5dc", "#3a3a46")
"""Text and lines, on light and on dark."""
HEAT = (("#cfe8d8", "#1f4a33"), ("#f7e2b0", "#574312"), ("#f3c0c6", "#66202d"))
"""Cells of a heat map, from best to worst, on light and on dark."""
DARK_OF = dict((*PALETTE, INK, GRID, *HEAT))
"""The colour for dark of every colour that a figure has."""

_ZERO = PALETTE[-1][0]

_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "star", "hexagon", "triangle-down", "pentagon")
_HATCH = "/"
_MOST_LETTERS, _MOST_NAME, _LINE = 200, 60, 52
"""Letters of a hover text, of a name and of a line."""
_DIGITS = 6
_MOST_TICKS = 8
_BAR, _ROW, _MARK, _LEGEND_ROW, _EDGES, _HEIGHT = 66, 44, 14, 21, 96, 400
"""Heights in pixels: of a lying bar with its label, a heat map's row, a mark in it, a legend's row, what is
around, and of every other chart."""
_BAR_WIDTH = 0.42
_LABEL = 42
"""Letters in a line above a bar."""
_PANEL, _PANEL_GAP = 108, 34
"""Pixels of a panel of a timeline, and of what is above it, which has its title."""
_TINT = 0.14
"""Opacity of a window of a timeline."""


def figure(chart: Drawing) -> go.Figure:
    """Return a chart drawn in the colours for light; `DARK_OF` has those for dark."""
    if isinstance(chart, Timeline):
        traces = [
            _timeline_trace(chart, trace, panel, place)
            for place, panel in enumerate(chart.panels)
            for trace in panel.traces
        ]
        return go.Figure(traces).update_layout(_timeline_layout(chart))
    if isinstance(chart, HeatMap):
        return go.Figure([_heat_map(chart)]).update_layout(_heat_layout(chart))
    return go.Figure(_traces(chart)).update_layout(_chart_layout(chart))


def escaped(text: str, most: int = _MOST_LETTERS) -> str:
    """Return text that plotly shows letter by letter: no tag, no entity, no line break, and not too long."""
    short = " ".join(printable(" ".join(text[: most + 1].split())).split())
    if len(text) > most:
        short = f"{short[: most - 3]}..."
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _hover(point: Point) -> str:
    whole = f"{point.text}; {point.note}" if point.note else point.text
    cut = whole if len(whole) <= _MOST_LETTERS else f"{whole[: _MOST_LETTERS - 3]}..."
    return "<br>".join(escaped(line) for line in textwrap.wrap(cut, _LINE))


def _traces(chart: Chart) -> list[Any]:
    # What stands out has the first colours, however many there are.
    ordered = sorted(chart.series, key=lambda one: not one.stands_out)
    names = list(dict.fromkeys(one.name for one in ordered if one.mark != "totals"))
    labels, drawn, traces = _labels(_places(chart)), set(), []
    for series in chart.series:
        if series.mark == "totals":
            continue
        place = names.index(series.name)
        if series.mark == "bars":
            # Parts that are measured in one bar and predicted in another are one entry of the legend.
            is_twice = sum(one.name == series.name for one in chart.series) > 1
            texts = _trace_texts(series, in_hover=is_twice, in_legend=series.name not in drawn)
            traces.append(_bars(chart, series, place, labels, texts))
        else:
            traces.append(_scatter(series, place, labels))
        drawn.add(series.name)
    return traces


def _bars(chart: Chart, series: Series, place: int, labels: dict[str, str], texts: dict[str, Any]) -> Any:
    colour = _colour(place)
    marker: dict[str, Any] = {"color": colour}
    if series.basis is Basis.PREDICTED:
        marker |= {
            "pattern": {"shape": _HATCH, "fgcolor": colour, "fillmode": "replace", "size": 7},
            "line": {"color": colour, "width": 1.5},
        }
    along, across = ("x", "y") if chart.is_horizontal else ("y", "x")
    x, y = _points(series, labels)
    bars = {along: y, across: x, f"error_{along}": _ranges(series)}
    lying = {"orientation": "h", "width": _BAR_WIDTH} if chart.is_horizontal else {}
    return go.Bar(marker=marker, **bars, **lying, **texts)


def _colour(place: int) -> str:
    return PALETTE[place % len(PALETTE)][0]


def _points(series: Series, labels: dict[str, str]) -> tuple[list[float | str], list[float]]:
    places = [labels[point.x] if isinstance(point.x, str) else point.x for point in series.points]
    return places, [_short(point.y) for point in series.points]


def _scatter(series: Series, place: int, labels: dict[str, str]) -> Any:
    is_predicted = series.basis is Basis.PREDICTED
    x, y = _points(series, labels)
    line: dict[str, Any] = {"color": _colour(place), "dash": "dash" if is_predicted else "solid", "width": 2}
    if series.mark == "steps":
        line |= {"shape": "hv"}
    modes = {"line": "lines+markers", "steps": "lines"}
    return go.Scatter(
        x=x,
        y=y,
        mode=modes.get(series.mark, "markers"),
        line=line if series.mark in modes else None,
        marker=None if series.mark == "steps" else _marker(series, place),
        error_y=_ranges(series),
        cliponaxis=False,
        **_trace_texts(series),
    )


def _marker(series: Series, place: int) -> dict[str, Any]:
    """Return crosses for failures, else a symbol of the series' own; hollow where predicted."""
    colour = _colour(place)
    is_predicted = series.basis is Basis.PREDICTED
    symbol = "x" if series.mark == "failures" else _SYMBOLS[(place + place // len(PALETTE)) % len(_SYMBOLS)]
    marker: dict[str, Any] = {"color": colour, "symbol": symbol + "-open" * is_predicted, "size": 8}
    if series.stands_out:
        marker |= {"size": 14, "line": {"color": INK[0], "width": 1.5}}
    elif is_predicted:
        marker |= {"size": 10, "line": {"color": colour, "width": 2}}
    elif series.mark == "points":
        marker |= {"opacity": 0.7}
    return marker


def _trace_texts(series: Series, *, in_hover: bool = False, in_legend: bool = True) -> dict[str, Any]:
    """Return a trace's texts; in_hover is whether its points say what they are, and not its name."""
    name = escaped(series.name, _MOST_NAME)
    whole = name if series.basis is Basis.MEASURED else f"{name} ({series.basis.value})"
    hover = [_hover(point) for point in series.points]
    return {
        "name": name if in_hover else whole,
        "hovertext": [f"{name} ({series.basis.value})<br>{text}" for text in hover] if in_hover else hover,
        "hoverinfo": "text" if in_hover else "name+text",
        "legendgroup": name if in_hover else None,
        "showlegend": in_legend,
    }


def _ranges(series: Series) -> dict[str, Any] | None:
    """Return the 95% ranges of a series as error bars; None where no point has one."""
    if all(point.low is None for point in series.points):
        return None
    above = [0 if point.high is None else _short(point.high - point.y) for point in series.points]
    below = [0 if point.low is None else _short(point.y - point.low) for point in series.points]
    return {
        "type": "data",
        "symmetric": False,
        "array": above,
        "arrayminus": below,
        "color": INK[0],
        "thickness": 1.5,
        "width": 5,
    }


def _heat_map(chart: HeatMap) -> Any:
    colours = [[place / (len(HEAT) - 1), light] for place, (light, _) in enumerate(HEAT)]
    return go.Heatmap(
        x=[escaped(name, _MOST_NAME) for name in chart.columns],
        y=[escaped(name, _MOST_NAME) for name in chart.rows],
        z=[[cell.value for cell in cells] for cells in chart.cells],
        text=[[_in_lines(cell) for cell in cells] for cells in chart.cells],
        texttemplate="%{text}",
        textfont={"color": INK[0], "size": 10},
        hovertext=[[_hover(Point(0, 0, cell.note or cell.text)) for cell in cells] for cells in chart.cells],
        hoverinfo="text",
        zmin=0,
        zmax=1,
        showscale=False,
        colorscale=colours,
        xgap=2,
        ygap=2,
    )


def _in_lines(cell: HeatCell) -> str:
    """Return a cell's text with its last word, and its marks, on lines of their own: cells are narrow."""
    return "<br>".join(escaped(one, _MOST_NAME) for one in (*cell.text.rsplit(" ", 1), *cell.marks) if one)


def _heat_layout(chart: HeatMap) -> dict[str, Any]:
    most_marks = sum(max((len(cell.marks) for cell in cells), default=0) for cells in chart.cells)
    return {
        **_page((_ROW + _MARK * max(0, most_marks - 1)) * len(chart.rows) + _EDGES),
        "xaxis": _axis(chart.x_title, type="category", showgrid=False),
        "yaxis": _axis(chart.y_title, type="category", showgrid=False),
    }


def _chart_layout(chart: Chart) -> dict[str, Any]:
    names = list(dict.fromkeys(_places(chart)))
    entries = len({one.name for one in chart.series if one.mark != "totals"})
    lies = chart.is_horizontal
    height = _BAR * max(2, len(names)) + _EDGES if lies else _HEIGHT
    values = _axis(chart.y_title, zeroline=True, rangemode="tozero")
    limits = [_limit(limit, place, lies) for place, limit in enumerate(chart.limits)]
    return {
        **_page(height + _LEGEND_ROW * entries),
        "barmode": "stack" if chart.is_stacked else "group",
        "xaxis": values if lies else _axis(chart.x_title, **_ticks(chart)),
        "yaxis": _bar_axis(names, bool(chart.limits)) if lies else values,
        "shapes": [line for line, _ in limits],
        "annotations": [*(_bar_labels(chart, names) if lies else ()), *(text for _, text in limits)],
    }


def _page(height: int) -> dict[str, Any]:
    return {
        "template": None,
        "autosize": True,
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": INK[0], "family": "system-ui, sans-serif", "size": 13},
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "namelength": -1},
    }


def _axis(title: str = "", **more: Any) -> dict[str, Any]:
    return {
        "gridcolor": GRID[0],
        "linecolor": GRID[0],
        "zeroline": False,
        "zerolinecolor": _ZERO,
        "automargin": True,
        **({"title": {"text": escaped(title), "standoff": 8}} if title else {}),
        **more,
    }


def _bar_axis(names: Sequence[str], has_limits: bool) -> dict[str, Any]:
    """Return the axis of lying bars, the first on top; their names stand above them, not beside."""
    labels = _labels(names)
    return _axis(
        type="category",
        categoryorder="array",
        categoryarray=[labels[name] for name in names],
        range=[len(names) - 0.6, -1.05 if has_limits else -0.75],
        showticklabels=False,
        showgrid=False,
    )


def _bar_labels(chart: Chart, names: Sequence[str]) -> list[dict[str, Any]]:
    labelled = [one for one in chart.series if one.mark == "totals"]
    if not labelled and len(chart.series) == 1:
        labelled = list(chart.series)
    totals = {p.x: f"{p.text}, {one.basis.value}" for one in labelled for p in one.points}
    return [
        _heading(_bar_label(name, totals.get(name, "")), place - 0.24) | {"align": "left"}
        for place, name in enumerate(names)
    ]


def _heading(text: str, y: float) -> dict[str, Any]:
    """Return a text at the left edge; bold by its font, as plotly.js makes a forbidden style of a tag."""
    font = {"size": 12, "weight": 600}
    at = {"x": 0, "xref": "paper", "xanchor": "left", "y": y, "yanchor": "bottom"}
    return {"text": text, "font": font, **at, "showarrow": False}


def _bar_label(name: str, total: str) -> str:
    between = "  " if len(name) + len(total) < _LABEL else "<br>"
    return f"{escaped(name, _MOST_NAME)}{between if total else ''}{escaped(total, _MOST_NAME)}"


def _limit(limit: LimitLine, place: int, lies: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a limit's line, and its name left of the line's end, below the one before."""
    along, across = ("x", "y") if lies else ("y", "x")
    value = _short(limit.value)
    line = {
        "type": "line",
        f"{along}0": value,
        f"{along}1": value,
        f"{across}0": 0,
        f"{across}1": 1,
        f"{across}ref": "paper",
        "line": {"color": INK[0], "width": 2, "dash": "dot"},
    }
    text = {
        "text": escaped(limit.text),
        along: value,
        across: 1,
        f"{across}ref": "paper",
        "xanchor": "right",
        "yanchor": "top" if lies else "bottom",
        "xshift": -6 if lies else 0,
        "yshift": -16 * place,
        "showarrow": False,
    }
    return line, text


def _ticks(chart: Chart) -> dict[str, Any]:
    """Return the kind of the axis below; batch sizes double, so a logarithmic one has powers of two."""
    places = [point.x for one in chart.series for point in one.points]
    numbers = [place for place in places if not isinstance(place, str)]
    if len(numbers) < len(places):
        return {"type": "category"}
    if not chart.x_is_log:
        return {"type": "linear"}
    doublings = math.log2(max(numbers) / min(numbers)) if numbers and min(numbers) > 0 else 0.0
    step = max(1, math.ceil(doublings / _MOST_TICKS))
    return {"type": "log", "tickmode": "linear", "tick0": 0, "dtick": step * math.log10(2)}


def _places(chart: Chart) -> list[str]:
    """Return the names along the axis in the order of the totals, which every bar has, then of the others."""
    ordered = sorted(chart.series, key=lambda one: one.mark != "totals")
    return [point.x for one in ordered for point in one.points if isinstance(point.x, str)]


def _labels(names: Iterable[str]) -> dict[str, str]:
    """Return each name as it is drawn; two never come out alike, or their bars would be one."""
    labels: dict[str, str] = {}
    for name in names:
        if name in labels:
            continue
        label, count = escaped(name, _MOST_NAME), 1
        while label in labels.values():
            count += 1
            label = f"{escaped(name, _MOST_NAME)} ({count})"
        labels[name] = label
    return labels


# --- figures over a trial's time -------------------------------------------------------------


def _timeline_trace(chart: Timeline, trace: Trace, panel: Panel, place: int) -> Any:
    name, what = escaped(trace.name, _MOST_NAME), escaped(panel.title)
    first = next(one for one in chart.panels if any(each.name == trace.name for each in one.traces))
    return go.Scatter(
        x=[_short(t_s) for t_s in trace.times_s],
        y=[None if value is None else _short(value) for value in trace.values],
        yaxis=f"y{place + 1}",
        mode="lines",
        line={"color": _trial_colour(chart, trace.name), "width": 1.75},
        name=name,
        legendgroup=name,
        showlegend=panel is first,
        hovertemplate=f"{name}: {what} %{{y:.4~g}} at %{{x:.1f}} s<extra></extra>",
    )


def _trial_colour(chart: Timeline, name: str) -> str:
    """Return the first colour for the last config, which the chart is about, and grey for the baseline."""
    place = len(chart.names) - 1 - chart.names.index(name)
    return _colour(-place)


def _timeline_layout(chart: Timeline) -> dict[str, Any]:
    count = len(chart.panels)
    whole = count * (_PANEL + _PANEL_GAP)
    tops = [1 - (place * (_PANEL + _PANEL_GAP) + _PANEL_GAP) / whole for place in range(count)]
    axes = {
        f"yaxis{place + 1}": _axis(rangemode="tozero", domain=[max(0.0, top - _PANEL / whole), top], nticks=4)
        for place, top in enumerate(tops)
    }
    titles = [
        _heading(escaped(panel.title), top) | {"yref": "paper"}
        for panel, top in zip(chart.panels, tops, strict=True)
    ]
    return {
        **_page(whole + _EDGES),
        **axes,
        "xaxis": _axis("seconds since the trial's start", anchor=f"y{count}", rangemode="tozero"),
        "shapes": [_window_shape(chart, one) for one in chart.windows],
        "annotations": titles,
    }


def _window_shape(chart: Timeline, window: Window) -> dict[str, Any]:
    colour = _trial_colour(chart, window.name)
    return {
        "type": "rect",
        "x0": _short(window.start_s),
        "x1": _short(window.end_s),
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "layer": "below",
        "fillcolor": colour,
        "opacity": _TINT,
        "line": {"width": 0},
    }


def _short(value: float) -> float:
    """Return a figure with as many digits as can be seen, so that files stay small."""
    return float(f"{value:.{_DIGITS}g}")
