"""Charts as the page's script draws them, and as tables for those who can't see them. Pure."""

from dataclasses import dataclass

from tunekit.report.charts.chart import Chart, HeatMap, chart_table
from tunekit.report.figures import DARK_OF, figure
from tunekit.report.html.embedded import escaped_json, script_json
from tunekit.report.table import Table


@dataclass(frozen=True)
class Drawing:
    """One chart in the page."""

    id: str
    title: str
    summary: str
    figure_json: str
    """For plotly.js, in the colours for light."""
    table: Table
    is_broad: bool
    """Whether its texts are cut in less than half a screen's width."""


def drawing(chart: Chart | HeatMap) -> Drawing:
    """Return a chart as the page has it."""
    return Drawing(
        id=chart.id,
        title=chart.title,
        summary=chart.summary,
        figure_json=figure(chart).to_json(),
        table=chart_table(chart),
        is_broad=isinstance(chart, HeatMap) or chart.is_horizontal,
    )


def drawings_json(drawings: tuple[Drawing, ...]) -> str:
    """Return all charts with the colour for dark of each, for the script element that holds them."""
    figures = ",".join(f"{script_json(one.id)}:{escaped_json(one.figure_json)}" for one in drawings)
    return f'{{"darkOf":{script_json(DARK_OF)},"figures":{{{figures}}}}}'
