"""All charts of a run: their order, and whatever the run holds."""

from any_records import runs
from build_records import (
    run,
    trial_record,
)
from hypothesis import given

from tunekit.recommend.recommendation import answer_of
from tunekit.records.run import Run
from tunekit.report.blocks import Chart
from tunekit.report.charts import chart_table, charts_of


def of(whole: Run) -> tuple[Chart, ...]:
    return charts_of(whole, answer_of(whole.recommendations))


def test_a_run_without_figures_has_no_charts():
    assert of(run(trials=())) == ()
    failed = of(run(trials=(trial_record(0, None),)))
    assert [one.id for one in failed] == ["throughput", "history"]


@given(runs())
def test_whatever_a_run_holds_its_charts_have_figures_and_their_tables(whole):
    for chart in of(whole):
        assert chart.title
        assert chart.summary
        assert chart_table(chart).rows
        points = [point for one in chart.series for point in one.points]
        assert all(p.low <= p.y <= p.high for p in points if p.low is not None)
