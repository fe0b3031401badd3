"""Every chart of a search as its words and its figures."""

from collections.abc import Callable

from build_records import (
    GIB,
    MIB,
    baseline_record,
    config,
    confirm_records,
    cpu,
    failure,
    host,
    interval,
    recommendation,
    run,
    trial_record,
)
from build_reports import full_run
from read_report import drawn

from tunekit.recommend.recommendation import answer_of
from tunekit.records.attribution import DeviceParts, ModelBytes, StepParts
from tunekit.records.details import ComputeSweep, ComputeSweepPoint, Details, IsolatedRates
from tunekit.records.interval import Interval
from tunekit.records.recommendation import KnobGain
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.report.blocks import Chart
from tunekit.report.charts import chart_table, charts_of

FAST = config(batch_size=256, num_workers=4)
BEST = recommendation(of=FAST)
PARTS = StepParts(data_wait_s=6.4, compute_s=12.8, optimizer_s=4.8, other_s=1.6)
ON_DEVICE = {
    "device_parts": DeviceParts(
        batches=50, stall_s=0.64, compute_s=9.6, optimizer_s=1.28, other_s=1.28, drained_batches=0
    )
}
KNOB_GAINS = (
    KnobGain(knob="num_workers", before=2, after=4, factor=interval(1.2, 0.05)),
    KnobGain(knob="compile", before=False, after=True, factor=interval(1.5, 0.1)),
    KnobGain(knob="pin_memory", before=False, after=True, factor=Interval(value=0.98, low=0.9, high=1.07)),
)
MODEL = ModelBytes(
    parameters_bytes=GIB // 2, buffers_bytes=GIB // 2, gradients_bytes=GIB // 2, optimizer_bytes=GIB
)
ISOLATED = IsolatedRates(loader_step_s=0.16, compute_step_s=0.2)
SIZES = ComputeSweep(
    sizes=tuple(ComputeSweepPoint(batch_size=size, step_s=size / 2000, batches=9) for size in (256, 64))
)


def searched(own: dict, tier: dict, *more: TrialRecord, **overrides) -> Run:
    """A search whose baseline and confirming rounds were measured so."""
    trials = (
        baseline_record(0, 500.0, config(), **({"parts": PARTS} | own)),
        trial_record(1, 1000.0, FAST),
        *confirm_records([1000.0, 1010.0, 990.0], FAST, **({"parts": PARTS} | tier)),
        *more,
    )
    return run(**({"trials": trials, "recommendations": (BEST,)} | overrides))


def with_details(record: TrialRecord, details: Details) -> TrialRecord:
    assert record.measurement is not None
    return record.changed(measurement=record.measurement.changed(details=details))


def training_alone() -> Run:
    bf16 = config(precision="bf16", channels_last=True)
    own = baseline_record(0, 1000.0, config(), world_size=2)
    other = trial_record(1, 1000.0, bf16, world_size=2)
    return run(
        trials=(with_details(own, Details(floors=ISOLATED)), with_details(other, Details(sizes=SIZES)))
    )


def failing() -> Run:
    refused = {"failure": failure(OutcomeKind.REFUSED, message="would need 30 GiB")}
    lost = {"failure": failure(OutcomeKind.SCRIPT_ERROR, message="x"), "config": None}
    return searched(
        {},
        {},
        trial_record(5, 40.0, config(), stop_reason="abandoned"),
        trial_record(7, None, config(batch_size=512)),
        trial_record(8, None, config(batch_size=1024), overrides=refused),
        trial_record(9, None, overrides=lost),
        trial_record(50, 300.0, config(compile=True), role=TrialRole.NUMERICS),
    )


def on_cpu(**overrides) -> Run:
    own = baseline_record(
        0, 500.0, config(), device=cpu(), base_bytes=GIB, **({"bytes_per_sample": 1_000_000} | overrides)
    )
    tier = recommendation(of=FAST, buffer_bytes=2 * GIB, base_ram_bytes=3 * GIB, peak_reserved_bytes=None)
    small = host(ram_limit_bytes=16 * GIB, ram_total_bytes=16 * GIB)
    return run(trials=(own, trial_record(1, 1000.0, FAST, device=cpu())), recommendations=(tier,), host=small)


def large_samples(knobs: dict) -> Run:
    tier = config(batch_size=256, **knobs)
    own = baseline_record(0, 500.0, config(), bytes_per_sample=MIB)
    small = host(ram_limit_bytes=16 * GIB, ram_total_bytes=16 * GIB)
    trials = (own, trial_record(1, 1000.0, tier, bytes_per_sample=MIB))
    return run(trials=trials, recommendations=(recommendation(of=tier),), host=small)


CASES: dict[str, tuple[Run, str]] = {
    "time": (searched({}, {}), "time_breakdown"),
    "time by the device": (searched(ON_DEVICE, ON_DEVICE), "time_breakdown"),
    "time with epoch boundaries": (
        searched({"epoch_samples": 6400, "boundary_s": 3.2}, {"epoch_samples": 6400}),
        "time_breakdown",
    ),
    "knobs": (searched({}, {}, knob_gains=KNOB_GAINS), "knobs"),
    "throughput with failures": (failing(), "throughput"),
    "throughput of training alone": (training_alone(), "throughput"),
    "history": (failing(), "history"),
    "device memory": (searched({"model": MODEL}, {"peak_reserved_bytes": 12 * GIB}), "device_memory"),
    "device memory, predicted": (full_run(), "device_memory"),
    "RAM of two ranks": (on_cpu(world_size=2), "host_memory"),
}


def chart_text(name: str, chart: Chart) -> str:
    text = f"=== {name}: {chart.title}\n{chart.summary}\n{drawn((chart_table(chart),), 160)}"
    marks = "".join(f"  {one.name}: {one.mark}, {one.basis}\n" for one in chart.series)
    return text + marks + "".join(f"  limit {one.value:.4g}: {one.text}\n" for one in chart.limits)


def test_every_chart(golden: Callable[[str], object]):
    texts = []
    for name, (of, wanted) in CASES.items():
        charts = {chart.id: chart for chart in charts_of(of, answer_of(of.recommendations))}
        texts.append(chart_text(name, charts[wanted]))
    assert "\n".join(texts) == golden("charts.txt")
