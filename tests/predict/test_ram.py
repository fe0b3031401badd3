"""The loader's RAM buffer: exact bytes, and the borders of its verdicts."""

import pytest
from build_records import GIB, MIB, config, configs, host, hosts
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.ram import buffer_bytes, loader_ram, queue_bytes
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.recommendation import RamVerdict

LIMIT = 1000 * MIB
roomy = host(ram_limit_bytes=LIMIT, ram_total_bytes=LIMIT, shm_bytes=None)
tenth = config(num_workers=1, prefetch_factor=1, batch_size=100)
"""100 samples in the buffer: with a MiB each, a tenth of the limit."""


@pytest.mark.parametrize(
    ("workers", "prefetch", "batch", "buffer_batches", "queue_batches"),
    [(0, None, 64, 0, 0), (1, 1, 64, 1, 2), (4, 2, 64, 8, 9), (16, 4, 8, 64, 65)],
)
def test_buffer_and_queue_are_counted_in_batches(
    workers: int, prefetch: int | None, batch: int, buffer_batches: int, queue_batches: int
):
    knobs = config(num_workers=workers, prefetch_factor=prefetch, batch_size=batch)
    assert buffer_bytes(knobs, knobs.batch_bytes(1000)) == buffer_batches * batch * 1000
    assert queue_bytes(knobs, knobs.batch_bytes(1000)) == queue_batches * batch * 1000


SAFE, RISKY, OOM = RamVerdict.SAFE, RamVerdict.RISKY, RamVerdict.OOM
none = config(num_workers=0)
SHM = 200 * 1000
"""What the queue of `tenth` takes with samples of 1,000 bytes."""


@pytest.mark.parametrize(
    ("knobs", "sample_bytes", "base_bytes", "machine", "verdict"),
    [
        (tenth, 2 * MIB, 0, roomy, SAFE),
        (tenth, 2 * MIB + 1, 0, roomy, RISKY),
        (tenth, 5 * MIB, 350 * MIB, roomy, RISKY),
        (tenth, 5 * MIB, 350 * MIB + 1, roomy, OOM),
        (none, MIB, 850 * MIB, roomy, SAFE),
        (none, MIB, 851 * MIB, roomy, OOM),
        (none, MIB, 0, host(shm_bytes=0), SAFE),
        (tenth, 1000, 0, host(shm_bytes=None), SAFE),
        (tenth, 1000, 0, host(shm_bytes=SHM), SAFE),
        (tenth, 1000, 0, host(shm_bytes=SHM - 1), OOM),
        (tenth, 1000, 0, host(shm_bytes=MIB, shm_used_bytes=MIB - SHM), SAFE),
        (tenth, 1000, 0, host(shm_bytes=MIB, shm_used_bytes=MIB - SHM + 1), OOM),
    ],
)
def test_the_borders_of_the_verdicts(
    knobs: TrainConfig, sample_bytes: int, base_bytes: int, machine: Host, verdict: RamVerdict
):
    told = loader_ram(knobs, sample_bytes, base_bytes, machine)
    assert told.verdict is verdict
    assert (told.why_oom is not None) == (verdict is OOM)


def test_shared_memory_is_held_against_whole_pages_and_ram_against_the_bytes():
    """200 samples in the queue, of 1,000 bytes each and 4,096 in /dev/shm."""
    exact, smaller = host(shm_bytes=200 * 4096), host(shm_bytes=200 * 4096 - 1)
    assert [loader_ram(tenth, 1000, 0, one, 4096).verdict for one in (exact, smaller)] == [SAFE, OOM]
    assert loader_ram(tenth, 1000, 0, host(shm_bytes=0), 0.0).verdict is SAFE, "arrays go through pipes"
    assert loader_ram(tenth, 5 * MIB, 350 * MIB + 1, roomy, 0.0).verdict is OOM


def test_the_ranks_of_one_machine_share_what_is_free():
    shared = host(shm_bytes=8 * MIB, shm_used_bytes=5 * MIB).per_rank(2)
    assert (shared.shm_bytes, shared.shm_free_bytes) == (4 * MIB, 3 * MIB // 2)


@given(configs(), st.floats(1, MIB), st.integers(0, GIB), hosts())
def test_less_memory_never_gives_a_better_verdict(
    knobs: TrainConfig, bytes_per_sample: float, base_bytes: int, machine: Host
):
    order = list(RamVerdict)
    half = machine.model_copy(update={"ram_limit_bytes": max(1, machine.ram_limit_bytes // 2)})
    before = loader_ram(knobs, bytes_per_sample, base_bytes, machine).verdict
    assert order.index(loader_ram(knobs, bytes_per_sample, base_bytes, half).verdict) >= order.index(before)
