"""Charts as drawn: what tells measured from predicted, what is escaped, and that nothing is lost."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.report.blocks import (
    Basis,
    Chart,
    LimitLine,
    Panel,
    Point,
    Series,
    Table,
    Timeline,
    Trace,
    Window,
)
from tunekit.report.figures import DARK_OF, GRID, INK, PALETTE, figure

MEASURED, PREDICTED = Basis.MEASURED, Basis.PREDICTED
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    '<a href="javascript:alert(1)">click</a>',
    "<b>bold</b><br>&lt;i&gt;",
    "x" * 10_000,
    "<" * 10_000,
    "\u202eevil\u202c שלום 🎉",
    "%{text} $x^2$",
)
NUMBERS = st.floats(-1e9, 1e9)


def chart(*series: Series, **overrides: Any) -> Chart:
    values = {"id": "c", "title": "T", "summary": "S", "x_title": "x", "y_title": "y", "series": series}
    return Chart(**(values | overrides))


def points(*figures: float) -> tuple[Point, ...]:
    return tuple(Point(x=place, y=figure, text=f"{figure}") for place, figure in enumerate(figures, 1))


def drawn(one: Chart | Timeline) -> dict[str, Any]:
    return json.loads(figure(one).to_json())


def traces(*series: Series, **overrides: Any) -> list[dict[str, Any]]:
    return drawn(chart(*series, **overrides))["data"]


def test_what_is_predicted_is_hatched_dashed_or_hollow_and_says_so():
    bars, lines = (
        traces(Series("a", MEASURED, points(1.0, 2.0), mark), Series("b", PREDICTED, points(1.0, 2.0), mark))
        for mark in ("bars", "line")
    )
    assert [one["marker"].get("pattern", {}).get("shape") for one in bars] == [None, "/"]
    assert [one["line"]["dash"] for one in lines] == ["solid", "dash"]
    assert [one["marker"]["symbol"].endswith("-open") for one in lines] == [False, True]
    assert [one["name"] for one in lines] == ["a", "b (predicted)"]


def test_a_timeline_has_a_panel_for_each_figure_over_one_axis_and_its_windows():
    panels = tuple(
        Panel(title, tuple(Trace(name, (0.0, 1.0), (1.0, None)) for name in ("baseline", "balanced")))
        for title in ("power, W", "CPU, cores")
    )
    windows = (Window("baseline", 0.25, 0.5), Window("balanced", 0.5, 0.75))
    whole = drawn(Timeline("t", "T", "S", ("baseline", "balanced"), panels, windows, Table("T", (), ())))
    layout, lines = whole["layout"], whole["data"]
    assert [one["yaxis"] for one in lines] == ["y", "y", "y2", "y2"]
    assert [one["showlegend"] for one in lines] == [True, True, False, False]
    first, second = layout["yaxis"]["domain"], layout["yaxis2"]["domain"]
    assert first[1] > first[0] > second[1] > second[0] >= 0
    assert [one["text"] for one in layout["annotations"]] == ["power, W", "CPU, cores"]
    assert [(one["x0"], one["x1"]) for one in layout["shapes"]] == [(0.25, 0.5), (0.5, 0.75)]
    assert [one["fillcolor"] for one in layout["shapes"]] == [one["line"]["color"] for one in lines[:2]]


def test_a_part_that_is_both_is_one_entry_and_its_points_say_which():
    first, second = traces(*(Series("a", basis, points(1.0), "bars") for basis in Basis), is_horizontal=True)
    assert (first["showlegend"], second["showlegend"]) == (True, False)
    assert first["marker"]["color"] == second["marker"]["color"]
    assert second["hovertext"] == ["a (predicted): 1.0"]


def test_ranges_are_error_bars():
    point = Point(x=1, y=10.0, text="10 (8 to 13)", low=8.0, high=13.0)
    (trace,) = traces(Series("a", MEASURED, (point, *points(4.0))))
    assert (trace["error_y"]["array"], trace["error_y"]["arrayminus"]) == ([3.0, 0], [2.0, 0])


def test_horizontal_bars_have_their_names_and_totals_above_them_in_order():
    bars = tuple(Point(x=name, y=1.0, text="1 s") for name in ("second", "first"))
    totals = tuple(Point(x=name, y=1.0, text="1 s in all") for name in ("first", "second"))
    whole = drawn(
        chart(
            Series("part", MEASURED, bars, "bars"),
            Series("total", MEASURED, totals, "totals"),
            is_horizontal=True,
        )
    )["layout"]
    labels = [one["text"] for one in whole["annotations"]]
    assert labels == ["first  1 s in all, measured", "second  1 s in all, measured"]
    assert whole["yaxis"]["categoryarray"] == ["first", "second"]
    assert whole["barmode"] == "stack"


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in texts_in(one)]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_names_come_out_as_text_and_are_cut(hostile):
    point = Point(x=hostile, y=1.0, text=hostile, note=hostile)
    shown = [
        chart(
            Series(hostile, MEASURED, (point,), "bars"),
            Series("total", MEASURED, (point,), "totals"),
            x_title=hostile,
            y_title=hostile,
            is_horizontal=True,
            limits=(LimitLine(2.0, hostile),),
        ),
        chart(Series(hostile, PREDICTED, points(1.0)), x_title=hostile),
    ]
    for one in shown:
        for text in texts_in(drawn(one)):
            assert not set("<>") & set(text.replace("<br>", ""))
            assert len(text) < 1600
        # Nothing of the page's own script can end in it.
        assert "</script" not in figure(one).to_json()


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.booleans())
def test_every_point_of_a_chart_is_in_its_figure(figures, lies):
    (trace,) = traces(Series("a", MEASURED, points(*figures), "bars" if lies else "line"), is_horizontal=lies)
    assert trace["x" if lies else "y"] == pytest.approx(figures, rel=1e-5)
    assert len(trace["hovertext"]) == len(figures)


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_series_and_texts_stand_out_from_light_and_from_dark():
    for light, dark in (*PALETTE, INK):
        assert contrast(light, "#ffffff") >= 4.5
        assert contrast(dark, "#16161c") >= 4.5


def test_every_colour_of_a_figure_has_one_for_dark():
    assert len(DARK_OF) == len(PALETTE) + len({INK, GRID})
    bars = Series("a", PREDICTED, points(1.0), "bars")
    marked = Series("b", MEASURED, points(1.0), stands_out=True)
    drawn_in = re.findall(r"#[0-9a-f]{6}", figure(chart(bars, marked)).to_json())
    assert set(drawn_in) <= set(DARK_OF)
