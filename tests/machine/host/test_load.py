"""How busy the CPUs are, on this very machine."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tunekit.machine.host.load import busy_share

SPIN = "print(flush=True)\nwhile True: pass"


@pytest.fixture
def hog() -> Iterator[None]:
    """One CPU for this test, and a process on it that does nothing but compute, already running."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    spinning = subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE)
    try:
        assert spinning.stdout is not None
        spinning.stdout.readline()
        yield
    finally:
        spinning.kill()
        spinning.communicate()
        os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("hog")
def test_what_other_programs_compute_is_seen():
    assert busy_share() > 0.5
