"""The trace that the devices write, read as records."""

from pathlib import Path

import pytest

from simgpu.errors import SimgpuError
from simgpu.trace import Work, read_trace


def test_work_of_all_processes_comes_in_the_order_of_its_begins(tmp_path: Path) -> None:
    (tmp_path / "12.tsv").write_text(
        "50\t60\t0\t0\tcompute\t0\tgemm bf16 8x8x8\n10\t30\t1\t2\th2d\t4096\tcopy\n"
    )
    (tmp_path / "7.tsv").write_text("20\t25\t0\t0\td2h\t8\tname with\ttab\n")
    assert read_trace(tmp_path) == [
        Work(12, 10, 30, 1, 2, "h2d", 4096, "copy"),
        Work(7, 20, 25, 0, 0, "d2h", 8, "name with\ttab"),
        Work(12, 50, 60, 0, 0, "compute", 0, "gemm bf16 8x8x8"),
    ]
    assert read_trace(tmp_path)[0].duration_ns == 20


def test_a_line_that_was_cut_off_with_its_process_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "12.tsv").write_text("10\t30\t1\t2\th2d\t4096\tcopy\n50\t60\t0\t0\tcomp")
    assert len(read_trace(tmp_path)) == 1


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "12.tsv").write_text("10\t30\t1\t2\th2d\t4096\tcopy\nno work\n")
    with pytest.raises(SimgpuError, match=r"12\.tsv:2 .*'no work'"):
        read_trace(tmp_path)
