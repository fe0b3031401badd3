"""Plans from rates that were predicted on a machine without a GPU."""

import pytest
from build_fits import fit, fits_run, predicted
from build_plans import TODAY, instance, row_on
from build_records import GIB, baseline_record, config, cpu, interval, options, profile, run

from tunekit.errors import UsageError
from tunekit.plan.from_run import PlanOptions, plan_of_run, request_of_prediction
from tunekit.plan.plan import make_plan
from tunekit.records.attribution import LoaderWork, WorkerWork
from tunekit.records.config import Precision
from tunekit.records.plan import PlanRequest, RateSource
from tunekit.records.run import BatchFit, FitsRun, RequestedBatch

ASKED = PlanOptions(samples_per_epoch=1_280_000, epochs=100)
GPUS = {
    one.id: one
    for one in (
        profile(instances=(instance(name="one", vcpus=16),)),
        profile("l4", device_names=("L4",), instances=(instance(name="cheap", vcpus=4, usd_per_h=0.5),)),
        profile("t4", device_names=("T4",), instances=(instance(name="small"),)),
    )
}


def requested(gpu: str, verdict: BatchFit = BatchFit.YES, rate: float | None = 400.0) -> RequestedBatch:
    return RequestedBatch(
        profile_id=gpu,
        precision=Precision.FP32,
        batch_size=128,
        verdict=verdict,
        reserved_bytes=10 * GIB,
        min_bytes=0,
        max_bytes=0,
        compute=None if rate is None else interval(rate, 0.3),
    )


def fitted(**overrides: object) -> FitsRun:
    """Predictions for an A10G and for an L4 of half its speed; a batch of 128 does not fit the T4."""
    asked = (requested("a10g"), requested("l4", rate=200.0), requested("t4", BatchFit.NO, None))
    fits = tuple(fit(one.profile_id, 16, (219, 250, 294)) for one in asked)
    return fits_run(fits, **({"asked": asked} | overrides))


def request(of: FitsRun, gpu: str | None = "a10g") -> PlanRequest:
    return request_of_prediction(of, ASKED, GPUS, gpu)


def test_hours_and_dollars_of_a_gpu_that_is_not_here_have_the_predicted_range():
    """128,000,000 samples at 400 samples/s are 88.9 h, times 1.006 dollars."""
    plan = make_plan(request(fitted()), GPUS, TODAY)
    row = row_on(plan, "one")
    assert row.how is plan.rows[0].how is RateSource.PREDICTED
    assert row.hours is not None
    assert row.hours.value == pytest.approx(88.9, abs=0.05)
    assert row.hours.low == pytest.approx(88.9 / 1.3, abs=0.1)
    assert row.hours.high == pytest.approx(88.9 / 0.7, abs=0.1)
    assert row.usd_on_demand is not None
    assert row.usd_on_demand.value == pytest.approx(89.4, abs=0.05)
    assert row.basis == "predicted from traced steps at a batch of 128"


def test_every_gpu_goes_by_its_own_prediction():
    plan = make_plan(request(fitted()), GPUS, TODAY)
    assert row_on(plan, "cheap").rate_samples_per_s == interval(200.0, 0.3)
    small = row_on(plan, "small")
    assert (small.how, small.fits) == (None, False)
    assert "memory-too-small" in {one.code for one in plan.findings}
    tight = fitted(asked=(requested("a10g", BatchFit.TIGHT),))
    assert row_on(make_plan(request(tight), GPUS, TODAY), "one").may_not_fit


def test_without_gpu_the_answer_is_about_the_one_with_the_lowest_price_per_sample():
    """The L4 has half the speed at 0.50 of 1.006 dollars; at 0.50 of 0.90 dollars it would be dearer."""
    assert request(fitted(), None).measured_on == "l4"
    cheaper = GPUS | {"a10g": profile(instances=(instance(usd_per_h=0.9),))}
    assert request_of_prediction(fitted(), ASKED, cheaper).measured_on == "a10g"


def test_a_loader_of_known_cost_bounds_predicted_rates():
    """A batch of 64 takes a CPU 0.8 s: at most 80 samples/s from each of 4 CPUs, for 1,000 on the GPU."""
    work = LoaderWork(workers=(WorkerWork(batches=50, time_s=40.0),), cpu_s=40.0)
    trial = baseline_record(0, 32.0, batch_size=64, device=cpu(), loader_work=work)
    of = fitted(asked=(requested("l4", rate=1000.0),), trials=(trial,))
    row = row_on(make_plan(request(of, "l4"), GPUS, TODAY), "cheap")
    assert row.rate_samples_per_s is not None
    assert row.rate_samples_per_s.high == pytest.approx(320.0)


@pytest.mark.parametrize(
    ("of", "gpu", "said"),
    [
        (fitted(), "h100", "predicts no rate of h100 .*tunekit fits --gpu h100 -- COMMAND"),
        (fitted(), "t4", "predicts no rate of t4 "),
        (fits_run(), None, "predicts no rate at its batch"),
    ],
)
def test_what_was_not_predicted_says_how_to_predict_it(of: FitsRun, gpu: str | None, said: str):
    with pytest.raises(UsageError, match=said):
        request(of, gpu)


def test_a_prediction_does_not_know_how_long_the_training_is():
    with pytest.raises(UsageError, match="give --epochs"):
        request_of_prediction(fitted(), PlanOptions(), GPUS, "a10g")


def test_a_search_for_a_gpu_that_is_not_here_is_planned_by_the_prediction_of_its_starting_config():
    start = fit("a10g", 22, (64, 80, 96), Precision.BF16, compute=interval(500.0, 0.3))
    prediction = predicted(
        (fit("a10g", 22, (64, 80, 96)), start), config=config(precision=Precision.BF16), start=start
    )
    of = run(
        profile=profile(),
        measured_on="cpu",
        options=options(epochs=7),
        trials=(baseline_record(device=cpu(), epoch_samples=50_000),),
        prediction=prediction,
    )
    plan = plan_of_run(of)
    assert plan is not None
    asked = plan.request
    assert (asked.measured_on, asked.precision, asked.epochs) == ("a10g", Precision.BF16, 7)
    assert asked.rate_samples_per_s == interval(500.0, 0.3)
    assert plan.choices
