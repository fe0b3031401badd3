"""The full queue and the two halves of the loop, looked at in real trials once they are measured."""

import subprocess
from pathlib import Path

import pytest
from real_trials import RealTrials, zoo_target

from tunekit.records.details import Detail, Details, IsolatedRates, QueueSeen
from tunekit.records.measurement import Measurement

pytestmark = pytest.mark.real

BIG = ("--features", "65536")  # 4 MiB a batch; in one test alone, for all see one /dev/shm
BOTH = (Detail.QUEUE, Detail.FLOORS)


OWN_SHM = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh")
"""Before a command: it sees a /dev/shm that no test beside it fills or empties."""


def looked_at(folder: Path, *words: str) -> tuple[Measurement, Details]:
    target = zoo_target(*words)
    if subprocess.run([*OWN_SHM, "true"], capture_output=True).returncode == 0:  # needs root
        target = target.changed(command=(*OWN_SHM, *target.command))
    measurement = RealTrials(target, folder, window_s=0.3).run_baseline(BOTH).measurement
    assert measurement is not None
    assert measurement.details is not None
    return measurement, measurement.details


def both(details: Details) -> tuple[QueueSeen, IsolatedRates]:
    assert details.faults == ()
    assert details.queue is not None
    assert details.floors is not None
    return details.queue, details.floors


def test_two_workers_fill_the_queue_as_predicted_and_each_half_shows_its_own_time(tmp_path: Path) -> None:
    measurement, details = looked_at(tmp_path, "known_times.py", "--workers", "2", *BIG)
    queue, floors = both(details)

    assert queue.batches == 5
    assert measurement.loop.batch is not None
    assert queue.predicted_bytes == 5 * measurement.loop.batch.shared_bytes
    # Of an epoch that began while the script still held a batch of the one before.
    assert queue.is_full
    assert queue.shm_bytes - queue.kept_bytes == pytest.approx(queue.predicted_bytes, rel=0.1)
    assert queue.kept_bytes == pytest.approx(measurement.loop.batch_bytes, rel=0.1)
    assert queue.main_base_bytes is not None
    assert queue.worker_base_bytes is not None
    assert queue.pss_bytes is not None
    assert queue.pss_bytes >= queue.main_base_bytes + 2 * queue.worker_base_bytes

    assert floors.why_not is None
    assert floors.loader_batches % 2 == 0
    assert floors.loader_batches >= 4
    assert floors.compute_batches >= 4
    check_bounds(measurement, floors, queue.batches, workers=2)


def test_one_worker_alone_takes_what_its_batches_take(tmp_path: Path) -> None:
    measurement, details = looked_at(tmp_path, "known_times.py", "--workers", "1")
    queue, floors = both(details)
    assert queue.batches == 3
    assert queue.is_full
    check_bounds(measurement, floors, queue.batches, workers=1)


def check_bounds(measurement: Measurement, floors: IsolatedRates, queued: int, workers: int) -> None:
    """Check that the loop takes no less than its slower half, nor more than both one after another.

    A busy machine may look at the clock late when it begins to count: a full queue came for free then.
    """
    assert floors.loader_step_s is not None
    assert floors.compute_step_s is not None
    made = floors.loader_batches - queued
    assert 0.020 / workers * made < floors.loader_step_s * floors.loader_batches < 0.2 * floors.loader_batches
    assert 0.010 < floors.compute_step_s < 0.1
    loop = measurement.loop
    step_s = loop.steady_time_s / loop.steady_batches
    both_s = floors.loader_step_s + floors.compute_step_s
    assert 0.6 * max(floors.loader_step_s, floors.compute_step_s) < step_s < 1.6 * both_s


def test_without_workers_there_is_no_queue_and_a_batch_changed_in_place_is_not_replayed(
    tmp_path: Path,
) -> None:
    _, details = looked_at(tmp_path, "known_times.py", "--in-place")
    queue, floors = both(details)
    assert (queue.batches, queue.predicted_bytes, queue.shm_bytes) == (0, 0, 0)
    assert queue.worker_base_bytes is None
    assert floors.loader_step_s is not None
    assert floors.loader_step_s > 0.020
    assert floors.compute_step_s is None
    assert "in place" in (floors.why_not or "")


def test_an_iterable_data_set_is_looked_at(tmp_path: Path) -> None:
    _, details = looked_at(tmp_path, "iterable_plain.py", "--workers", "2")
    queue, floors = both(details)
    assert queue.batches == 5
    assert floors.why_not is None
    assert floors.loader_batches % 2 == 0
    assert floors.compute_batches >= 10


def test_a_loop_on_accelerate_is_looked_at(tmp_path: Path) -> None:
    _, details = looked_at(tmp_path, "accelerate_loop.py", "--output", "{output}")
    queue, floors = both(details)
    assert queue.batches == 0
    assert floors.why_not is None
    assert floors.compute_batches >= 10


def test_a_schedule_that_ends_while_it_is_looked_at_keeps_its_measurement(tmp_path: Path) -> None:
    measurement, details = looked_at(tmp_path, "exact_schedule.py")
    assert measurement.loop.steady_batches >= 10
    assert details.queue is not None  # seen before the end
    assert details.floors is None
    assert any("Tried to step" in fault for fault in details.faults)


def test_a_loader_that_only_its_loop_holds_gives_another_epoch(tmp_path: Path) -> None:
    _, details = looked_at(tmp_path, "loader_each_epoch.py")
    assert details.floors is not None
    assert details.floors.why_not is None
    assert details.floors.loader_batches > 100  # an epoch's
