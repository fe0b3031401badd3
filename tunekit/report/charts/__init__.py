"""All charts of a run, each as a table too: points and bars with their texts, computed once. Pure.

gains  rates  memory   the charts of one subject each
telemetry     what the machine did over a trial's time
trials        the baseline and the tiers, each config once; a point's texts
"""

from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.report.blocks import Chart, Drawing, Table, Timeline
from tunekit.report.charts.gains import knobs_chart, time_breakdown_chart
from tunekit.report.charts.memory import memory_charts
from tunekit.report.charts.rates import history_chart, throughput_chart


def charts_of(run: Run, best: Recommendation | None) -> tuple[Chart, ...]:
    """Return the charts that a run has figures for; `best` is the answering tier."""
    charts: tuple[Chart, ...] = (
        time_breakdown_chart(run, best),
        throughput_chart(run),
        *memory_charts(run),
        history_chart(run),
        knobs_chart(run, best),
    )
    return tuple(chart for chart in charts if any(one.points for one in chart.series))


def chart_table(chart: Drawing) -> Table:
    """Return a chart's figures as a table, for those who can't see it."""
    if isinstance(chart, Timeline):
        return chart.table
    rows = []
    for one in chart.series:
        for point in one.points:
            x = point.x if isinstance(point.x, str) else f"{point.x:,g}"
            rows.append((one.name, x, point.text, one.basis.value, point.note))
    return Table(chart.title, ("series", chart.x_title, chart.y_title, "basis", ""), tuple(rows))
