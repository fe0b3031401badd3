"""How busy the CPUs are, on this very machine."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tunekit.machine.host.load import busy_share

SPIN = "print(flush=True)\nwhile True: pass"


@pytest.fixture
def hogs() -> Iterator[None]:
    """A process for each CPU that does nothing but compute, each running by the time the test begins."""
    running = [
        subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE)
        for _ in os.sched_getaffinity(0)
    ]
    for one in running:
        assert one.stdout is not None
        one.stdout.readline()
    yield
    for one in running:
        one.kill()
        one.communicate()


@pytest.mark.usefixtures("hogs")
def test_what_other_programs_compute_is_seen():
    assert busy_share() > 0.5
