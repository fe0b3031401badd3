"""Simulated time, held against what the device's description says: one run per torch, many facts of it.

What a busy host can change is compared within the run (a host's stamp with the trace's of the same work),
never with an expectation; of several steps the quickest counts.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import timeline_experiments as experiments
from gpu_environment import on_both_torches

from simgpu.devices import FOLDER
from simgpu.environment import Environment
from simgpu.machine import SimulatedGpu
from simgpu.simulation import state_folder
from simgpu.trace import Work, busy_ns

SLOWER = 16
QUEUED = f"queue_depth={experiments.QUEUE_DEPTH}"
DEVICES = f"a10g:slower={SLOWER},a10g:slower={SLOWER}:{QUEUED},a10g:slower={SLOWER}"
TOLERANCE = 0.03
ROUNDING_NS = 2

pytestmark = on_both_torches


# ---- the model's own words, worked out apart from the sources ----


def described() -> dict[str, float]:
    """The numbers of the device's file."""
    text = (FOLDER / "a10g.conf").read_text()
    return {key: float(value) for key, value in re.findall(r"^(\w+) = ([\d.]+)\b", text, re.MULTILINE)}


def product_ns(rows: int, columns: int, inner: int) -> float:
    """A product in fp32: whole waves of tiles of 128 x 128, a multiprocessor at its share of the rate."""
    device = described()
    tiles = math.ceil(rows / 128) * math.ceil(columns / 128)
    waves = math.ceil(tiles / device["multiprocessors"])
    per_processor = device["fp32_flops_per_s"] / SLOWER / device["multiprocessors"]
    return waves * 2 * 128 * 128 * inner / per_processor * 1e9


def copy_ns(size: int, rate: str) -> float:
    """A copy over PCIe: a latency, then the bytes."""
    return 1500 + size / (described()[rate] / SLOWER) * 1e9


COPY_BYTES = 4 * experiments.COPY_FLOATS
LARGE_NS, SMALL_NS = product_ns(4096, 4096, 4096), product_ns(2048, 2048, 2048)
PINNED_NS = copy_ns(COPY_BYTES, "pinned_bytes_per_s")
PAGEABLE_NS = copy_ns(COPY_BYTES, "pageable_bytes_per_s")


# ---- one run ----


@dataclass(frozen=True)
class Run:
    """What the host said of each experiment, and what the devices did."""

    told: dict[str, Any]
    trace: list[Work]

    def work(self, experiment: str, since: str = "began") -> list[Work]:
        """The work of an experiment, from its stamp `since` on."""
        facts = self.told[experiment]
        begin = facts.get(since, facts["span"][0])
        return [one for one in self.trace if begin <= one.begin_ns < facts["span"][1]]


@pytest.fixture(scope="module")
def run(gpu_torch: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    own = tmp_path_factory.mktemp("timeline")
    with state_folder() as state:
        gpu = SimulatedGpu(gpu_torch, state, own, own)
        done = gpu.run([Path(experiments.__file__)], DEVICES)
        assert done.returncode == 0, done.stderr
        yield Run(json.loads(done.stdout.splitlines()[-1]), gpu.trace())


def durations(work: list[Work]) -> list[int]:
    return [one.duration_ns for one in work]


def test_a_step_takes_what_the_description_says_of_its_kernels_and_copies(run: Run) -> None:
    wide_ns = product_ns(2048, 3072, 768)
    per_step = [PINNED_NS, LARGE_NS, wide_ns, PINNED_NS]
    walls = []
    for began, ended in run.told["steps"]["steps"]:
        work = [one for one in run.trace if began <= one.begin_ns < ended]
        assert durations(work) == pytest.approx(per_step, abs=ROUNDING_NS)
        assert busy_ns(work) == pytest.approx(sum(per_step), abs=4 * ROUNDING_NS)
        assert work[-1].end_ns <= ended  # the host came back when the device was through
        walls.append(ended - began)
    assert min(walls) == pytest.approx(sum(per_step), rel=TOLERANCE)


def test_the_host_is_held_back_by_a_full_queue_and_not_before(run: Run) -> None:
    work = run.work("queue")
    returned = run.told["queue"]["returned"]
    depth = experiments.QUEUE_DEPTH
    assert len(work) == len(returned) == experiments.QUEUED
    assert returned[depth - 1] < work[depth - 1].end_ns
    assert all(back >= oldest.end_ns for back, oldest in zip(returned[depth:], work, strict=False))
    waits = [back - oldest.end_ns for back, oldest in zip(returned[depth:], work, strict=False)]
    assert min(waits) < TOLERANCE * SMALL_NS
    assert work[-1].end_ns - work[0].begin_ns == pytest.approx(experiments.QUEUED * SMALL_NS, rel=1e-6)


def test_copies_take_what_pcie_takes_and_pageable_ones_hold_the_host(run: Run) -> None:
    kernel, pageable, other_kernel, pinned = run.work("copies")
    assert durations([kernel, pageable]) == pytest.approx([LARGE_NS, PAGEABLE_NS], abs=ROUNDING_NS)
    assert durations([other_kernel, pinned]) == pytest.approx([LARGE_NS, PINNED_NS], abs=ROUNDING_NS)
    assert pageable.begin_ns == kernel.end_ns  # in the order of the stream
    assert run.told["copies"]["pageable"] >= pageable.end_ns
    assert run.told["copies"]["pinned"] < pinned.begin_ns
    assert (pageable.engine, pinned.engine) == ("h2d", "h2d")


def test_events_tell_the_times_of_the_trace(run: Run) -> None:
    first, second, third, last = run.work("events")
    told_ms = run.told["events"]["elapsed_ms"]
    true_ns = [second.end_ns - first.end_ns, last.end_ns - second.end_ns]
    assert [1e6 * one for one in told_ms] == pytest.approx(true_ns, rel=1e-6)
    assert true_ns == pytest.approx([SMALL_NS, SMALL_NS + LARGE_NS], rel=1e-6)
    assert third.begin_ns == second.end_ns


def test_a_held_clock_stretches_kernels(run: Run) -> None:
    shares = [one.duration_ns / LARGE_NS for one in run.work("held_clock")]
    assert shares == pytest.approx([1, 1, 2, 2, 1, 1], rel=1e-6)
