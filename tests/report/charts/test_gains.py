"""Where the time goes before and after, and what each knob is worth."""

import pytest
from build_records import (
    baseline_record,
    config,
    confirm_records,
    interval,
    recommendation,
    run,
    trial_record,
)

from tunekit.records.attribution import DeviceParts, StepParts
from tunekit.records.interval import Interval
from tunekit.records.recommendation import KnobGain
from tunekit.report.blocks import Basis, Chart
from tunekit.report.charts import has_figures
from tunekit.report.charts.gains import knobs_chart, time_breakdown_chart

fast = config(batch_size=256)
PARTS = StepParts(data_wait_s=6.4, compute_s=12.8, optimizer_s=4.8, other_s=1.6)
ON_DEVICE = DeviceParts(
    batches=50, stall_s=0.64, compute_s=9.6, optimizer_s=1.28, other_s=1.28, drained_batches=0
)


def chart(own: dict, tier: dict) -> Chart:
    best = recommendation(of=fast)
    trials = (
        baseline_record(0, 500.0, config(), parts=PARTS, **own),
        trial_record(1, 1000.0, fast),
        *confirm_records([1000.0, 1000.0], fast, parts=PARTS, **tier),
    )
    return time_breakdown_chart(run(trials=trials, recommendations=(best,)), best)


def figures(of: Chart, name: str) -> dict[str, float]:
    return {one.name: point.y for one in of.series for point in one.points if point.x == name}


def test_each_part_is_for_a_thousand_samples_whatever_the_batch():
    told = chart({}, {})
    assert figures(told, "baseline") == pytest.approx(
        {
            "data wait": 0.5,
            "transfer, forward, backward": 1.0,
            "optimizer": 0.375,
            "other": 0.125,
            "total": 2.0,
        }
    )
    assert figures(told, "balanced")["total"] == pytest.approx(1.0)
    assert "by the host's clock" in told.summary
    assert "baseline 2.0 s, balanced 1.0 s" in told.summary


def test_the_device_tells_where_it_was_asked_on_both_sides():
    told = chart({"device_parts": ON_DEVICE}, {"device_parts": ON_DEVICE})
    assert "by the device's clock" in told.summary
    # 50 batches of 128 samples.
    assert figures(told, "baseline")["data wait"] == pytest.approx(0.1)
    assert figures(told, "baseline")["total"] == pytest.approx(2.0)


def test_a_bar_is_as_long_as_its_rate_says_whatever_the_epochs_boundary():
    told = chart({"epoch_samples": 6400, "boundary_s": 3.2}, {"epoch_samples": 6400, "boundary_s": 0.0})
    assert figures(told, "baseline")["epoch boundary"] == pytest.approx(0.5)
    assert figures(told, "baseline")["total"] == pytest.approx(2.5)
    assert figures(told, "balanced")["epoch boundary"] == 0.0
    assert "epoch boundary" not in figures(chart({}, {}), "baseline")
    below = figures(chart({"epoch_samples": 6400, "boundary_s": -3.2}, {}), "baseline")
    assert below["total"] == pytest.approx(2.0)


def test_one_side_without_the_devices_clock_keeps_both_on_the_hosts():
    assert "by the host's clock" in chart({"device_parts": ON_DEVICE}, {}).summary


def test_ranks_share_the_thousand_samples():
    told = chart({"world_size": 2}, {})
    assert figures(told, "baseline")["total"] == pytest.approx(1.0)


# --- what each knob is worth -----------------------------------------------------------------

WORTHS = (
    KnobGain(knob="num_workers", before=2, after=4, factor=interval(1.2, 0.05)),
    KnobGain(knob="compile", before=False, after=True, factor=interval(1.5, 0.1)),
    KnobGain(knob="pin_memory", before=False, after=True, factor=Interval(value=0.98, low=0.9, high=1.07)),
)


def test_the_knob_that_brings_most_comes_first():
    best = recommendation(of=config(num_workers=4))
    chart = knobs_chart(run(knob_gains=WORTHS, recommendations=(best,)), best)
    (worth,) = chart.series
    assert worth.basis is Basis.MEASURED
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


def test_a_run_that_did_not_measure_them_has_no_such_chart():
    assert not has_figures(knobs_chart(run(), recommendation()))
