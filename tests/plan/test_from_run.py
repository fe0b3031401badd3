"""What a run says of the training to be planned."""

import pytest
from build_records import (
    GIB,
    baseline_record,
    config,
    host,
    interval,
    options,
    recommendation,
    run,
    trial_record,
)

from tunekit.errors import UsageError
from tunekit.plan.from_run import PlanOptions, measured_profile, request_of_run
from tunekit.records.attribution import LoaderWork, ModelBytes, WorkerWork
from tunekit.records.config import Precision
from tunekit.records.plan import PlanAssumptions
from tunekit.records.recommendation import Tier
from tunekit.records.run import Run, RunStatus


def finished(**overrides: object) -> Run:
    """A run whose three tiers have rates of 100, 200 and 300 samples/s."""
    tiers = tuple(
        recommendation(
            tier, config(precision=Precision.BF16, num_workers=5), rate_samples_per_s=interval(rate)
        )
        for tier, rate in zip(Tier, (100.0, 200.0, 300.0), strict=True)
    )
    return run(**({"recommendations": tiers, "options": options(epochs=7)} | overrides))


def test_the_run_gives_everything_but_the_prices():
    asked = request_of_run(finished(), PlanOptions(), name="reports/x")
    assert asked.rate_samples_per_s == interval(200.0)
    assert (asked.samples_per_epoch, asked.epochs, asked.samples) == (50_000, 7, 350_000)
    assert (asked.measured_on, asked.measured_gpus, asked.precision) == ("a10g", 1, Precision.BF16)
    assert asked.peak_reserved_bytes == 5 * GIB
    assert asked.measured_vcpus_per_gpu == 6
    assert (asked.samples_per_step, asked.tier) == (config().batch_size, Tier.BALANCED)
    assert asked.source == "reports/x, balanced: measured in 3 fresh processes, 95% interval"
    assert not asked.precision_is_assumed


def test_what_the_user_says_comes_first():
    assumed = PlanAssumptions(checkpoint_cost_s=None)
    asked = request_of_run(
        finished(), PlanOptions(samples_per_epoch=9, epochs=3, assumptions=assumed), Tier.AGGRESSIVE
    )
    assert (asked.samples_per_epoch, asked.epochs) == (9, 3)
    assert asked.rate_samples_per_s == interval(300.0)
    assert asked.assumptions == assumed


def test_workers_beyond_the_cpus_were_never_at_work():
    asked = request_of_run(finished(host=host(cpus=2)), PlanOptions())
    assert asked.measured_vcpus_per_gpu == 2


def test_what_a_cpu_loads_is_known_by_what_batches_cost():
    """A batch of 64 takes a CPU 0.2 s: 320 samples/s on a core as here, 160 on half of one."""
    work = LoaderWork(workers=(WorkerWork(batches=50, time_s=10.0),), cpu_s=10.0)
    records = (baseline_record(batch_size=64, loader_work=work),)
    loader = request_of_run(finished(trials=records), PlanOptions()).loader_samples_per_s_per_cpu
    assert loader is not None
    assert (loader.low, loader.high) == (pytest.approx(160.0), pytest.approx(320.0))
    bare = (baseline_record(loader_work=None),)
    assert request_of_run(finished(trials=bare), PlanOptions()).loader_samples_per_s_per_cpu is None


def test_the_gradients_are_those_that_the_baseline_saw():
    model = ModelBytes(parameters_bytes=400, buffers_bytes=0, gradients_bytes=300, optimizer_bytes=0)
    records = (baseline_record(model=model),)
    assert request_of_run(finished(trials=records), PlanOptions()).gradients_bytes == 300
    bare = (baseline_record(model=None),)
    assert request_of_run(finished(trials=bare), PlanOptions()).gradients_bytes is None


def test_without_balanced_the_nearest_tier_is_taken():
    tiers = tuple(one for one in finished().recommendations if one.tier is not Tier.BALANCED)
    assert "conservative" in request_of_run(finished(recommendations=tiers), PlanOptions()).source


def test_ranks_that_train_together_are_gpus_that_the_rate_was_measured_on():
    records = (baseline_record(world_size=4, epoch_samples=1000),)
    asked = request_of_run(finished(trials=records), PlanOptions())
    assert asked.measured_gpus == 4
    assert asked.samples_per_epoch == 4000


def test_a_run_without_a_rate_says_how_to_get_one():
    empty = finished(recommendations=(), status=RunStatus.INTERRUPTED)
    with pytest.raises(UsageError, match=r"x has no rate.*status: interrupted.*--rate"):
        request_of_run(empty, PlanOptions(), name="x")


def test_a_tier_that_the_run_lacks_is_named_with_those_it_has():
    only = finished(recommendations=finished().recommendations[:1])
    with pytest.raises(UsageError, match=r"no aggressive tier \(it has: conservative\)"):
        request_of_run(only, PlanOptions(), Tier.AGGRESSIVE)


def test_an_epoch_is_as_long_in_a_plan_as_in_the_report():
    """A loader that leaves out its last, partial batch trains on fewer samples of a larger one."""
    trials = (baseline_record(epoch_samples=1792), trial_record(1, 200.0, epoch_samples=1728))
    best = recommendation(Tier.BALANCED, search_trial=1, confirm_trials=(), epoch_time_s=1728 / 200)
    asked = request_of_run(run(trials=trials, recommendations=(best,)), PlanOptions())
    assert asked.samples_per_epoch == 1728


def test_a_data_set_without_a_length_needs_samples():
    endless = finished(trials=(baseline_record(epoch_samples=None, epoch_batches=None),))
    with pytest.raises(UsageError, match="--samples"):
        request_of_run(endless, PlanOptions())
    assert request_of_run(endless, PlanOptions(samples_per_epoch=10)).samples_per_epoch == 10


def test_the_runs_own_profile_counts_only_for_the_device_that_measured():
    assert measured_profile(finished()) == finished().profile
    assert measured_profile(finished(measured_on="cpu")) is None
