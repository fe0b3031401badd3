"""Beside processes that spin, a loader that decodes waits for a CPU, one that sleeps for something else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from build_loops import findings
from build_records import host
from real_trials import RealTrials, zoo_target

from tunekit.records.attribution import LoaderWork
from tunekit.records.trial import TrialRecord

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="no schedstat here"),
]

HOGS = 3
"""On the one CPU that the trial may use: its loader gets a quarter."""
HOG = "print('spins', flush=True)\nwhile True: pass"
CAUSES = {"loader-cpu", "loader-contended", "loader-storage", "loader-waits"}


@pytest.fixture
def busy_cpu() -> Iterator[None]:
    """One CPU for this test and all that it starts, and processes that spin on it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    # Each in a session of its own: the kernel may share a CPU among sessions, not among processes.
    hogs = [
        subprocess.Popen([sys.executable, "-c", HOG], stdout=subprocess.PIPE, start_new_session=True)
        for _ in range(HOGS)
    ]
    try:
        for hog in hogs:
            assert hog.stdout is not None
            assert hog.stdout.readline() == b"spins\n"
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.communicate()
        os.sched_setaffinity(0, before)


def told(of: TrialRecord) -> set[str]:
    assert of.failure is None, of.failure
    return {one.code for one in findings(of, host=host(cpus=1))} & CAUSES


def work_of(of: TrialRecord) -> LoaderWork:
    assert of.measurement is not None
    assert of.measurement.loop.loader_work is not None
    return of.measurement.loop.loader_work


@pytest.mark.usefixtures("busy_cpu")
@pytest.mark.parametrize("workers", ["1", "0"])
def test_decoding_on_a_busy_cpu_waits_for_the_cpu(workers: str, tmp_path: Path) -> None:
    of = RealTrials(zoo_target("decodes.py", "--workers", workers), tmp_path).run_baseline()
    assert told(of) == {"loader-contended"}
    work = work_of(of)
    assert of.measurement is not None
    run_queue_s = of.measurement.loop.parts.run_queue_s
    assert run_queue_s is not None
    assert work.run_queue_s is not None
    if workers == "0":  # the loop's thread is the one that decodes, the window's first batch apart
        assert run_queue_s > work.run_queue_s / 2
