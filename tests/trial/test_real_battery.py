"""Scripts that misbehave: each trial has its own outcome or is measured all the same, and leaves nothing."""

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from real_trials import Plan, Ran, is_alive, leaked_shared_memory, looking_at, processes_with

from tunekit.records.trial import OutcomeKind
from tunekit.trial.events import EventReader
from tunekit.trial.keeper import LOG_HEAD_BYTES, LOG_TAIL_BYTES
from tunekit.trial.watch import Limits

pytestmark = pytest.mark.real

USUAL = Limits(trial_s=60, no_progress_s=30, ram_bytes=2 << 30)
IMPATIENT = Limits(trial_s=60, no_progress_s=3, ram_bytes=2 << 30)
BRIEF = Limits(trial_s=3, no_progress_s=30, ram_bytes=2 << 30, start_s=60)
NARROW = Limits(trial_s=60, no_progress_s=30, ram_bytes=700 << 20)


def misbehaving(kind: str, outcome: OutcomeKind | None = None, said: str = "", **more: Any) -> Plan:
    """A script that misbehaves, with a worker if it is the worker that does."""
    workers = "1" if kind.endswith("-worker") else "0"
    words = ("python", "misbehaves.py", "--kind", kind, "--workers", workers)
    return Plan(words, outcome=outcome, said=said, **{"limits": USUAL} | more)


nightly = partial(misbehaving, is_slow=True)


