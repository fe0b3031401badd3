"""What a loop's processes take without a buffer: told apart where they were looked into."""

import pytest
from build_records import GIB, MIB, config, measurement

from tunekit.memory.base import BaseRam, base_ram, predicted_base_ram
from tunekit.records.details import Details, QueueSeen
from tunekit.records.measurement import Measurement


def looked_into(main_bytes: int | None, worker_bytes: int | None, **more) -> Measurement:
    queue = QueueSeen(
        batches=5,
        predicted_bytes=0,
        shm_bytes=0,
        is_full=True,
        main_base_bytes=main_bytes,
        worker_base_bytes=worker_bytes,
    )
    return measurement(**more).model_copy(update={"details": Details(queue=queue)})


def test_without_details_the_peak_less_the_buffer_stands_for_any_number_of_workers():
    base = base_ram(measurement(base_bytes=3 * GIB, bytes_per_sample=MIB))
    assert base == BaseRam(3 * GIB)
    assert base.with_workers(0) == base.with_workers(16) == 3 * GIB


def test_ranks_share_the_peak():
    ranks = measurement(of=config(num_workers=0), base_bytes=4 * GIB, world_size=4)
    assert base_ram(ranks) == BaseRam(GIB)


def test_a_buffer_that_never_filled_leaves_no_negative_base():
    assert base_ram(measurement(base_bytes=0, batch_bytes=GIB)) == BaseRam(0)


def test_with_details_each_worker_counts():
    base = base_ram(looked_into(GIB, 100 * MIB))
    assert base.with_workers(0) == GIB
    assert base.with_workers(8) == GIB + 800 * MIB


@pytest.mark.parametrize(("main_bytes", "worker_bytes"), [(None, None), (GIB, None), (None, MIB)])
def test_half_of_the_details_is_none(main_bytes: int | None, worker_bytes: int | None):
    assert base_ram(looked_into(main_bytes, worker_bytes, base_bytes=2 * GIB)) == BaseRam(2 * GIB)


def test_a_prediction_follows_the_details_else_the_least_that_was_measured():
    plain = [measurement(base_bytes=size * GIB) for size in (3, 2, 4)]
    assert predicted_base_ram(plain) == BaseRam(2 * GIB)
    assert predicted_base_ram([*plain, looked_into(5 * GIB, MIB)]) == BaseRam(5 * GIB, MIB)
    with pytest.raises(ValueError, match="measure one first"):
        predicted_base_ram([])
