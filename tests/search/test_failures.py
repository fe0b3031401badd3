"""What fails for other reasons than memory is not tried again and again."""

from build_records import baseline_record, config, failure, trial_record

from tunekit.model.columns import Columns
from tunekit.records.config import TrainConfig
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.search.failures import chances_to_run


def failed(of: TrainConfig, kind: OutcomeKind = OutcomeKind.SCRIPT_ERROR) -> TrialRecord:
    return trial_record(1, None, of, overrides={"failure": failure(kind)})


def chance(records: list[TrialRecord], of: TrainConfig) -> float:
    return float(chances_to_run([baseline_record(), *records], Columns.of([of]))[0])


compiled = config(compile=True)


def test_without_failures_everything_is_taken_to_run():
    assert chance([], compiled) == 1.0


def test_a_mode_that_failed_is_hardly_tried_a_second_time_and_not_a_third():
    assert 0.05 < chance([failed(compiled)], config(compile=True, batch_size=64)) < 0.3
    assert chance([failed(compiled), failed(compiled)], config(compile=True, batch_size=64)) < 0.01
    assert chance([failed(compiled)], config(batch_size=64)) == 1.0


def test_a_mode_that_ran_once_is_not_suspected():
    ran = trial_record(2, 900.0, compiled)
    assert chance([ran, failed(compiled), failed(compiled)], compiled) == 1.0


def test_of_two_new_traits_the_one_that_runs_elsewhere_is_cleared():
    both = config(compile=True, precision="bf16")
    half = config(precision="bf16")
    assert chance([failed(both)], half) < 0.3
    assert chance([failed(both), trial_record(2, 900.0, half)], half) == 1.0
    assert chance([failed(both), trial_record(2, 900.0, half)], compiled) < 0.3


def test_a_script_that_knows_one_batch_size_only_is_found_out():
    assert chance([failed(config(batch_size=256))], config(batch_size=64)) < 0.3
    assert chance([failed(config(batch_size=256))], config(num_workers=4)) == 1.0


def test_out_of_memory_says_nothing_of_modes():
    assert chance([failed(compiled, OutcomeKind.DEVICE_OOM)], compiled) == 1.0
