"""All charts of a run, in the order in which a report shows them. Pure."""

from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.report.charts.chart import Chart, HeatMap, finite, has_figures
from tunekit.report.charts.history import history_chart
from tunekit.report.charts.knobs import knobs_chart
from tunekit.report.charts.loader_ram import loader_ram_map
from tunekit.report.charts.memory import memory_charts
from tunekit.report.charts.throughput import throughput_chart
from tunekit.report.charts.time_breakdown import time_breakdown_chart


def charts_of(run: Run, best: Recommendation | None) -> tuple[Chart | HeatMap, ...]:
    """Return the charts that a run has figures for.

    Args:
        run: the saved run.
        best: the recommendation that the answer speaks of.
    """
    charts: tuple[Chart | HeatMap, ...] = (
        time_breakdown_chart(run, best),
        throughput_chart(run),
        loader_ram_map(run, best),
        *memory_charts(run),
        history_chart(run),
        knobs_chart(run, best),
    )
    return tuple(chart for chart in map(finite, charts) if has_figures(chart))
