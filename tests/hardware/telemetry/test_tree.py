"""Real processes with known appetites, seen from outside."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tunekit.hardware.telemetry.tree import TreeMeter
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
        assert 64 * MIB <= meter.memory_bytes() < 200 * MIB
    assert len(ballast) == 256 * MIB


def test_between_exact_readings_memory_is_a_lower_bound() -> None:
    clock = Clock()
    with running(HOLDS_MEMORY) as pid:
        meter = TreeMeter(os.getpid(), lambda: [pid], clock)
        exact = meter.memory_bytes()
        clock.now += 0.2
        in_between = meter.memory_bytes()
        assert 64 * MIB <= in_between <= exact
        assert meter.peaks().samples == 1
        clock.now += 600
        meter.memory_bytes()
        assert meter.peaks().samples == 2


def test_the_peak_stays_when_the_process_is_gone() -> None:
    with running(HOLDS_MEMORY) as pid:
        meter = TreeMeter(os.getpid(), lambda: [pid])
        meter.sample()
    assert meter.sample() == 0
    assert meter.peaks().peak_pss_bytes >= 64 * MIB
    assert meter.peaks().processes == 1


def test_counters_of_processes_that_have_ended_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "eight-mib"
    file.write_bytes(bytes(8 * MIB))
    with running(HAS_A_SHORT_CHILD, str(file)) as pid:
        activity = TreeMeter(pid, lambda: descendants(pid)).activity()
    assert activity.processes == 0
    assert activity.cpu_s >= 0.5
    assert activity.rchar_bytes >= 8 * MIB


@pytest.mark.parametrize("gone", [[], [2**22 + 1]])
def test_nothing_below_is_nothing_used(gone: list[int]) -> None:
    meter = TreeMeter(2**22 + 2, lambda: gone)
    assert meter.sample() == 0
    assert meter.memory_bytes() <= 0 + meter.shm_growth_bytes()
    activity = meter.activity()
    assert (activity.cpu_s, activity.read_bytes, activity.processes) == (0.0, 0, 0)
