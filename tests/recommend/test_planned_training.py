"""The training that a search is for."""

import pytest
from build_records import baseline_record, config, options, trial_record

from tunekit.recommend.planned_training import NOTHING_PLANNED, planned_training
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
    start = {"startup_s": 4.0, "first_batch_s": 1.0, "first_step_s": 5.0, "boundary_s": 2.0}
    loop = trial_record(1, 1000.0, world_size=ranks, **start).measurement.loop
    by_rate = planned_training(options(epochs=2, epochs_given=True), [BASELINE])
    assert by_rate.objective_samples_per_s(config(), loop) == loop.rate_samples_per_s
    asked = options(epochs=2, epochs_given=True, objective=Objective.FINISH_TIME)
    by_finish = planned_training(asked, [BASELINE])
    steady_s = 100_000 * loop.steady_time_s / loop.steady_samples
    whole_s = 10.0 + steady_s + 2.0
    assert by_finish.finish_time_s(config(), loop) == pytest.approx(whole_s)
    assert by_finish.objective_samples_per_s(config(), loop) == pytest.approx(ranks * 100_000 / whole_s)
    assert by_rate.finish_time_s(config(), loop) == pytest.approx(whole_s)
    assert NOTHING_PLANNED.finish_time_s(config(), loop) is None


@pytest.mark.parametrize(("epochs", "boundaries"), [(1, 0), (2, 1), (5, 4)])
def test_there_are_boundaries_between_epochs_only(epochs: int, boundaries: int):
    start = {"startup_s": 0.0, "first_batch_s": 0.0, "first_step_s": 0.0}
    planned = planned_training(options(epochs=epochs, epochs_given=True), [BASELINE])
    without, with_one = (
        planned.finish_time_s(config(), trial_record(1, boundary_s=each_s, **start).measurement.loop)
        for each_s in (0.0, 3.0)
    )
    assert with_one - without == pytest.approx(3.0 * boundaries)


def test_a_first_step_that_found_compiled_code_counts_as_the_one_that_had_to_compile():
    compiled = config(compile=True, num_workers=1)
    same, other = compiled.model_copy(update={"num_workers": 4}), config(compile=True, batch_size=512)
    records = [
        BASELINE,
        trial_record(1, of=compiled, first_step_s=60.0),
        trial_record(2, of=same, first_step_s=8.0),
        trial_record(3, of=other, first_step_s=9.0, recompile_s=30.0),
    ]
    planned = planned_training(options(), records)
    loops = [record.measurement.loop for record in records]
    assert planned.once_s(same, loops[2]) == 60.0
    assert planned.once_s(other, loops[3]) == 39.0
    eager = trial_record(4, first_step_s=2.0).measurement.loop
    assert planned.once_s(config(), eager) == 2.0
