"""Device memory by what takes it, measured and predicted; the machine's where there is no GPU."""

import pytest
from build_records import (
    GIB,
    baseline_record,
    config,
    confirm_records,
    cpu,
    host,
    interval,
    recommendation,
    run,
    trial_record,
)

from tunekit.records.attribution import ModelBytes
from tunekit.records.config import Precision
from tunekit.records.prediction import (
    DevicePrediction,
    LargestBatch,
    PeakShown,
    PredictedFit,
    PredictionPath,
    Purpose,
)
from tunekit.records.run import Run
from tunekit.report.blocks import Basis, Chart
from tunekit.report.charts.memory import memory_charts

fast = config(batch_size=256, num_workers=4)
MODEL = ModelBytes(
    parameters_bytes=GIB // 2, buffers_bytes=GIB // 2, gradients_bytes=GIB // 2, optimizer_bytes=GIB
)
PEAK = PeakShown(
    batch_size=219,
    allocated_bytes=17 * GIB,
    reserved_bytes=18 * GIB,
    by_purpose={Purpose.PARAMETERS: GIB, Purpose.ACTIVATIONS: 15 * GIB, Purpose.WORKSPACE: GIB},
)
FIT = PredictedFit(
    profile_id="a10g",
    precision=Precision.FP32,
    capacity_bytes=22 * GIB,
    largest=LargestBatch(low=219, value=253, high=294),
    peak=PEAK,
    rate=interval(400.0, 0.3),
)
PREDICTION = DevicePrediction(path=PredictionPath.LOOP_ON_CPU, margin=0.1, traced_sizes=(2, 4), fits=(FIT,))


def memory_chart_of(of: Run) -> Chart:
    return memory_charts(of)[0]


def on_gpu(**overrides) -> Run:
    trials = (
        baseline_record(0, 500.0, config(), model=MODEL, bytes_per_sample=0),
        trial_record(1, 1000.0, fast),
        *confirm_records([1000.0, 990.0], fast, peak_reserved_bytes=12 * GIB),
    )
    return run(**({"trials": trials, "recommendations": (recommendation(of=fast),)} | overrides))


def on_cpu(**overrides) -> Run:
    trials = (
        baseline_record(0, 500.0, config(), device=cpu(), base_bytes=GIB, bytes_per_sample=1_000_000),
        trial_record(1, 1000.0, fast, device=cpu()),
    )
    tier = recommendation(of=fast, buffer_bytes=2 * GIB, base_ram_bytes=3 * GIB, peak_reserved_bytes=None)
    return run(**({"trials": trials, "recommendations": (tier,)} | overrides))


def gib(chart: Chart, bar: str, basis: Basis) -> dict[str, float]:
    return {
        one.name: point.y
        for one in chart.series
        if one.basis is basis
        for point in one.points
        if point.x == bar
    }


def test_the_baselines_peak_is_split_and_adds_up_to_what_was_reserved():
    parts = gib(memory_chart_of(on_gpu()), "baseline", Basis.MEASURED)
    assert parts == pytest.approx(
        {
            "parameters, buffers": 1.0,
            "optimizer state": 1.0,
            "activations, workspace": 2.0,
            "cached or held": 1.0,
            "total": 5.0,
        }
    )


def test_a_peak_that_nobody_split_is_one_part():
    chart = memory_chart_of(on_gpu())
    assert gib(chart, "balanced", Basis.MEASURED) == {"reserved, purpose unknown": 12.0, "total": 12.0}
    assert "balanced: 12.0 GiB of 22.0 GiB (55%), measured" in chart.summary
    assert "conservative 75%, balanced 85%, aggressive 95%" in chart.summary


def test_the_gpus_memory_is_the_scale():
    (limit,) = memory_chart_of(on_gpu()).limits
    assert (limit.value, limit.text) == (22.0, "22.0 GiB of the GPU")


def test_what_is_predicted_stands_beside_it_as_predicted():
    chart = memory_chart_of(on_gpu(prediction=PREDICTION))
    bar = "a10g fp32, batch 219"
    assert gib(chart, bar, Basis.MEASURED) == {}
    assert gib(chart, bar, Basis.PREDICTED) == pytest.approx(
        {
            "parameters, buffers": 1.0,
            "activations, workspace": 16.0,
            "cached or held": 1.0,
            "total": 18.0,
        }
    )
    assert "a10g fp32, batch 219: 18.0 GiB of 22.0 GiB (82%), predicted" in chart.summary


def test_a_cpu_with_a_prediction_shows_the_gpu_and_its_own_ram():
    on_device, on_host = memory_charts(on_cpu(prediction=PREDICTION))
    assert (on_device.id, on_host.id) == ("device_memory", "host_memory")
    assert {one.basis for one in on_device.series} == {Basis.PREDICTED}


def test_beside_what_was_measured_of_a_gpu_ram_is_left_out():
    assert [one.id for one in memory_charts(on_gpu(prediction=PREDICTION))] == ["device_memory"]


def test_a_cpu_without_one_shows_its_ram():
    chart = memory_chart_of(on_cpu(host=host(ram_limit_bytes=16 * GIB, ram_total_bytes=16 * GIB)))
    assert chart.id == "host_memory"
    assert gib(chart, "baseline", Basis.MEASURED) == {"processes": 1.0}
    assert gib(chart, "balanced", Basis.MEASURED) == {"processes": 3.0}
    assert gib(chart, "balanced", Basis.PREDICTED) == {"loader's buffer": 2.0, "total": 5.0}
    assert gib(chart, "baseline", Basis.PREDICTED)["loader's buffer"] == pytest.approx(
        4 * 128 * 1_000_000 / GIB
    )
    assert chart.limits[0].value == 16.0


def test_ranks_share_the_ram():
    trials = (baseline_record(0, 500.0, config(), device=cpu(), base_bytes=GIB, world_size=2),)
    chart = memory_chart_of(run(trials=trials))
    assert chart.title == "RAM per rank"
    assert gib(chart, "baseline", Basis.MEASURED) == {"processes": 0.5}
    assert chart.limits[0].value == 16.0
