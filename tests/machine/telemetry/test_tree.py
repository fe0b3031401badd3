"""Real processes with known appetites, seen from outside."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tunekit.machine.telemetry.tree import TreeMeter
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
