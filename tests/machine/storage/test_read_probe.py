import os
import random
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.machine.storage import read_probe
from tunekit.machine.storage.data_files import DataFile
from tunekit.machine.storage.read_probe import (
    Part,
    Reading,
    plan_of,
    read_parts,
)
from tunekit.units import GIB, KIB, MIB

SIZES = st.integers(1, 4 * GIB) | st.integers(1, 4 * MIB) | st.sampled_from([64 * KIB, MIB, 2 * MIB])


def ticking(step_s: float = 0.001) -> Callable[[], float]:
    ticks = count()
    return lambda: next(ticks) * step_s


def sample_of(*sizes: int) -> list[DataFile]:
    return [DataFile(str(number).encode(), size) for number, size in enumerate(sizes)]


@given(st.lists(SIZES, max_size=30))
def test_no_byte_is_read_twice_and_none_beyond_the_end(sizes: list[int]) -> None:
    plan = plan_of(sample_of(*sizes))
    for number, size in enumerate(sizes):
        path = str(number).encode()
        parts = sorted(part for part in (*plan.sequential, *plan.random) if part.path == path)
        ends = [0, *(part.start + part.length for part in parts)]
        assert all(part.start >= end for part, end in zip(parts, ends, strict=False))
        assert ends[-1] <= size
    assert all(part.length > 0 for part in (*plan.sequential, *plan.random))


@given(st.lists(st.integers(4 * MIB + 1, 8 * GIB), min_size=1, max_size=20))
def test_large_files_are_read_at_random_in_pieces_of_one_size(sizes: list[int]) -> None:
    plan = plan_of(sample_of(*sizes))
    assert {part.length for part in plan.random} == {64 * KIB}
    assert sum(part.length for part in plan.random) <= read_probe.MAX_READ_BYTES
    assert not plan.is_small_files


def test_small_files_are_read_whole_by_turns() -> None:
    plan = plan_of(sample_of(*[20 * KIB] * 10))
    assert plan.is_small_files
    assert [part.path for part in plan.sequential] == [b"0", b"2", b"4", b"6", b"8"]
    assert sorted(part.path for part in plan.random) == [b"1", b"3", b"5", b"7", b"9"]
    assert {part.length for part in plan.random} == {20 * KIB}


def test_one_large_file_gives_a_half_to_each_way() -> None:
    plan = plan_of(sample_of(100 * MIB))
    assert plan.sequential == (Part(b"0", 0, 50 * MIB),)
    assert min(part.start for part in plan.random) == 50 * MIB


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[list[Part]]:
    chance = random.Random(1)
    files = []
    for number in range(20):
        path = tmp_path / f"{number:02}"
        path.write_bytes(chance.randbytes(100 * KIB))
        files.append(Part(os.fsencode(path), 0, 100 * KIB))
    yield files
    assert all(len(Path(os.fsdecode(part.path)).read_bytes()) == 100 * KIB for part in files)


def test_all_is_read_and_only_reading_is_timed(parts: list[Part]) -> None:
    reading = read_parts(parts, False, 1e9, ticking(0.5))
    assert (reading.bytes_read, reading.reads, reading.problem) == (20 * 100 * KIB, 20, None)
    assert reading.time_s == pytest.approx(20 * 0.5)
    assert reading.mb_per_s == pytest.approx(20 * 102_400 / 10 / 1e6)


def test_reading_ends_with_its_budget(parts: list[Part]) -> None:
    assert read_parts(parts, True, 0.0, ticking()).bytes_read == 0
    reading = read_parts(parts, True, 10.0, ticking(1.0))
    assert 1 <= reading.reads <= 4


def test_what_vanished_was_cut_or_became_a_pipe_is_left_out(parts: list[Part], tmp_path: Path) -> None:
    Path(os.fsdecode(parts[0].path)).unlink()
    Path(os.fsdecode(parts[1].path)).unlink()
    os.mkfifo(os.fsdecode(parts[1].path))
    os.truncate(parts[2].path, 10)
    os.truncate(parts[3].path, 0)
    reading = read_parts(parts[:5], False, 1e9, ticking())
    assert reading.bytes_read == 10 + 100 * KIB
    assert reading.problem == f"{tmp_path}/00: No such file or directory"
    for part in parts[:4]:
        path = Path(os.fsdecode(part.path))
        path.unlink(missing_ok=True)
        path.write_bytes(b"x" * 100 * KIB)


@pytest.mark.parametrize(
    ("fetched", "is_cold"), [(100 * KIB, True), (99 * KIB, True), (50 * KIB, False), (0, None)]
)
def test_what_the_page_cache_answered_is_told(
    parts: list[Part], monkeypatch: pytest.MonkeyPatch, fetched: int, is_cold: bool | None
) -> None:
    counts = iter([1000, 1000 + fetched])
    monkeypatch.setattr(read_probe, "fetched_bytes", lambda: next(counts))
    assert read_parts(parts[:1], False, 1e9, ticking()).is_cold is is_cold


def test_nothing_is_known_of_what_was_not_read() -> None:
    assert Reading(fetched_bytes=10).is_cold is None
