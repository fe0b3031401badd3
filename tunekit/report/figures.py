"""Charts as plotly figures: measured is solid and filled, predicted is hatched, dashed or hollow.

Figures are in colours for light; `DARK_OF` has the colour for dark of each. All texts are escaped: plotly
reads some tags in them, and a target's names and messages are not ours.
"""

import math
import textwrap
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tunekit.plain_text import printable
from tunekit.report.blocks import Basis, Chart, Drawing, Series, Timeline

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
DARK_OF = dict((*PALETTE, INK, GRID))
"""The colour for dark of every colour that a figure has."""

_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "star", "hexagon", "triangle-down", "pentagon")
_MAX_LETTERS, _LINE = 200, 52
"""Letters of a text, and of a line of a hover text."""
_BAR, _LEGEND_ROW, _EDGES, _HEIGHT = 66, 21, 96, 400
"""Heights in pixels: a horizontal bar with its label, a legend row, the margins, and any other chart."""
_LABEL = 42
"""Letters in a line above a bar."""
_PANEL, _PANEL_GAP = 108, 34
"""Pixels of a timeline's panel, and of the gap above it with its title."""
_HEADING = {
    "font": {"size": 12, "weight": 600},
    "x": 0,
    "xref": "paper",
    "xanchor": "left",
    "showarrow": False,
}
"""A bold font: plotly.js turns a tag into an inline style, which the page's policy forbids."""


def figure(chart: Drawing) -> go.Figure:
    """Return a chart drawn in the colours for light; `DARK_OF` has those for dark."""
    if isinstance(chart, Timeline):
        return _timeline(chart)
    drawn = go.Figure(_traces(chart)).update_layout(_chart_layout(chart))
    for place, limit in enumerate(chart.limits):
        look = {"color": INK[0], "width": 2, "dash": "dot"}
        text = {
            "text": escaped(limit.text),
            "xanchor": "right",
            "yanchor": "top",
            "xshift": -6,
            "yshift": -16 * place,
        }
        drawn.add_vline(_short(limit.value), line=look, annotation=text)
    return drawn


def escaped(text: str) -> str:
    """Return text that plotly shows literally: no tag, entity or line break, and not too long."""
    return _cut(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str) -> str:
    shown = printable(" ".join(text[: _MAX_LETTERS + 1].split()))
    return shown if len(text) <= _MAX_LETTERS else f"{shown[: _MAX_LETTERS - 3]}..."


def _hover(text: str) -> str:
    return "<br>".join(map(escaped, textwrap.wrap(_cut(text), _LINE)))


def _colour(place: int) -> str:
    return PALETTE[place % len(PALETTE)][0]


def _short(value: float) -> float:
    """Return a figure with as many digits as can be seen, so that files stay small."""
    return float(f"{value:.6g}")


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
    titled = {"title": {"text": escaped(title), "standoff": 8}} if title else {}
    lines = {"gridcolor": GRID[0], "linecolor": GRID[0], "zerolinecolor": PALETTE[-1][0]}
    return {**lines, "zeroline": False, "automargin": True, **titled, **more}


# --- series ----------------------------------------------------------------------------------


def _traces(chart: Chart) -> list[Any]:
    shown = [one for one in chart.series if one.mark != "totals"]
    # What stands out has the first colours, however many there are.
    names = list(dict.fromkeys(one.name for one in sorted(shown, key=lambda one: not one.stands_out)))
    traces = []
    for series in shown:
        # Parts that are measured in one bar and predicted in another are one entry of the legend.
        same = [one for one in shown if one.name == series.name]
        name, is_predicted = escaped(series.name), all(one.basis is Basis.PREDICTED for one in same)
        head = f"{series.name} ({series.basis}): "
        texts = {
            "name": f"{name} ({series.basis})" if is_predicted else name,
            "legendgroup": name,
            "showlegend": same[0] is series,
            "hovertext": [
                _hover(head + "; ".join(filter(None, (point.text, point.note)))) for point in series.points
            ],
            "hoverinfo": "text",
        }
        draw = _bars if series.mark == "bars" else _scatter
        traces.append(draw(series, names.index(series.name), texts))
    return traces


def _bars(series: Series, place: int, texts: dict[str, Any]) -> Any:
    colour = _colour(place)
    marker: dict[str, Any] = {"color": colour}
    if series.basis is Basis.PREDICTED:
        marker["pattern"] = {"shape": "/", "fgcolor": colour, "fillmode": "replace", "size": 7}
        marker["line"] = {"color": colour, "width": 1.5}
    return go.Bar(
        x=[_short(point.y) for point in series.points],
        y=[escaped(str(point.x)) for point in series.points],
        error_x=_ranges(series),
        orientation="h",
        width=0.42,
        marker=marker,
        **texts,
    )


