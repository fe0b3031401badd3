"""A loader whose queue is too big for /dev/shm."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tunekit.records.trial import OutcomeKind

TESTS = Path(__file__).parents[1]

pytestmark = pytest.mark.real


@pytest.mark.slow
def test_a_queue_too_big_for_shm_is_refused_with_its_figure_and_named_where_it_was_started(
    tmp_path: Path,
) -> None:
    told = json.loads(_in_small_shm(sys.executable, str(TESTS / "small_shm.py"), str(tmp_path)))
    assert told["refusal"] == "queue 72.0 MiB (predicted): above /dev/shm (64.0 MiB)"
    kind, message, remedy = told["failure"]
    assert kind == OutcomeKind.SHM_EXHAUSTED
    assert "SIGBUS" in message or "shared memory" in message
    assert "--shm-size" in remedy


def _in_small_shm(*command: str) -> str:
    """Return what a command prints with a /dev/shm of 64 MiB that it alone sees."""
    mount = "mount -t tmpfs -o size=64m tmpfs /dev/shm"
    try:
        allowed = subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("a /dev/shm of one's own needs root and mount namespaces (unshare -m)")
    inside = f"{mount} && exec {shlex.join(command)}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", inside], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
