"""A config to begin with on a GPU that is not here."""

from build_fits import fit, predicted
from build_records import config, interval, run, trial_record

from tunekit.export.files import predicted_files
from tunekit.export.yaml_config import predicted_yaml
from tunekit.records.config import Precision

start = fit("a10g", 22.0, (300, 340, 400), Precision.BF16, most=256, rate=interval(800.0, 0.3))
prediction = predicted(
    (start,),
    doubts=("recurrent layers run as one kernel on a GPU",),
    config=config(batch_size=256, num_workers=3, precision=Precision.BF16),
    start=start,
)


def emulated(**overrides):
    return run(**({"measured_on": "cpu", "prediction": prediction} | overrides))


def test_the_whole_file(golden):
    assert predicted_yaml(emulated()) == golden("predicted.yaml")


def test_the_file_has_the_name_of_the_gpu():
    assert predicted_files(emulated()) == {"a10g.predicted.yaml": predicted_yaml(emulated())}


def test_there_is_no_file_where_the_gpu_is_here_or_nothing_fits():
    assert predicted_files(run()) == {}
    nothing = prediction.changed(config=None, start=None)
    assert predicted_files(emulated(prediction=nothing, trials=(trial_record(),))) == {}
