"""A config to begin with on a GPU that is not here."""

import pytest
import yaml
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


def test_the_file_is_headed_as_predicted_and_holds_the_config():
    text = predicted_yaml(emulated())
    assert text is not None
    lines = text.splitlines()
    assert lines[0] == "# tunekit: to begin with on a10g; every figure is predicted, none was measured on one"
    assert max(map(len, lines)) <= 100
    whole = " ".join(text.replace("\n#", " ").split())
    assert (
        "largest batch in bf16: 300 with a margin of 10% on every byte, and the most outside of torch; 340 "
        "without; 400 at best; batch_size is the largest of the search's own up to the one with the margin"
    ) in whole
    assert "VRAM at batch 256: 16.0 GiB reserved at the peak, of 22.0 GiB" in whole
    assert "speed at that batch: 800 samples/s (560 to 1,040), bound by compute" in whole
    assert "doubt: recurrent layers run as one kernel on a GPU" in whole
    assert "lr is left out: the global batch is 2 times the script's" in whole
    values = yaml.safe_load(text)
    assert (values["batch_size"], values["num_workers"], values["precision"]) == (256, 3, "bf16-mixed")
    assert "lr" not in values


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (
            350,
            "300 with a margin of 10% on every byte, and the most outside of torch; 340 without; all 350 of",
        ),
        (
            300,
            "all 300 of an epoch with a margin of 10% on every byte, and the most outside of torch; batch_",
        ),
    ],
)
def test_no_batch_is_told_of_that_an_epoch_has_no_samples_for(samples: int, told: str):
    of_epoch = prediction.model_copy(update={"epoch_samples": samples})
    text = predicted_yaml(emulated(prediction=of_epoch))
    assert text is not None
    assert f"largest batch in bf16: {told}" in " ".join(text.replace("\n#", " ").split())


def test_the_file_has_the_name_of_the_gpu():
    assert predicted_files(emulated()) == {"a10g.predicted.yaml": predicted_yaml(emulated())}


def test_there_is_no_file_where_the_gpu_is_here_or_nothing_fits():
    assert predicted_files(run()) == {}
    nothing = prediction.changed(config=None, start=None)
    assert predicted_files(emulated(prediction=nothing, trials=(trial_record(),))) == {}
