"""What a report says of a GPU that was predicted."""

import pytest
from build_records import GIB, interval, run

from tunekit.records.config import Precision
from tunekit.records.prediction import (
    Correction,
    DevicePrediction,
    LargestBatch,
    PeakShown,
    PredictedFit,
    PredictionPath,
)
from tunekit.report.answer import prediction_passage

PEAK = PeakShown(batch_size=219, allocated_bytes=17 * GIB, reserved_bytes=18 * GIB, by_purpose={})
FIT = PredictedFit(
    profile_id="a10g",
    precision=Precision.FP32,
    capacity_bytes=22 * GIB,
    largest=LargestBatch(low=219, value=253, high=294),
    peak=PEAK,
    rate=interval(400.0, 0.3),
    compute=interval(421.0, 0.3),
    loader=interval(400.0, 0.3),
    bound_by="loader",
    instance="g5.xlarge",
)


def predicted(*fits: PredictedFit, **overrides) -> DevicePrediction:
    values = {"path": PredictionPath.LOOP_ON_CPU, "margin": 0.1, "traced_sizes": (2, 4), "fits": fits}
    return DevicePrediction.model_validate(values | overrides)


def lines(prediction: DevicePrediction | None, **overrides) -> tuple[str, ...]:
    return prediction_passage(run(prediction=prediction, **overrides)).lines


def test_what_fits_and_what_binds_is_told_with_its_range_and_how_it_was_got():
    told, how = lines(predicted(FIT))
    assert told == (
        "fp32: batch 219 fits (253 without the margin, 294 at best), 18.0 GiB of 22.0 GiB reserved; "
        "about 400 samples/s (280 to 520), loader-bound on g5.xlarge"
    )
    assert how.startswith(
        "by steps of the script's own loop, traced on CPU, simulating the CUDA allocator, at batch "
    )
    assert "with a margin of 10%" in how


def test_the_title_says_that_it_is_predicted():
    shown = prediction_passage(run(prediction=predicted(FIT)))
    assert shown.title == "a10g (predicted)"


def test_where_not_even_one_sample_fits_that_is_said():
    none = FIT.model_copy(
        update={
            "peak": None,
            "rate": None,
            "largest": LargestBatch(low=0, value=1, high=2),
            "bound_by": "VRAM",
        }
    )
    assert lines(predicted(none))[0] == (
        "fp32: not even one sample fits 22.0 GiB with 10% margin; at best a batch of 2 would"
    )


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (295, "batch 219 fits (253 without the margin, 294 at best), "),
        (294, "batch 219 fits (253 without the margin, all 294 of an epoch at best), "),
        (220, "batch 219 fits (all 220 of an epoch without the margin, all 220 of an epoch at best), "),
        (219, "all 219 samples of an epoch fit in one batch, "),
    ],
)
def test_no_batch_is_told_of_that_an_epoch_has_no_samples_for(samples: int, told: str):
    assert lines(predicted(FIT, epoch_samples=samples))[0].startswith(f"fp32: {told}18.0 GiB of 22.0 GiB")


def test_predicted_stands_beside_measured():
    seen = Correction(
        precision=Precision.FP32, batch_size=128, predicted_bytes=10 * GIB, measured_bytes=11 * GIB
    )
    assert "fp32, batch 128: 10.0 GiB reserved was predicted, 11.0 GiB measured (1.10x)" in lines(
        predicted(FIT, corrections=(seen,))
    )


@pytest.mark.parametrize(
    ("reason", "told"),
    [(None, ()), ("the loop has no DataLoader", ("VRAM and speed are n/a: the loop has no DataLoader",))],
)
def test_what_could_not_be_predicted_says_why(reason: str | None, told: tuple[str, ...]):
    assert lines(None, why_not_predicted=reason) == told
