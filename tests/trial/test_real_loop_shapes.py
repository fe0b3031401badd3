"""Loops of other shapes than "for batch in loader" are measured as what they are."""

import pytest
from real_trials import Plan, Ran, looking_at, loop_of
from zoo_trials import found_by

from tunekit.records.trial import OutcomeKind

pytestmark = pytest.mark.real


def shaped(name: str, **more: object) -> Plan:
    return Plan(("python", "loop_shapes.py", name), name=name, **more)


@looking_at(shaped("pairs", tuned={"batch_size": 24}))
def test_two_loaders_in_each_batch_count_together_and_a_validation_does_not(ran: Ran) -> None:
    assert [one.step_samples for one in found_by(ran).loaders] == [4, 12, None]
    assert [one.training for one in found_by(ran).loaders] == [False, True, False]
    for record, batch_size in ((ran.baseline, 12), (ran.tuned, 24)):
        loop = loop_of(record)
        assert loop.steady_samples / loop.steady_batches == pytest.approx(4 + batch_size, rel=0.02)
        assert loop.epoch_samples == pytest.approx(1200 * (1 + 4 / batch_size), rel=0.01)
        assert loop.step_time_s > 0.002


@looking_at(shaped("one_batch"))
def test_an_epoch_of_one_batch_counts_with_its_workers_start(ran: Ran) -> None:
    loop = loop_of(ran.baseline)
    assert (loop.epoch_samples, loop.epoch_batches) == (16, 1)
    assert loop.rate_samples_per_s == pytest.approx(printed_rate(ran), rel=0.4)


@looking_at(shaped("drained", window_s=1.5), shaped("starved", window_s=1.5, is_slow=True))
def test_the_wait_for_a_thread_that_reads_ahead_is_the_loops_own(ran: Ran) -> None:
    loop, found = loop_of(ran.baseline), found_by(ran)
    assert found.batches_per_step == 1
    waits = loop.parts.data_wait_s / loop.steady_time_s
    assert waits > 0.7 if "starved" in ran.plan.name else waits < 0.3
    assert loop.rate_samples_per_s == pytest.approx(printed_rate(ran), rel=0.4)


@looking_at(shaped("repeating"))
def test_a_loader_that_repeats_has_its_own_epochs_and_no_boundary(ran: Ran) -> None:
    loop = loop_of(ran.baseline)
    assert (loop.epoch_samples, loop.epoch_batches) == (1600, 100)
    assert loop.boundary_s is None


@looking_at(shaped("warming_up", window_s=1.0))
def test_accumulation_is_that_of_the_latest_steps(ran: Ran) -> None:
    assert (found_by(ran).batches_per_step, loop_of(ran.baseline).epoch_samples) == (4, 1576)


@looking_at(shaped("leaking", window_s=1.0))
def test_what_each_batch_keeps_and_what_is_not_trained_is_told(ran: Ran) -> None:
    loop = loop_of(ran.baseline)
    assert loop.growth_bytes_per_batch == pytest.approx(1 << 20, rel=0.2)
    assert loop.model is not None and loop.model.frozen_bytes == 20 * 4


@looking_at(shaped("two_passes", is_slow=True))
def test_a_step_that_passes_twice_and_steps_another_optimizer_is_one(ran: Ran) -> None:
    assert found_by(ran).batches_per_step == 1
    assert loop_of(ran.baseline).rate_samples_per_s == pytest.approx(printed_rate(ran), rel=0.4)


@looking_at(
    shaped("shrinking", tuned={"batch_size": 24}), shaped("shrinking", tuned={"batch_size": 64}, is_slow=True)
)
def test_a_script_that_lowers_its_batch_until_it_fits_trains_with_the_one_that_did(ran: Ran) -> None:
    assert (loop_of(ran.baseline).batch_size, loop_of(ran.baseline).epoch_samples) == (32, 1600)
    if ran.plan.tuned["batch_size"] == 24:
        assert loop_of(ran.tuned).batch_size == 24
    else:
        assert ran.tuned is not None and ran.tuned.failure is not None
        assert ran.tuned.failure.kind is OutcomeKind.DEVICE_OOM


@looking_at(shaped("rollouts", target={"samples_per_step": 16}, window_s=1.5, is_slow=True))
def test_the_time_between_passes_of_minibatches_counts(ran: Ran) -> None:
    assert loop_of(ran.baseline).rate_samples_per_s == pytest.approx(printed_rate(ran), rel=0.4)


@looking_at(Plan(("python", "unguarded.py"), tuned={"num_workers": 1}, is_slow=True))
def test_workers_that_would_run_the_script_again_are_told(ran: Ran) -> None:
    assert loop_of(ran.baseline).epoch_samples == 1600
    assert ran.tuned is not None and ran.tuned.failure is not None
    assert ran.tuned.failure.kind is OutcomeKind.WORKER_CRASH
    assert "__main__" in (ran.tuned.failure.remedy or "")


def printed_rate(ran: Ran) -> float:
    """Return the rate by the script's own clock, its first epoch left out."""
    lines = [line.split() for line in ran.printed().splitlines() if line.startswith("EPOCH")]
    (_, first, began), (_, last, ended) = lines[0], lines[-1]
    return (int(last) - int(first)) / (float(ended) - float(began))
