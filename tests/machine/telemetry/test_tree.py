"""Real processes with known appetites, seen from outside."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.machine.telemetry.tree import TreeMeter, thinned
from tunekit.records.trial import MemoryPoint
from tunekit.trial.keeper import descendants
from tunekit.units import MIB

HOLDS_MEMORY = """
import sys
held = bytearray(64 << 20)
held[::4096] = b"x" * len(held[::4096])
print("ready", flush=True)
sys.stdin.read()
"""

HAS_A_SHORT_CHILD = """
import subprocess, sys
code = (
    "import time\\n"
    "while time.process_time() < 0.5: pass\\n"
    f"with open({sys.argv[1]!r}, 'rb') as stream:\\n"
    "    while stream.read(1 << 20): pass\\n"
)
subprocess.run([sys.executable, "-c", code], check=True)
print("ready", flush=True)
sys.stdin.read()
"""


FORKS = """
import os, signal, sys
held = bytearray(64 << 20)
held[::4096] = b"x" * len(held[::4096])
children = []
for _ in range(5):
    pid = os.fork()
    if not pid:
        signal.pause()
    children.append(pid)
print("ready", flush=True)
sys.stdin.read()
for pid in children:
    os.kill(pid, signal.SIGKILL)
"""


GROWS = """
import sys
held = []
print("ready", flush=True)
for line in sys.stdin:
    held.append(bytearray(32 << 20))
    held[-1][::4096] = b"x" * len(held[-1][::4096])
    print("grown", flush=True)
"""


@contextmanager
def running(code: str, *words: str) -> Iterator[int]:
    """Yield the pid of a process that has done its work and waits."""
    command = [sys.executable, "-c", code, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_memory_is_that_of_the_processes_below_and_not_of_the_root_itself() -> None:
    ballast = bytearray(256 * MIB)
    with running(HOLDS_MEMORY) as pid:
        meter = TreeMeter(os.getpid(), lambda: [pid])
        assert 64 * MIB <= meter.sample() < 200 * MIB
    assert len(ballast) == 256 * MIB


def test_memory_is_read_exactly_now_and_then_and_whenever_it_could_be_above_the_limit() -> None:
    clock = Clock()
    with running(HOLDS_MEMORY) as pid:
        meter = TreeMeter(os.getpid(), lambda: [pid], clock)
        assert not meter.is_above(1 << 40)
        assert meter.peaks().samples == 1
        clock.now += 0.4
        assert not meter.is_above(1 << 40)
        assert meter.peaks().samples == 1  # cheap: nothing is near the limit
        clock.now += 0.4
        assert meter.is_above(32 * MIB)
        assert meter.peaks().samples == 2
        assert meter.last_pss_bytes > 32 * MIB
        clock.now += 600
        assert not meter.is_above(1 << 40)
        assert meter.peaks().samples == 3


def test_pages_that_forks_share_count_once() -> None:
    with running(FORKS) as pid:
        meter = TreeMeter(pid, lambda: [pid, *descendants(pid)])
        assert meter.anonymous_bytes() > 5 * 64 * MIB
        assert not meter.is_above(200 * MIB)
        assert 64 * MIB <= meter.peaks().peak_pss_bytes < 200 * MIB
        assert meter.peaks().processes == 6


@pytest.mark.parametrize("error", [RuntimeError("empty file"), ValueError("field"), AttributeError("none")])
def test_a_kernel_that_tells_nothing_is_no_failure(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(process: psutil.Process) -> None:
        raise error

    for question in ("memory_full_info", "memory_info", "cpu_times", "io_counters"):
        monkeypatch.setattr(psutil.Process, question, refuse)
    meter = TreeMeter(os.getpid(), lambda: [os.getpid()])
    assert meter.sample() == 0
    assert not meter.is_above(1 << 40)
    assert (meter.activity().cpu_s, meter.activity().rchar_bytes) == (0.0, 0)


def test_counters_of_processes_that_have_ended_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "eight-mib"
    file.write_bytes(bytes(8 * MIB))
    with running(HAS_A_SHORT_CHILD, str(file)) as pid:
        activity = TreeMeter(pid, lambda: descendants(pid)).activity()
    assert activity.processes == 0
    assert activity.cpu_s >= 0.45  # the kernel counts in hundredths
    assert activity.rchar_bytes >= 8 * MIB


def test_growth_is_what_was_read_exactly_or_at_least() -> None:
    clock = Clock()
    command = [sys.executable, "-c", GROWS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        meter = TreeMeter(os.getpid(), lambda: [process.pid], clock)
        meter.is_above(1 << 40)
        for _ in range(3):
            process.stdin.write("more\n")
            process.stdin.flush()
            assert process.stdout.readline() == "grown\n"
            clock.now += 0.3  # too soon for another exact reading
            assert not meter.is_above(1 << 40)
        assert meter.peaks().samples == 1
        assert meter.is_above(64 * MIB) is False  # asked too soon after the last time
        clock.now += 0.3
        assert meter.is_above(64 * MIB)
        process.stdin.close()
    growth = meter.growth()
    assert [point.at_s for point in growth] == pytest.approx([0.0, 0.3, 0.6, 0.9, 1.2])
    sizes = [point.pss_bytes for point in growth]
    assert sizes == sorted(sizes)
    assert sizes[-1] == meter.last_pss_bytes == meter.peaks().peak_pss_bytes
    steps = [later - earlier for earlier, later in itertools.pairwise(sizes)]
    assert all(28 * MIB <= step <= 36 * MIB for step in steps[1:3]), steps


@given(st.lists(st.integers(0, 1 << 40), max_size=300), st.integers(3, 64))
def test_a_thinned_curve_keeps_its_first_and_last_reading_and_its_peak(sizes: list[int], most: int) -> None:
    points = [MemoryPoint(at_s=index, pss_bytes=size) for index, size in enumerate(sizes)]
    kept = thinned(points, most)
    assert len(kept) <= most
    assert len(kept) >= min(len(points), most - 1)
    assert [point.at_s for point in kept] == sorted({point.at_s for point in kept})
    if points:
        assert (kept[0], kept[-1]) == (points[0], points[-1])
        assert max(point.pss_bytes for point in kept) == max(sizes)
