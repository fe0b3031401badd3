"""What a loop's processes take without a buffer: told apart where they were looked into."""

from typing import Any

import pytest
from build_records import GIB, MIB, config, measurement

from tunekit.predict.ram import BaseRam, base_ram, predicted_base_ram
from tunekit.records.attribution import BatchSeen
from tunekit.records.details import Details, QueueSeen
from tunekit.records.measurement import Measurement


def piping(piped_bytes: int) -> BatchSeen:
    return BatchSeen(samples=1, total_bytes=piped_bytes, shared_bytes=0, piped_bytes=piped_bytes, leaves=())


def looked_into(
    main_bytes: int | None, worker_bytes: int | None, is_full: bool = True, **more: Any
) -> Measurement:
    queue = QueueSeen(
        batches=5,
        predicted_bytes=0,
        shm_bytes=0,
        is_full=is_full,
        main_base_bytes=main_bytes,
        worker_base_bytes=worker_bytes,
    )
    return measurement(**more).model_copy(update={"details": Details(queue=queue)})


def test_without_details_the_peak_stands_for_any_number_of_workers():
    base = base_ram(measurement(base_bytes=3 * GIB, bytes_per_sample=MIB))
    assert base == BaseRam(3 * GIB)
    assert base.with_workers(0) == base.with_workers(16) == 3 * GIB


def test_ranks_share_the_peak():
    ranks = measurement(of=config(num_workers=0), base_bytes=4 * GIB, world_size=4)
    assert base_ram(ranks) == BaseRam(GIB)


def test_tensors_that_wait_in_shared_memory_are_not_in_the_peak():
    eight = config(num_workers=8, prefetch_factor=2)
    assert base_ram(measurement(of=eight, base_bytes=GIB, batch_bytes=512 * MIB)) == BaseRam(GIB)


def test_what_waits_in_the_workers_own_memory_is_in_the_peak_and_no_part_of_the_base():
    two = config(num_workers=2, prefetch_factor=4)
    assert base_ram(measurement(of=two, base_bytes=GIB, batch=piping(MIB))) == BaseRam(GIB - 8 * MIB)
    full = looked_into(GIB // 2, 10 * MIB, of=two, base_bytes=GIB, batch=piping(MIB))
    assert base_ram(full) == BaseRam(GIB - 20 * MIB, 6 * MIB)
    filling = looked_into(GIB // 2, 10 * MIB, False, of=two, base_bytes=GIB, batch=piping(MIB))
    assert base_ram(filling) == BaseRam(GIB - 20 * MIB, 10 * MIB), "how much waited is not known"


def test_a_base_is_never_negative():
    two = config(num_workers=2, prefetch_factor=4)
    assert base_ram(measurement(of=two, base_bytes=0, batch=piping(MIB))) == BaseRam(0)
    assert base_ram(looked_into(0, MIB, of=two, base_bytes=0, batch=piping(MIB))) == BaseRam(0, 0)


def test_with_details_each_worker_counts():
    base = base_ram(looked_into(GIB, 100 * MIB))
    assert base.with_workers(0) == GIB
    assert base.with_workers(8) == GIB + 800 * MIB


def test_processes_beside_the_training_process_and_these_workers_are_part_of_the_base():
    two = config(num_workers=2)
    validating = looked_into(GIB, 100 * MIB, of=two, base_bytes=3 * GIB)
    assert base_ram(validating) == BaseRam(3 * GIB - 200 * MIB, 100 * MIB)
    missed = looked_into(GIB, 100 * MIB, of=two, base_bytes=GIB)
    assert base_ram(missed) == BaseRam(GIB, 100 * MIB), "a peak that was not read at the fullest"


@pytest.mark.parametrize(("main_bytes", "worker_bytes"), [(None, None), (GIB, None), (None, MIB)])
def test_half_of_the_details_is_none(main_bytes: int | None, worker_bytes: int | None):
    assert base_ram(looked_into(main_bytes, worker_bytes, base_bytes=2 * GIB)) == BaseRam(2 * GIB)


def test_a_prediction_follows_the_details_else_the_least_that_was_measured():
    plain = [measurement(base_bytes=size * GIB) for size in (3, 2, 4)]
    assert predicted_base_ram(plain) == BaseRam(2 * GIB)
    assert predicted_base_ram([*plain, looked_into(5 * GIB, MIB)]) == BaseRam(5 * GIB, MIB)
    with pytest.raises(ValueError, match="measure one first"):
        predicted_base_ram([])
