"""What each knob is worth, as a bar with its range."""

import pytest
from build_records import config, interval, recommendation, run

from tunekit.records.interval import Interval
from tunekit.records.recommendation import KnobGain, ModelSummary
from tunekit.report.blocks import Basis
from tunekit.report.charts.charts import has_figures
from tunekit.report.charts.gains import knobs_chart

WORTHS = (
    KnobGain(knob="num_workers", before=2, after=4, factor=interval(1.2, 0.05)),
    KnobGain(knob="compile", before=False, after=True, factor=interval(1.5, 0.1)),
    KnobGain(knob="pin_memory", before=False, after=True, factor=Interval(value=0.98, low=0.9, high=1.07)),
)


def test_the_knob_that_brings_most_comes_first():
    best = recommendation(of=config(num_workers=4))
    model = ModelSummary(limits=(), missed_relative=None, checked_configs=None, knobs=WORTHS)
    chart = knobs_chart(run(model=model, recommendations=(best,)), best)
    (worth,) = chart.series
    assert worth.basis is Basis.PREDICTED
    assert [point.x for point in worth.points] == [
        "compile: off -> on",
        "num_workers: 2 -> 4",
        "pin_memory: off -> on",
    ]
    first = worth.points[0]
    assert first.text == "1.50x (1.35 to 1.65)"
    assert (first.low, first.y, first.high) == pytest.approx((35.0, 50.0, 65.0))
    assert worth.points[2].y == pytest.approx(-2.0)
    assert "num_workers: 2 -> 4 1.20x (1.14 to 1.26)" in chart.summary


def test_a_run_that_was_not_explained_has_no_such_chart():
    best = recommendation()
    assert not has_figures(knobs_chart(run(model=None), best))
    model = ModelSummary(limits=(), missed_relative=None, checked_configs=None)
    assert not has_figures(knobs_chart(run(model=model), best))
