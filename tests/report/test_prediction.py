"""What a report says of a GPU that was predicted."""

from collections.abc import Callable

from build_records import GIB, config, interval, recommendation, run

from tunekit.records.config import Precision
from tunekit.records.prediction import (
    Correction,
    DevicePrediction,
    LargestBatch,
    PeakShown,
    PredictedFit,
    PredictionPath,
)
from tunekit.records.run import Run
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


NOTHING_FITS = FIT.changed(
    peak=None, rate=None, largest=LargestBatch(low=0, value=1, high=2), bound_by="VRAM"
)
CHECKED = Correction(
    precision=Precision.FP32, batch_size=128, predicted_bytes=10 * GIB, measured_bytes=11 * GIB
)
RUNS: dict[str, Run] = {
    "fits": run(prediction=predicted(FIT)),
    "nothing fits": run(prediction=predicted(NOTHING_FITS)),
    "checked by a measurement": run(prediction=predicted(FIT, corrections=(CHECKED,))),
    "not predicted": run(why_not_predicted="the loop has no DataLoader"),
    "not asked for": run(),
    **{f"epoch of {size}": run(prediction=predicted(FIT, epoch_samples=size)) for size in (294, 219)},
}


def test_the_answers_precision_comes_first():
    of = run(prediction=predicted(FIT, FIT.changed(precision=Precision.BF16)))
    lines = prediction_passage(of, recommendation(of=config(precision=Precision.BF16))).lines
    assert [line.partition(":")[0] for line in lines[:2]] == ["bf16", "fp32"]


def test_every_prediction(golden: Callable[[str], object]):
    passages = {name: prediction_passage(of, None) for name, of in RUNS.items()}
    assert "\n".join(
        f"=== {name}: {one.title}\n{chr(10).join(one.lines)}\n" for name, one in passages.items()
    ) == golden("predictions.txt")
