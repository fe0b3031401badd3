"""Why nothing could be predicted: what a trial left behind, in words."""

from build_records import baseline_record, failure, trial_record

from tunekit.predict.step_traces import untraced_error


def test_a_script_that_ends_before_its_steps_are_traced_is_told_to_train_longer():
    short = baseline_record(stop_reason="loop_ended", script_steps=939)
    told = untraced_error([short])
    assert "the script ended after 939 optimizer steps, before any could be traced" in str(told)
    assert "more epochs" in told.remedy


def test_a_loop_that_went_on_says_that_nothing_was_traced():
    assert "no steps were traced" in str(untraced_error([baseline_record(stop_reason="interval")]))


def test_a_script_that_was_not_measured_is_no_short_one():
    assert "device_oom: " in str(untraced_error([trial_record(0, None, overrides={"failure": failure()})]))
