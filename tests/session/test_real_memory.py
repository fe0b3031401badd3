"""A baseline that is too big for the machine is not the end."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from build_records import GIB, host, options, profile, run
from real_trials import zoo_target
from scripted_search import RecordingListener

from tunekit.records.recommendation import Tier
from tunekit.records.run import FixedKnob
from tunekit.records.trial import OutcomeKind
from tunekit.session.folder import RunFolder
from tunekit.session.predicted import Machine
from tunekit.session.search import Search
from tunekit.trial.executor import ProcessExecutor
from tunekit.trial.watch import Limits

TESTS = Path(__file__).parents[1]

pytestmark = pytest.mark.real


def test_a_baseline_out_of_memory_is_searched_on_from_smaller_batches(tmp_path: Path) -> None:
    target = zoo_target("big_batch.py")
    fixed = [("num_workers", 0), ("compile", False), ("precision", "fp32")]
    asked = options(
        budget_s=300.0,
        max_trials=2,
        confirm_rounds=1,
        window_s=0.3,
        fixed=tuple(FixedKnob(knob=knob, value=value) for knob, value in fixed),
    )
    here = host(accelerators=(), cpus=2, ram_limit_bytes=23 * GIB)
    machine = Machine(profile=profile("cpu", native_precisions=("fp32",)), native_bf16=False)
    started = run(
        target=target, options=asked, host=here, profile=machine.profile, measured_on="cpu", trials=()
    )
    limits = Limits(trial_s=60.0, no_progress_s=30.0, ram_bytes=1100 << 20)
    with RunFolder(tmp_path / "run") as folder:
        executor = ProcessExecutor(target, folder.trials_folder, limits, asked.window_s)
        finished = Search(started, folder, executor, machine, RecordingListener()).run()

    baseline, smaller = finished.trials[:2]
    assert baseline.failure is not None
    assert baseline.failure.kind is OutcomeKind.HOST_OOM
    assert baseline.config is not None
    assert baseline.config.batch_size == 64
    assert smaller.config is not None
    # Half of it, unless the baseline had told of itself before it was ended: then what the search proposes.
    assert smaller.config.batch_size < 64
    assert smaller.measurement is not None
    assert {tier.tier for tier in finished.recommendations} == set(Tier)
    assert all(tier.speedup is None and tier.config.batch_size < 64 for tier in finished.recommendations)
    assert "baseline-failed" in {note.code for note in finished.findings}


@pytest.mark.slow
def test_a_queue_too_big_for_shm_is_refused_with_its_figure_and_named_where_it_was_started(
    tmp_path: Path,
) -> None:
    told = json.loads(_in_small_shm(sys.executable, str(TESTS / "small_shm.py"), str(tmp_path)))
    assert told["refusal"] == "the loader's queue needs 72.0 MiB of /dev/shm (predicted), which has 64.0 MiB"
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
