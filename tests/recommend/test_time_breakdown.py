"""Where a loop's time goes: of which processes, by which clock."""

import pytest
from build_records import baseline_record, config, confirm_records, loop, recommendation, run, trial_record

from tunekit.recommend.time_breakdown import (
    DEVICE_PARTS,
    HOST_PARTS,
    boundary_s,
    have_device_parts,
    mean_s,
)
from tunekit.records.attribution import DeviceParts, StepParts

DEVICE = DeviceParts(batches=50, stall_s=1.0, compute_s=2.0, optimizer_s=0.5, other_s=0.25, drained_batches=0)


def test_parts_of_the_hosts_time_are_all_of_it():
    parts = StepParts(data_wait_s=1.0, compute_s=2.0, optimizer_s=0.5, other_s=0.5)
    one = loop(rate=3200.0, parts=parts)  # 100 batches of 128 samples in 4 s
    assert {name: mean_s([one], part) for name, part in HOST_PARTS.items()} == pytest.approx(
        {
            "data wait": 1.0 / 12.8,
            "transfer, forward, backward": 2.0 / 12.8,
            "optimizer": 0.5 / 12.8,
            "other": 0.5 / 12.8,
        }
    )


def test_parts_of_the_devices_time_are_for_the_batches_that_were_read():
    one = loop(device_parts=DEVICE)
    assert mean_s([one], DEVICE_PARTS["data wait"]) == pytest.approx(1.0 / 6.4)
    assert list(DEVICE_PARTS) == list(HOST_PARTS)


def test_the_boundaries_of_epochs_are_for_as_many_samples_and_may_come_out_below_nothing():
    assert boundary_s(loop(epoch_samples=6400, boundary_s=3.2)) == pytest.approx(0.5)
    assert boundary_s(loop(epoch_samples=6400, boundary_s=3.2, world_size=2)) == pytest.approx(0.25)
    assert boundary_s(loop(epoch_samples=6400, boundary_s=-0.64)) == pytest.approx(-0.1)
    assert boundary_s(loop(epoch_samples=6400, boundary_s=None)) == 0
    assert boundary_s(loop(epoch_samples=None, boundary_s=3.2)) == 0


def test_ranks_share_the_samples():
    alone, both = loop(), loop(world_size=2)
    part = HOST_PARTS["transfer, forward, backward"]
    assert mean_s([both], part) == pytest.approx(mean_s([alone], part) / 2)
    assert mean_s([alone, both], part) == pytest.approx(0.75 * mean_s([alone], part))


def test_the_devices_clock_is_known_where_every_process_has_read_it():
    assert have_device_parts([loop(device_parts=DEVICE)])
    assert not have_device_parts([loop(device_parts=DEVICE), loop()])
    assert not have_device_parts([loop(device_parts=DEVICE.model_copy(update={"batches": 0}))])


def test_loops_are_those_of_the_fresh_processes():
    own = tuple(
        one.model_copy(update={"is_baseline_config": True})
        for one in confirm_records([500.0, 510.0], first_number=50)
    )
    fresh = confirm_records([900.0, 910.0], config(batch_size=256), first_number=100)
    of = run(trials=(baseline_record(), trial_record(), *own, *fresh))

    def rates(best: object) -> list[float]:
        return [round(one.loop.rate_samples_per_s) for one in of.history.evidence(best)]

    assert rates(None) == [500, 510]
    assert rates(recommendation(confirm_trials=(100, 101))) == [900, 910]
    assert rates(recommendation(confirm_trials=())) == [1000]
    alone = of.model_copy(update={"trials": of.trials[:2]})
    assert [round(one.loop.rate_samples_per_s) for one in alone.history.evidence(None)] == [500]
