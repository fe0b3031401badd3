"""What batches take in pinned memory, where torch's host allocator gives out powers of two."""

from typing import Any

import pytest
from build_records import GIB, MIB, baseline_record, config, cpu, host, loop, trial_record

from simgpu.machine import SimulatedGpu
from tunekit.predict.ram import buffer_bytes, held_per_sample, pinned_growth
from tunekit.recommend.memory import memory_need
from tunekit.recommend.tiers import violations
from tunekit.records.attribution import BatchSeen, LeafSeen
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.recommendation import Tier
from tunekit.tune.feasibility import why_infeasible

LABEL_BYTES = 8


def batch_of(sample_bytes: int, samples: int, **text: int) -> BatchSeen:
    """A batch of one tensor of samples and one of labels."""
    leaves = [
        LeafSeen(path="[0]", kind="tensor", bytes=sample_bytes * samples),
        LeafSeen(path="[1]", kind="tensor", bytes=LABEL_BYTES * samples),
        *(LeafSeen(path=name, kind="text", bytes=size) for name, size in text.items()),
    ]
    return BatchSeen(
        samples=samples,
        total_bytes=sum(leaf.bytes for leaf in leaves),
        shared_bytes=sum(leaf.bytes for leaf in leaves),
        piped_bytes=sum(text.values()),
        leaves=tuple(leaves),
    )


def looped(batch: BatchSeen | None, **overrides: Any) -> LoopMeasurement:
    of = config(batch_size=batch.samples if batch else 64)
    return loop(1000.0, of, **{"batch": batch, **overrides})


def test_each_tensor_takes_the_next_power_of_two() -> None:
    """A float32 picture of 3 x 224 x 224: 128 of them are 73.5 MiB, and pinned 128 MiB."""
    of = looped(batch_of(3 * 224 * 224 * 4, 128))
    assert pinned_growth(config(batch_size=128, pin_memory=True), of) == pytest.approx(128 / 73.5, rel=1e-4)
    assert pinned_growth(config(batch_size=100, pin_memory=True), of) == pytest.approx(64 / 57.42, rel=1e-3)


def test_a_tensor_that_is_a_power_of_two_grows_by_nothing_though_its_labels_come_on_top() -> None:
    exact = looped(batch_of(1 << 16, 128))
    assert pinned_growth(config(batch_size=128, pin_memory=True), exact) == 1.0
    assert pinned_growth(config(batch_size=256, pin_memory=True), exact) == 1.0


@pytest.mark.parametrize(
    ("pins", "overrides"),
    [(False, {}), (True, {"device": cpu()}), (True, {"batch": None})],
)
def test_what_is_not_pinned_or_not_known_grows_by_nothing(pins: bool, overrides: dict[str, Any]) -> None:
    of = looped(**{"batch": batch_of(100_000, 64), **overrides})
    assert pinned_growth(config(batch_size=64, pin_memory=pins), of) == 1.0


def test_text_is_not_pinned() -> None:
    of = looped(batch_of(100_000, 64, names=6_400_000))
    data = 64 * (100_000 + LABEL_BYTES) + 6_400_000
    grown = (1 << 23) + 64 * LABEL_BYTES + 6_400_000
    assert pinned_growth(config(batch_size=64, pin_memory=True), of) == pytest.approx(grown / data)


def test_a_config_is_refused_held_to_its_tier_and_shown_by_what_it_takes_pinned() -> None:
    """64 batches of 37 MiB are 2.3 GiB, and pinned 4 GiB: the limit lies between."""
    batch = batch_of(37 * MIB // 64, 64)
    pinned = config(batch_size=64, num_workers=8, prefetch_factor=8, pin_memory=True)
    plain = pinned.model_copy(update={"pin_memory": False})
    known = {"batch": batch, "batch_bytes": batch.total_bytes}
    small = host(ram_limit_bytes=5 * GIB, ram_total_bytes=5 * GIB)
    first = baseline_record(of=config(batch_size=64, num_workers=0, prefetch_factor=None), **known)
    assert why_infeasible(plain, [first], small) is None
    assert "buffer 4.0 GiB (predicted)" in (why_infeasible(pinned, [first], small) or "")
    records = [trial_record(1, of=one, **known) for one in (plain, pinned)]
    broken = [[line for line in violations(one, Tier.AGGRESSIVE, small) if "RAM" in line] for one in records]
    assert not broken[0] and broken[1]
    for one, expected in zip((plain, pinned), (64 * batch.total_bytes, 4 * GIB), strict=True):
        (record,) = [record for record in records if record.config == one]
        assert record.measurement is not None
        shown = memory_need(one, [record.measurement], small)
        assert shown.buffer_bytes == pytest.approx(expected, rel=1e-3)


PINS = """
import time
import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.zeros(1600, 3, 40, 40), torch.zeros(1600, dtype=torch.int64))
batches = iter(DataLoader(data, 50, num_workers=2, prefetch_factor=4, pin_memory=True))
for _ in range(8):
    images, labels = next(batches)
    images.to("cuda", non_blocking=True)
def early():  # taken from the queue before their turn
    return sum(len(one) == 2 for one in batches._task_info.values())
while batches._data_queue.qsize() + early() < 8:
    time.sleep(0.01)
print(torch.cuda.host_memory_stats()["allocated_bytes.peak"])
"""


def test_torchs_own_host_allocator_takes_what_is_predicted(simulated_gpu: SimulatedGpu) -> None:
    """All of workers x prefetch batches wait there, beside what the loop has at hand and still copies."""
    batch = batch_of(3 * 40 * 40 * 4, 50)
    of = looped(batch, batch_bytes=batch.total_bytes)
    pinned = config(batch_size=50, num_workers=2, prefetch_factor=4, pin_memory=True)
    done = simulated_gpu.run(["-c", PINS])
    assert done.returncode == 0, done.stderr
    predicted = buffer_bytes(pinned, pinned.batch_bytes(held_per_sample(pinned, of)))
    assert int(done.stdout) in [predicted * batches // 8 for batches in (8, 9, 10)]
    assert predicted == 8 * ((1 << 20) + 512)
