"""benchmarks/gpu_check.py keeps what it saw when a part of it fails or takes too long."""

import re

import pytest
from gpu_environment import ROOT

from simgpu.machine import SimulatedGpu


@pytest.mark.parametrize(
    ("limit", "why"),
    [([], "exit 1 / .*: CUDA out of memory.* / exit 1 of "), (["--limit", "0.01"], "stopped at its limit")],
)
def test_a_part_that_ends_early_is_a_row_and_the_next_part_runs(
    simulated_gpu: SimulatedGpu, limit: list[str], why: str
) -> None:
    results = simulated_gpu.own / "simulated.md"
    words = ["--only", "device", "--only", "device", "--results", results, *limit]
    done = simulated_gpu.run([ROOT / "benchmarks" / "gpu_check.py", *words], fail="cudaMalloc:2")
    rows = re.findall(r"^\| device \| (.*) \| FAILED \|$", results.read_text(), re.MULTILINE)
    assert (done.returncode, len(rows)) == (1, 2), done.stderr
    assert all(re.search(why, row) for row in rows)
