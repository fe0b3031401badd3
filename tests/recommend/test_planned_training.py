"""The training that a search is for."""

import pytest
from build_records import baseline_record, config, options, trial_record

from tunekit.recommend.planned_training import NOTHING_PLANNED, planned_training, start_time_s
from tunekit.records.run import Objective

BASELINE = baseline_record(of=config(batch_size=64, accumulate_grad_batches=2))


def test_only_what_the_user_said_is_a_promise():
    told = planned_training(options(), [BASELINE])
    assert (told.samples, told.assumed_samples) == (None, 500_000)
    told = planned_training(options(epochs=3, epochs_given=True), [BASELINE])
    assert (told.samples, told.assumed_samples) == (150_000, 150_000)


def test_steps_are_those_of_the_users_own_config():
    told = planned_training(options(planned_steps=10), [BASELINE, trial_record(1, of=config(batch_size=512))])
    assert (told.samples, told.assumed_samples) == (1280, 1280)


def test_epochs_without_a_length_are_no_training():
    endless = [trial_record(0, epoch_samples=None, epoch_batches=None)]
    told = planned_training(options(epochs=3, epochs_given=True), endless)
    assert (told.samples, told.assumed_samples) == (None, None)
    assert planned_training(options(), []) == NOTHING_PLANNED


@pytest.mark.parametrize("ranks", [1, 4])
def test_the_objective_is_the_rate_over_all_that_is_looked_at(ranks: int):
    loop = trial_record(
        1, 1000.0, startup_s=4.0, first_batch_s=1.0, first_step_s=5.0, world_size=ranks
    ).measurement.loop
    by_rate = planned_training(options(epochs=2, epochs_given=True), [BASELINE])
    assert by_rate.objective_samples_per_s(loop) == loop.rate_samples_per_s
    asked = options(epochs=2, epochs_given=True, objective=Objective.FINISH_TIME)
    by_finish = planned_training(asked, [BASELINE])
    whole_s = 10.0 + 100_000 / loop.rank_rate_samples_per_s
    assert by_finish.objective_samples_per_s(loop) == pytest.approx(ranks * 100_000 / whole_s)
    later = by_finish.objective_samples_per_s(loop, first_step_s=55.0)
    assert later == pytest.approx(ranks * 100_000 / (whole_s + 50.0))


def test_a_first_step_that_found_compiled_code_counts_as_the_one_that_had_to_compile():
    loop = trial_record(1, startup_s=4.0, first_batch_s=1.0, first_step_s=5.0).measurement.loop
    assert start_time_s(loop) == 10.0
    assert start_time_s(loop, first_step_s=40.0) == 45.0
    assert start_time_s(loop, first_step_s=2.0) == 10.0
