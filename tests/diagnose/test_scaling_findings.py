"""What keeps several processes from being as many times as fast, each beside a run that just has not."""

from typing import Any

import pytest
from build_records import config, cpu, host, profile
from build_scaling import SPLITS, Step, bare_run, scaled, scaling_trial, seen
from hypothesis import given
from hypothesis import strategies as st

from tunekit.diagnose.scaling import scaling_findings
from tunekit.recommend.measured_scaling import with_figures
from tunekit.records.data_parallel import DataParallelKind
from tunekit.records.finding import Finding, Severity
from tunekit.records.interval import EXACTLY_ONE
from tunekit.records.measurement import Threads
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScaleOptions, ScalingRun, StepSplit
from tunekit.units import GIB

QUIET = Step(ring_s=0.001, spread=0.001)
"""Loses next to nothing."""


def found(run: ScalingRun) -> dict[str, Finding]:
    return {one.code: one for one in scaling_findings(run)}


def threads(count: int) -> dict[str, Any]:
    return {"threads": Threads(intra_op=count, inter_op=1)}


def test_a_training_that_scales_has_nothing_to_find():
    assert found(scaled(QUIET)) == {}


def test_processes_that_each_go_through_all_samples_need_a_sampler():
    one = found(scaled(QUIET, loop=lambda n: {"epoch_samples": 48_000}))["same-samples"]
    assert (one.severity, one.value) == (Severity.WARNING, 48_000)
    assert "DistributedSampler" in (one.remedy or "")
    assert found(scaled(QUIET, loop=lambda n: {"epoch_samples": None})) == {}


def test_a_group_without_a_wrapper_may_train_as_many_models():
    bare = seen(kind=DataParallelKind.NONE, backend="gloo", syncs_gradients=None, gradient_bytes=None)
    one = found(scaled(QUIET, loop=lambda n: {"data_parallel": bare if n > 1 else None}))["no-wrapper"]
    assert one.severity is Severity.WARNING
    assert "4 processes in a gloo group" in (one.evidence or "")


def test_loaders_that_share_the_cpus_are_the_limit_where_processes_wait_for_them():
    waits = Step(ring_s=0.001, spread=0.001, wait_s=0.01)
    one = found(scaled(waits, host=host(cpus=4)))["loader-shares-cpus"]
    assert one.severity is Severity.WARNING
    assert one.value == pytest.approx(0.04 / 0.1435, rel=0.05)
    assert one.gain == pytest.approx(0.1435 / 0.1135, rel=0.05)
    assert "8 workers on 4 CPUs" in (one.evidence or "")
    assert "loader-shares-cpus" not in found(scaled(Step(ring_s=0.001, wait_s=0.001)))


def test_a_wait_that_one_process_has_too_is_no_matter_of_sharing_the_cpus():
    run = scaled(QUIET, processes=(1, 2), loop=lambda n: {"num_workers": 0})
    least, largest = run.measured
    alone = StepSplit(time_s=0.100, compute_s=0.070, exposed_s=None, straggler_s=None, data_wait_s=0.030)
    for wait_s, is_felt in ((0.033, False), (0.060, True)):
        beside = alone.changed(time_s=0.140, compute_s=0.140 - wait_s, exposed_s=0.0, data_wait_s=wait_s)
        slow = largest.changed(step=beside, efficiency=EXACTLY_ONE.times(100 / 140))
        codes = found(run.changed(counts=(least.changed(step=alone), slow)))
        assert ("loader-shares-cpus" in codes) is is_felt


@given(before=SPLITS, after=SPLITS, efficiency=st.floats(0.01, 1.5))
def test_no_gain_goes_beyond_linear_scaling(before: StepSplit, after: StepSplit, efficiency: float):
    run = scaled(processes=(1, 2), rounds=1)
    least, largest = run.measured
    beside = largest.changed(step=after, efficiency=EXACTLY_ONE.times(efficiency))
    split = run.changed(counts=(least.changed(step=before), beside))
    gains = [one.gain for one in scaling_findings(split) if one.gain is not None]
    assert all(1 < gain <= max(1.0, 1 / efficiency) * (1 + 1e-9) for gain in gains)


@pytest.mark.parametrize(("ring_s", "is_felt"), [(0.010, True), (0.004, False)])
def test_communication_that_is_exposed_is_worth_a_tenth_of_the_iteration(ring_s: float, is_felt: bool):
    codes = found(scaled(Step(ring_s=ring_s, spread=0.0)))
    assert ("exposed-communication" in codes) is is_felt


@pytest.mark.parametrize(("each", "is_felt"), [(3, True), (2, False)])
def test_threads_of_all_processes_have_a_cpu_each_or_are_too_many(each: int, is_felt: bool):
    run = scaled(QUIET, loop=lambda n: {"device": cpu(), **threads(each)})
    assert ("processes-share-cpu" in found(run)) is is_felt


def test_a_script_that_keeps_the_global_batch_is_said_to_unless_that_was_asked_for():
    trials = tuple(
        scaling_trial(number, n, step=QUIET, of=config(batch_size=128 // n), baseline=config())
        for number, n in enumerate((1, 2, 4))
    )
    run = with_figures(bare_run(trials=trials), profile())
    assert "global-batch-kept" in found(run)
    asked = run.changed(options=run.options.changed(mode=ScalingMode.STRONG))
    assert "global-batch-kept" not in found(asked)


def test_a_script_that_scales_its_learning_rate_needs_no_rule_on_top():
    run = scaled(QUIET)
    trials = tuple(one.changed(learning_rate=0.1 * (one.processes or 1)) for one in run.trials)
    assert found(with_figures(run.changed(trials=trials), profile()))["lr-follows-processes"].value == 4.0


def test_memory_of_all_processes_is_held_against_the_hosts():
    assert "ram-of-all-processes" in found(scaled(QUIET, host=host(ram_limit_bytes=9 * GIB)))
    assert "ram-of-all-processes" not in found(scaled(QUIET, host=host(ram_limit_bytes=10 * GIB)))


def test_a_silenced_code_is_left_out_and_one_count_has_no_findings():
    asked = ScaleOptions(processes=(1, 2, 4), ignored=("exposed-communication",))
    assert "exposed-communication" not in found(scaled(Step(spread=0.0), options=asked))
    assert found(scaled(processes=(1,))) == {}
