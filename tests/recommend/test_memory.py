"""The buffer of a measured config: its size follows the largest samples, its verdict the host."""

from build_loops import CPU
from build_records import GIB, MIB, config, host, largest_seen, measurement

from tunekit.predict.ram import base_ram
from tunekit.recommend.memory import memory_need, peak_reserved_bytes
from tunekit.records.details import Details
from tunekit.records.recommendation import RamVerdict


def test_a_buffer_is_workers_times_prefetch_batches():
    knobs = config(num_workers=4, prefetch_factor=3)
    found = memory_need(knobs, [measurement(of=knobs, bytes_per_sample=1000)], host())
    assert (found.buffer_bytes, found.buffer_verdict) == (4 * 3 * 128 * 1000, RamVerdict.SAFE)


def test_without_workers_there_is_none():
    knobs = config(num_workers=0)
    found = memory_need(knobs, [measurement(of=knobs)], host())
    assert (found.buffer_bytes, found.buffer_verdict) == (0, None)


def test_largest_samples_count():
    knobs = config()
    usual = measurement(of=knobs, bytes_per_sample=1000)
    seen = usual.model_copy(update={"details": Details(largest=largest_seen(batch_bytes=400_000))})
    assert memory_need(knobs, [usual, seen], host()).buffer_bytes == 2 * 2 * 400_000


def test_memory_that_grows_with_each_batch_is_counted_to_the_epochs_end():
    grows = {"growth_bytes_per_batch": MIB, "epoch_batches": 391, "epoch_samples": 50_000}
    on_gpu, on_cpu = measurement(**grows), measurement(device=CPU, base_bytes=GIB, **grows)
    left = (391 - on_gpu.loop.steady_batches) * MIB
    assert peak_reserved_bytes(on_gpu) == (on_gpu.loop.peak_reserved_bytes or 0) + left > left > 0
    assert base_ram(on_cpu).main_bytes == GIB + left


def test_memory_that_grows_with_each_epoch_is_counted_until_torchs_streams_come_round():
    grown, flat = (measurement(boundaries_seen=3, growth_bytes_per_epoch=each) for each in (48 * MIB, None))
    assert peak_reserved_bytes(grown) == (peak_reserved_bytes(flat) or 0) + 28 * 48 * MIB


def test_a_small_machine_makes_it_risky():
    knobs = config(num_workers=8, prefetch_factor=8)
    measured = [measurement(of=knobs, bytes_per_sample=1 << 20)]
    assert memory_need(knobs, measured, host()).buffer_verdict is RamVerdict.RISKY
    assert memory_need(knobs, measured, host(shm_bytes=GIB)).buffer_verdict is RamVerdict.OOM
