"""What a trial tells: seconds per full loop batch of one rank, and nothing that it did not see."""

import math

import pytest
from build_records import baseline_record, config, trial_record

from tunekit.predict.throughput.observation import observations
from tunekit.records.attribution import DeviceParts, LoaderWork, StepParts, WorkerWork
from tunekit.records.trial import TrialRole


def observed(rate: float = 1280.0, **loop):
    (one,) = observations([trial_record(1, rate, **loop)])
    return one


def test_with_batches_that_are_not_full_the_rate_is_still_the_measured_one():
    """128 samples are asked for, but an epoch's last batches bring the mean to 64."""
    one = observed(steady_samples=6400, steady_time_s=5.0)
    assert one.config.batch_size / one.step_s == pytest.approx(1280.0)


def test_the_rate_is_of_one_rank():
    one = observed(world_size=4)
    assert one.step_s == pytest.approx(0.1)


def test_training_is_all_but_the_wait_for_data():
    parts = StepParts(data_wait_s=4.0, compute_s=5.0, optimizer_s=0.5, other_s=0.5)
    assert observed(parts=parts).compute_s == pytest.approx(0.06)


def test_beside_a_gpu_the_devices_clock_says_what_training_takes():
    on_device = DeviceParts(
        batches=50, stall_s=1.0, compute_s=3.0, optimizer_s=1.0, other_s=0.0, drained_batches=0
    )
    assert observed(device_parts=on_device).compute_s == pytest.approx(0.08)


def test_a_loop_that_only_waits_says_nothing_of_its_training():
    parts = StepParts(data_wait_s=10.0, compute_s=0.0, optimizer_s=0.0, other_s=0.0)
    assert observed(parts=parts).compute_s is None


def test_making_a_batch_is_per_process_and_its_cpu_time_never_more():
    work = LoaderWork(
        workers=tuple(WorkerWork(batches=50, time_s=10.0) for _ in range(2)),
        cpu_s=60.0,
    )
    one = observed(loader_work=work)
    assert one.fetch_s == pytest.approx(0.2)
    assert one.fetch_cpu_s == pytest.approx(0.2), "threads of one worker that use several CPUs"


def test_a_rate_that_drifted_is_as_unsure_as_it_drifted():
    assert observed(rate_trend_relative=-0.4).step_spread == pytest.approx(0.4)
    assert observed(rate_trend_relative=None).step_spread == pytest.approx(0.01)
    assert observed(rate_interval_relative=None).step_spread is None


def test_guards_of_losses_failures_and_unknown_configs_tell_nothing():
    records = [
        baseline_record(),
        trial_record(1, None),
        trial_record(2, role=TrialRole.NUMERICS),
        trial_record(3, of=config(batch_size=64)),
    ]
    assert [one.config.batch_size for one in observations(records)] == [128, 64]
    assert all(math.isfinite(one.step_s) for one in observations(records))