def _scatter(series: Series, place: int, texts: dict[str, Any]) -> Any:
    dash = "dash" if series.basis is Basis.PREDICTED else "solid"
    shape = "hv" if series.mark == "steps" else "linear"
    modes = {"line": "lines+markers", "steps": "lines"}
    return go.Scatter(
        x=[point.x for point in series.points],
        y=[_short(point.y) for point in series.points],
        mode=modes.get(series.mark, "markers"),
        line={"color": _colour(place), "dash": dash, "shape": shape, "width": 2},
        marker=_marker(series, place),
        error_y=_ranges(series),
        cliponaxis=False,
        **texts,
    )


def _marker(series: Series, place: int) -> dict[str, Any]:
    """Return crosses for failures, else a symbol for each series; hollow where predicted."""
    colour, is_predicted = _colour(place), series.basis is Basis.PREDICTED
    symbol = "x" if series.mark == "failures" else _SYMBOLS[(place + place // len(PALETTE)) % len(_SYMBOLS)]
    marker: dict[str, Any] = {"color": colour, "symbol": symbol + "-open" * is_predicted, "size": 9}
    if series.stands_out:
        marker |= {"size": 14, "line": {"color": INK[0], "width": 1.5}}
    return marker


def _ranges(series: Series) -> dict[str, Any] | None:
    """Return the 95% ranges of a series as error bars; None where no point has one."""
    if all(point.low is None for point in series.points):
        return None
    return {
        "symmetric": False,
        "array": [0 if point.high is None else _short(point.high - point.y) for point in series.points],
        "arrayminus": [0 if point.low is None else _short(point.y - point.low) for point in series.points],
        "color": INK[0],
        "thickness": 1.5,
        "width": 5,
    }


def _chart_layout(chart: Chart) -> dict[str, Any]:
    entries = len({one.name for one in chart.series if one.mark != "totals"})
    values = _axis(chart.y_title, zeroline=True, rangemode="tozero")
    if not chart.is_horizontal:
        # Batch sizes double.
        ticks = {"type": "log", "dtick": math.log10(2)} if chart.x_is_log else {"type": "linear"}
        return {
            **_page(_HEIGHT + _LEGEND_ROW * entries),
            "xaxis": _axis(chart.x_title, **ticks),
            "yaxis": values,
        }
    totals = [one for one in chart.series if one.mark == "totals"] or chart.series[:1]
    labels = {str(p.x): f"{p.text}, {one.basis}" for one in totals for p in one.points}
    return {
        **_page(_BAR * max(2, len(labels)) + _EDGES + _LEGEND_ROW * entries),
        "barmode": "stack",
        "xaxis": values,
        # The first bar is on top; names are above the bars, not at the left.
        "yaxis": _axis(
            type="category",
            categoryorder="array",
            categoryarray=[*map(escaped, labels)],
            range=[len(labels) - 0.6, -1.05 if chart.limits else -0.75],
            showticklabels=False,
            showgrid=False,
        ),
        "annotations": _bar_labels(labels),
    }


def _bar_labels(labels: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            **_HEADING,
            "text": f"{escaped(name)}{'  ' if len(name + total) < _LABEL else '<br>'}{escaped(total)}",
            "align": "left",
            "y": place - 0.24,
            "yanchor": "bottom",
        }
        for place, (name, total) in enumerate(labels.items())
    ]


# --- figures over a trial's time -----------------------------------------------


def _timeline(chart: Timeline) -> go.Figure:
    """Return stacked panels over one axis; the last config, the answer's, has the first colour."""
    count = len(chart.panels)
    height = count * (_PANEL + _PANEL_GAP)
    colours = {name: _colour(-place) for place, name in enumerate(reversed(chart.names))}
    titles = [escaped(panel.title) for panel in chart.panels]
    drawn = make_subplots(
        rows=count, shared_xaxes=True, subplot_titles=titles, vertical_spacing=_PANEL_GAP / height
    )
    named = set()
    for row, panel in enumerate(chart.panels, 1):
        for trace in panel.traces:
            name = escaped(trace.name)
            line = go.Scatter(
                x=[*map(_short, trace.times_s)],
                y=[None if value is None else _short(value) for value in trace.values],
                mode="lines",
                line={"color": colours[trace.name], "width": 1.75},
                name=name,
                legendgroup=name,
                showlegend=name not in named,
                hovertemplate=f"{name}: {titles[row - 1]} %{{y:.4~g}} at %{{x:.1f}} s<extra></extra>",
            )
            drawn.add_trace(line, row=row, col=1)
            named.add(name)
    for one in chart.windows:
        window = {"x0": _short(one.start_s), "x1": _short(one.end_s), "y0": 0, "y1": 1, "yref": "paper"}
        drawn.add_shape(**window, layer="below", fillcolor=colours[one.name], opacity=0.14, line={"width": 0})
    drawn.update_annotations(**_HEADING)
    drawn.update_xaxes(**_axis(rangemode="tozero"))
    drawn.update_xaxes(title=_axis(f"seconds since the {chart.of}'s start")["title"], row=count)
    drawn.update_yaxes(**_axis(rangemode="tozero", nticks=4))
    return drawn.update_layout(_page(height + _EDGES), legend_y=1 + _PANEL_GAP / height)
