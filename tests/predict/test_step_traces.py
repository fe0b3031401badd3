"""Why nothing could be predicted: what a trial left behind, in words."""

from build_records import baseline_record, measurement

from tunekit.predict.step_traces import untraced_error
from tunekit.records.details import Details, TraceSeen


def test_a_script_that_ends_before_its_steps_are_traced_is_told_to_train_longer():
    short = baseline_record(stop_reason="loop_ended", script_steps=939)
    told = untraced_error([short])
    assert "the script ended after 939 optimizer steps, before any could be traced" in str(told)
    assert "more epochs" in told.remedy


def test_steps_that_met_their_deadline_say_which_flag_moves_it():
    details = Details(
        trace=TraceSeen(device_type="cpu", why_ended="batch size 4 was too slow to be traced"),
        faults=("floors: no", "trace: it took too long: more than 20 s"),
    )
    measured = measurement().changed(details=details)
    told = untraced_error([baseline_record(overrides={"measurement": measured})])
    assert str(told) == "batch size 4 was too slow to be traced; it took too long: more than 20 s"
    assert "--window" in told.remedy