def put_own_sitecustomize(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text("print('my own', __name__, flush=True)\n")
    os.environ["PYTHONPATH"] = str(folder)


HOG = misbehaving("hog", OutcomeKind.HOST_OOM, "700 MiB", limits=NARROW)
CRASH = misbehaving("crash-at-import", OutcomeKind.SCRIPT_ERROR, "flash_attn_9")
TOO_SHORT = misbehaving(
    *("too-short", OutcomeKind.TOO_SHORT, "after 20"),
    environment={"PYTHONPATH": ""},
    prepare=put_own_sitecustomize,
)
FAILURES = [
    CRASH,
    misbehaving("no-torch", OutcomeKind.NO_TRAINING_LOOP),
    nightly("sleeps-before-any-batch", OutcomeKind.NO_TRAINING_LOOP, limits=IMPATIENT),
    nightly("never-steps", OutcomeKind.NO_TRAINING_LOOP, limits=BRIEF),
    TOO_SHORT,
    nightly("os-exit", OutcomeKind.TOO_SHORT, "after 20"),
    misbehaving("hangs", OutcomeKind.HANG, "20 batches", limits=IMPATIENT),
    nightly("hanging-worker", OutcomeKind.HANG, "from its loader", limits=IMPATIENT),
    misbehaving("raising-worker", OutcomeKind.WORKER_CRASH, "image 400"),
    nightly("killed-worker", OutcomeKind.WORKER_CRASH, "steps"),
    HOG,
    nightly("device-oom", OutcomeKind.DEVICE_OOM, "OutOfMemoryError"),
    nightly("shm-exhausted", OutcomeKind.SHM_EXHAUSTED, "torch_123"),
    misbehaving("nan-loss", OutcomeKind.NONFINITE_LOSS, "nan"),
    misbehaving("segfault", OutcomeKind.KILLED, "SIGSEGV after 20"),
]
GARBAGE, GIGABYTE = nightly("garbage-events"), nightly("gigabyte")
HARMLESS = [GARBAGE, GIGABYTE, misbehaving("ignored-sigterm"), nightly("swallowed-exit")]


@pytest.fixture(scope="module", autouse=True)
def shared_memory_before() -> set[Path]:
    """What is in /dev/shm before the first trial."""
    return set(Path("/dev/shm").iterdir())


@looking_at(*FAILURES, *HARMLESS)
def test_a_target_that_misbehaves_has_its_own_outcome_and_leaves_nothing(
    ran: Ran, shared_memory_before: set[Path]
) -> None:
    failure, expected = ran.baseline.failure, ran.plan.outcome
    assert (failure and failure.kind) == expected, failure
    if failure is not None:
        assert ran.plan.said in failure.message
        assert failure.remedy
        assert expected is not OutcomeKind.HANG or str(ran.trials / "0000" / "output.log") in failure.message
        assert all(text.isprintable() for text in (failure.message, failure.remedy, *failure.last_lines))
    assert not any(name.startswith(("pymp-", "tunekit-")) for name in ran.left)
    assert processes_with(str(ran.trials)) == []
    assert leaked_shared_memory(shared_memory_before) == []


@looking_at(CRASH)
def test_the_scripts_own_last_lines_are_kept(ran: Ran) -> None:
    failure = ran.baseline.failure
    assert failure is not None
    assert failure.last_lines[-1] == "ImportError: no module named flash_attn_9"
    assert failure.returncode == 1


@looking_at(GIGABYTE)
def test_a_gigabyte_of_output_costs_neither_the_trial_nor_the_disk(ran: Ran) -> None:
    log = ran.trials / "0000" / "output.log"
    assert log.stat().st_size < LOG_HEAD_BYTES + 2 * LOG_TAIL_BYTES + (2 << 20)
    text = log.read_bytes()
    assert text.startswith(b"step 1 zzz")
    assert text.count(b"[tunekit left out ") == 1


@looking_at(GARBAGE)
def test_garbage_among_the_events_is_passed_over(ran: Ran) -> None:
    reader = EventReader(ran.trials / "0000")
    assert {event.event for event in reader.read_new()} >= {"start", "learnt", "done"}
    assert reader.rejected_lines >= 4


@looking_at(Plan(("python", "sequential.py", "--daemon", "--workers", "2")))
def test_daemons_workers_and_children_end_with_the_trial(ran: Ran) -> None:
    assert ran.baseline.failure is None
    lines = ran.printed().splitlines()
    pids = [int(line.split()[1]) for line in lines if line.startswith(("daemon", "child"))]
    assert len(pids) == 2
    assert not any(map(is_alive, pids))
    assert processes_with(str(ran.trials)) == []


@looking_at(Plan(("python", "ends_by_itself.py"), window_s=30.0))
def test_a_script_that_ends_by_itself_is_measured_by_what_it_did(ran: Ran) -> None:
    assert ran.baseline.measurement is not None
    assert ran.baseline.measurement.loop.stop_reason == "loop_ended"
    assert ran.printed() == "trained\n"


@looking_at(Plan(("python", "ends_by_itself.py", "--exit", "3"), window_s=30.0, is_slow=True))
def test_a_script_that_ends_badly_is_an_error_however_much_it_trained(ran: Ran) -> None:
    failure = ran.baseline.failure
    assert failure is not None
    assert (failure.kind, failure.returncode) == (OutcomeKind.SCRIPT_ERROR, 3)


@looking_at(TOO_SHORT)
def test_the_users_own_sitecustomize_still_runs(ran: Ran) -> None:
    assert "my own sitecustomize" in ran.printed()


@looking_at(Plan(("grep", "SigIgn", "/proc/self/status")))
def test_the_target_inherits_no_ignored_signal(ran: Ran) -> None:
    ignored = int(ran.printed().split()[1], 16)
    ours = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)
    assert ignored & sum(1 << (number - 1) for number in ours) == 0


SEGMENT = "touch /dev/shm/torch_$$_1_1 && ls /dev/shm/torch_$$_1_1 && sleep 60"


@looking_at(Plan(("sh", "-c", SEGMENT), limits=Limits(trial_s=1.0, no_progress_s=30.0, ram_bytes=1 << 30)))
def test_shared_memory_that_a_killed_process_had_not_yet_unlinked_is_removed(ran: Ran) -> None:
    made = Path(ran.printed().strip())
    assert made.name.startswith("torch_")
    assert not made.exists()
