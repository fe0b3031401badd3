"""A config to begin with on a GPU that is not here."""

from build_records import GIB, config, interval, run, trial_record

from tunekit.export.files import predicted_files
from tunekit.export.yaml_config import predicted_yaml
from tunekit.records.config import Precision
from tunekit.records.prediction import (
    DevicePrediction,
    LargestBatch,
    PeakShown,
    PredictedFit,
    PredictionPath,
    Purpose,
)

begun = config(batch_size=256, num_workers=3, precision=Precision.BF16)
start = PredictedFit(
    profile_id="a10g",
    precision=Precision.BF16,
    capacity_bytes=22 * GIB,
    largest=LargestBatch(low=300, value=340, high=400),
    peak=PeakShown(
        batch_size=256,
        allocated_bytes=15 * GIB,
        reserved_bytes=16 * GIB,
        by_purpose={Purpose.PARAMETERS: GIB, Purpose.ACTIVATIONS: 14 * GIB},
    ),
    rate=interval(800.0, 0.3),
    compute=interval(800.0, 0.3),
    loader=interval(1500.0, 0.5),
    bound_by="compute",
    instance="g5.xlarge",
)
prediction = DevicePrediction(
    path=PredictionPath.LOOP_ON_CPU,
    margin=0.1,
    doubts=("recurrent layers run as one kernel on a GPU",),
    traced_sizes=(2, 4),
    fits=(start,),
    config=begun,
    start=start,
)


def emulated(**overrides):
    return run(**({"measured_on": "cpu", "prediction": prediction} | overrides))


def test_the_whole_file(golden):
    golden("predicted.yaml", predicted_yaml(emulated()))


def test_the_file_has_the_name_of_the_gpu():
    assert predicted_files(emulated()) == {"a10g.predicted.yaml": predicted_yaml(emulated())}


def test_there_is_no_file_where_the_gpu_is_here_or_nothing_fits():
    assert predicted_files(run()) == {}
    nothing = prediction.changed(config=None, start=None)
    assert predicted_files(emulated(prediction=nothing, trials=(trial_record(),))) == {}
