"""The plan that a run's report shows."""

import pytest
from build_records import baseline_record, interval, options, profile, recommendation, run

from tunekit.plan.from_run import plan_of_run
from tunekit.records.run import Run


def finished(**overrides: object) -> Run:
    values = {
        "recommendations": (recommendation(rate_samples_per_s=interval(180.0)),),
        "trials": (baseline_record(epoch_samples=1_281_167),),
        "options": options(epochs=90),
    }
    return run(**(values | overrides))


def test_a_run_with_a_rate_and_a_length_is_planned_by_the_prices_of_its_own_day():
    plan = plan_of_run(finished())
    assert plan is not None
    assert plan.made_on == "2026-01-02"
    assert plan.request.samples_per_epoch == 1_281_167
    assert plan.request.rate_samples_per_s == interval(180.0)
    assert plan.choices
    assert plan == plan_of_run(finished())


def test_a_gpu_that_no_profile_knows_is_planned_with_its_own():
    own = profile("some-gpu")
    plan = plan_of_run(finished(profile=own, measured_on="some-gpu"))
    assert plan is not None
    assert plan.rows[0].profile_id == "some-gpu"


@pytest.mark.parametrize(
    "unknown",
    [
        {"recommendations": ()},
        {"trials": (baseline_record(epoch_samples=None, epoch_batches=None),)},
        {"created_at": "yesterday"},
        {"recommendations": (recommendation(rate_samples_per_s=interval(1e-12)),)},
    ],
    ids=["no rate", "no length", "no day", "no end"],
)
def test_a_run_that_does_not_know_enough_has_no_plan(unknown: dict[str, object]):
    assert plan_of_run(finished(**unknown)) is None
