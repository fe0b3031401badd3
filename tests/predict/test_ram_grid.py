"""Workers x prefetch against a host's memory: rows, bytes, borders of the verdicts."""

import pytest
from build_records import GIB, MIB, host, hosts
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.ram import GridCell, ram_grid
from tunekit.records.host import Host
from tunekit.records.recommendation import RamVerdict

ORDER = [RamVerdict.SAFE, RamVerdict.RISKY, RamVerdict.OOM]


def cell(cells: tuple[GridCell, ...], workers: int, prefetch: int | None) -> GridCell:
    (found,) = [one for one in cells if (one.num_workers, one.prefetch_factor) == (workers, prefetch)]
    return found


def rows(cells: tuple[GridCell, ...]) -> list[int]:
    return list(dict.fromkeys(one.num_workers for one in cells))


@pytest.mark.parametrize(
    ("cpus", "present", "workers"),
    [
        (1, None, [1, 2]),
        (6, None, [1, 2, 4, 6, 8]),
        (8, (5, 2), [1, 2, 4, 5, 8, 16]),
        (8, (0, None), [0, 1, 2, 4, 8, 16]),
        (2, (40, 2), [1, 2, 4, 40]),
    ],
)
def test_rows_double_up_to_one_beyond_the_cpus(
    cpus: int, present: tuple[int, int | None] | None, workers: list[int]
):
    assert rows(ram_grid(MIB, 0, 0, host(cpus=cpus), present)) == workers


def test_other_loaders_have_their_cells_too():
    cells = ram_grid(MIB, 0, 0, host(cpus=4), (3, 2), others=[(5, 6), (1, 1)])
    assert rows(cells) == [1, 2, 3, 4, 5, 8]
    assert cell(cells, 5, 6).buffer_bytes == 30 * MIB
    assert [one.num_workers for one in cells if one.is_present] == [3]


def test_each_row_has_the_usual_prefetches_and_the_present_one():
    cells = ram_grid(MIB, 0, 0, host(cpus=2), (2, 3))
    assert [one.prefetch_factor for one in cells if one.num_workers == 2] == [1, 2, 3, 4, 8]
    assert [one for one in cells if one.is_present] == [cell(cells, 2, 3)]


def test_bytes_are_base_workers_and_buffer():
    one = cell(ram_grid(3 * MIB, 100 * MIB, 10 * MIB, host()), 4, 2)
    assert one.buffer_bytes == 4 * 2 * 3 * MIB
    assert one.ram_bytes == (100 + 4 * 10 + 24) * MIB
    assert (one.verdict, one.why) == (RamVerdict.SAFE, None)


def test_each_verdict_names_its_limit_with_its_figure():
    small = host(cpus=8, ram_limit_bytes=1000 * MIB, ram_total_bytes=1000 * MIB, shm_bytes=None)
    cells = ram_grid(50 * MIB, 200 * MIB, 10 * MIB, small)
    assert cell(cells, 2, 2).verdict is RamVerdict.SAFE
    risky = cell(cells, 4, 2)
    assert (risky.verdict, risky.limit, risky.buffer_bytes) == (
        RamVerdict.RISKY,
        "safe share of RAM",
        400 * MIB,
    )
    full = cell(cells, 8, 2)
    assert (full.verdict, full.limit, full.ram_bytes) == (RamVerdict.OOM, "RAM", 1080 * MIB)


def test_shared_memory_is_a_limit_of_its_own():
    docker = host(shm_bytes=64 * MIB)
    cells = ram_grid(16 * MIB, 0, 0, docker)
    assert cell(cells, 1, 2).verdict is RamVerdict.SAFE
    assert (cell(cells, 2, 2).verdict, cell(cells, 2, 2).limit) == (RamVerdict.OOM, "/dev/shm")


@given(
    st.floats(0, 512 * MIB),
    st.integers(0, 16 * GIB),
    st.integers(0, 2 * GIB),
    hosts(),
    st.none() | st.tuples(st.integers(1, 40), st.integers(1, 20)) | st.just((0, None)),
)
def test_more_workers_or_prefetch_never_give_a_better_verdict(
    batch_bytes: float, main: int, worker: int, machine: Host, present: tuple[int, int | None] | None
):
    cells = ram_grid(batch_bytes, main, worker, machine, present)
    assert len(cells) == len({(one.num_workers, one.prefetch_factor) for one in cells})
    assert sum(one.is_present for one in cells) == (present is not None)
    for one in cells:
        assert (one.why is None) == (one.limit is None) == (one.verdict is RamVerdict.SAFE)
        for other in cells:
            more = one.num_workers <= other.num_workers and (one.prefetch_factor or 0) <= (
                other.prefetch_factor or 0
            )
            if more:
                assert ORDER.index(one.verdict) <= ORDER.index(other.verdict)
                assert one.ram_bytes <= other.ram_bytes
