"""CPUs, memory and /dev/shm: which machine is warned of, and which just not."""

from collections.abc import Callable
from typing import Any

import pytest
from build_checkups import (
    checkup,
    codes,
    found,
    gpu,
    loader_plan,
    only_finding,
    without_gpu,
)
from build_records import GIB, MIB
from finding_texts import texts_of

from tunekit.records.host import Sandbox

QUEUE = 17 * 147 * MIB
"""Of `loader_plan()` in /dev/shm: 8 workers x prefetch 2 + 1 batches."""

BUFFER = 16 * 147 * MIB
"""Of `loader_plan()` in memory: 8 workers x prefetch 2 batches."""


def cpus(count: int, **more: Any) -> dict[str, Any]:
    return {"cpus": count, "cpus_total": count, "cpus_affinity": count, "torch": None} | more


def ram(limit_bytes: int, **more: Any) -> dict[str, Any]:
    sizes = {"ram_limit_bytes": limit_bytes, "ram_total_bytes": limit_bytes, "ram_available_bytes": None}
    return sizes | more


ROWS = [
    ram(5 * BUFFER - 5, loader=loader_plan(), shm_bytes=4 * GIB),
    {"shm_bytes": QUEUE - 1, "loader": loader_plan()},
    {"shm_bytes": 4 * GIB, "shm_used_bytes": 4 * GIB - QUEUE + 1, "loader": loader_plan()},
    {"shm_bytes": 8 * GIB, "loader": loader_plan(processes=4), "environment": {"OMP_NUM_THREADS": "1"}},
    {"shm_bytes": 512 * MIB - 1},
    {"shm_bytes": 64 * MIB, "loader": loader_plan(batch_bytes=None)},
    {"shm_bytes": 0},
    {"shm_bytes": None},
    {"shm_bytes": None, "loader": loader_plan()},
    {"shm_bytes": 64 * GIB, "shm_used_bytes": 32 * GIB + 1},
    ram(500 * GIB, ram_available_bytes=100 * GIB - 1),
    {"load_average": 16.04},
    {"numa_nodes": 2, "accelerators": (gpu(0, numa_node=1), gpu(1, numa_node=None), gpu(2, numa_node=0))},
    {"open_files_limit": 1024, "loader": loader_plan(8)},
    {"open_files_limit": 256},
    {"sandbox": Sandbox(kind="landlock", reasons={"overlay": "no user namespaces"})},
    {"sandbox": Sandbox(kind="none", reasons={"overlay": "none", "landlock": "old"})},
]


def test_what_a_machine_lacks_is_told(golden: Callable[[str], object]):
    assert texts_of([only_finding(checkup(**machine)) for machine in ROWS]) == golden("host.txt")


@pytest.mark.parametrize(
    "machine",
    [
        {"shm_bytes": QUEUE, "loader": loader_plan()},
        {"shm_bytes": 4 * GIB, "shm_used_bytes": 4 * GIB - QUEUE, "loader": loader_plan()},
        {"shm_bytes": 512 * MIB},
        {"shm_bytes": None, "loader": loader_plan(0)},
        {"shm_bytes": 64 * MIB, "loader": loader_plan(0)},
        {"shm_bytes": 64 * GIB, "shm_used_bytes": 32 * GIB},
        {"shm_used_bytes": None},
        ram(500 * GIB, ram_available_bytes=100 * GIB),
        {"ram_available_bytes": None},
        {"load_average": 16.0},
        {"load_average": None},
        {"numa_nodes": 1, "accelerators": (gpu(numa_node=0),)},
        {"numa_nodes": 2, "accelerators": (gpu(numa_node=None),)},
        {"numa_nodes": None, "accelerators": (gpu(numa_node=0),)},
        {"open_files_limit": 1024, "loader": loader_plan(7)},
        {"open_files_limit": 1025, "loader": loader_plan(8)},
        {"open_files_limit": None, "loader": loader_plan(8)},
        {"sandbox": Sandbox(kind="overlay")},
    ],
)
def test_what_just_suffices_is_no_finding(machine: dict[str, Any]):
    assert codes(checkup(**machine)) == []


@pytest.mark.parametrize(
    ("ram_bytes", "severity"),
    [
        (5 * BUFFER, None),
        (5 * BUFFER - 5, "warning"),
        (int(BUFFER / 0.85) + 1, "warning"),
        (int(BUFFER / 0.85) - 1, "error"),
    ],
)
def test_the_buffer_is_held_against_memory(ram_bytes: int, severity: str | None):
    seen = found(without_gpu(**ram(ram_bytes, loader=loader_plan())), None)
    expected = [("large-buffer", severity, BUFFER)] if severity else []
    assert [(one.code, one.severity, one.value) for one in seen if one.code != "no-gpu"] == expected


@pytest.mark.parametrize(
    ("count", "load", "severity"),
    [
        (2, 1.0, None),
        (2, 1.05, "info"),
        (2, 1.5, "info"),
        (2, 1.55, "warning"),
        (8, 4.05, "warning"),
    ],
)
def test_what_one_process_that_has_just_ended_leaves_is_a_note(count: int, load: float, severity: str | None):
    seen = found(checkup(**cpus(count, load_average=load)))
    assert [one.severity for one in seen if one.code == "busy-cpus"] == ([severity] if severity else [])
