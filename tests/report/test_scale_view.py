"""A measured scaling as a whole report, and what its page draws."""

from collections.abc import Callable

import pytest
from build_records import failure, profile
from build_scaling import Step, bare_run, failed_trial, scaled, seen
from machine.shipped import PROFILES
from read_report import Read, drawn

from tunekit.diagnose.scaling import scaling_findings
from tunekit.recommend.measured_scaling import with_figures
from tunekit.records.data_parallel import DataParallelKind
from tunekit.records.run import RunStatus
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScaleOptions, ScalingRun
from tunekit.records.trial import OutcomeKind
from tunekit.report.blocks import Basis, Chart
from tunekit.report.scale import scaling_report

Golden = Callable[[str], object]


def found(run: ScalingRun) -> ScalingRun:
    return run.changed(findings=scaling_findings(run))


def typical() -> ScalingRun:
    return found(scaled(Step(wait_s=0.001), rounds=3, here=PROFILES["a100-sxm-80"]))


def apart() -> ScalingRun:
    """Processes without a wrapper that all read the same samples."""
    bare = seen(kind=DataParallelKind.NONE, syncs_gradients=None, gradient_bytes=None)
    return found(scaled(loop=lambda n: {"data_parallel": bare if n > 1 else None, "epoch_samples": 48_000}))


def partly_failed() -> ScalingRun:
    """Two counts, neither of them split; a third ran out of memory."""
    kept = scaled(processes=(1, 2))
    refused = failure(OutcomeKind.KNOB_NOT_APPLIED, message="no DistributedDataParallel trains")
    trials = [one.changed(measurement=None, failure=refused) if one.no_sync else one for one in kept.trials]
    lost = failed_trial(len(trials), 4, OutcomeKind.DEVICE_OOM, "CUDA out of memory")
    asked = ScaleOptions(processes=(1, 2, 4))
    return with_figures(kept.changed(options=asked, trials=(*trials, lost)), profile())


def strong_on_cpu() -> ScalingRun:
    """A global batch beyond the linear rule, shared by sharded processes that wait for data."""
    fsdp = seen(kind=DataParallelKind.FSDP, gradient_bytes=None, syncs_gradients=None, comm_hook="fp16_hook")
    waits = Step(wait_s=0.005)
    run = scaled(waits, (1, 2, 4, 128), measured_on="cpu", loop=lambda n: {"data_parallel": fsdp})
    return found(run.changed(mode=ScalingMode.STRONG))


def alone() -> ScalingRun:
    one = scaled(processes=(1,), rounds=1, options=ScaleOptions(processes=(1, 2)))
    lost = failed_trial(1, 2, OutcomeKind.SCRIPT_ERROR, "boom")
    return with_figures(one.changed(trials=(*one.trials, lost), status=RunStatus.FAILED), profile())


@pytest.mark.parametrize("width", [80, 120])
def test_a_measured_scaling(width: int, golden: Golden):
    assert drawn(scaling_report(typical(), "reports/x").blocks, width) == golden(f"scale-{width}.txt")


@pytest.mark.parametrize("made", [apart, partly_failed, strong_on_cpu, alone, bare_run])
def test_a_scaling_with_something_missing_or_wrong(made: Callable[[], ScalingRun], golden: Golden):
    assert drawn(scaling_report(made(), "reports/x").blocks, 120) == golden(f"scale-{made.__name__}.txt")


def test_only_rows_by_the_law_are_marked_as_predicted():
    rates = next(one for one in Read(scaling_report(typical())).tables if one.title.startswith("Samples/s"))
    assert (rates.basis, rates.predicted_rows) == (Basis.MEASURED, (3, 4))


def test_the_page_draws_rates_and_the_parts_of_an_iteration():
    rates, parts = (one for one in scaling_report(typical()).blocks if isinstance(one, Chart))
    assert [one.basis for one in rates.series] == [Basis.MEASURED, *[Basis.PREDICTED] * 3]
    assert [point.x for point in rates.series[2].points] == [1, 2, 4, 8, 16]
    total = sum(series.points[2].y for series in parts.series if series.mark == "bars")
    (totals,) = (one for one in parts.series if one.mark == "totals")
    assert total == pytest.approx(totals.points[2].y)
    assert not any(isinstance(one, Chart) for one in scaling_report(bare_run()).blocks)
