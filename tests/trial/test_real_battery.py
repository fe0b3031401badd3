"""A battery of targets that misbehave: each trial ends as its own named outcome and leaves nothing behind."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from real_trials import ZOO, RealTrials, leaked_shared_memory, processes_with, zoo_target

from tunekit.records.codec import read_json
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import OutcomeKind
from tunekit.trial.events import EventReader
from tunekit.trial.keeper import LOG_HEAD_BYTES, LOG_TAIL_BYTES
from tunekit.trial.watch import Limits

pytestmark = pytest.mark.real

USUAL = Limits(trial_s=30, no_progress_s=15, ram_bytes=2 << 30)
IMPATIENT = Limits(trial_s=40, no_progress_s=6, ram_bytes=2 << 30)
BRIEF = Limits(trial_s=10, no_progress_s=30, ram_bytes=2 << 30, start_s=60)
NARROW = Limits(trial_s=30, no_progress_s=15, ram_bytes=700 << 20)

FAILURES = [
    ("crash-at-import", OutcomeKind.SCRIPT_ERROR, "after 0 steps: ImportError: no module named", USUAL),
    (
        "rejected-argument",
        OutcomeKind.SCRIPT_ERROR,
        "exit status 2 after 0 steps; its last line: train",
        USUAL,
    ),
    ("exit-message", OutcomeKind.SCRIPT_ERROR, "exit status 1 after 20 steps; its last line: the lic", USUAL),
    ("keyboard-interrupt", OutcomeKind.SCRIPT_ERROR, "after 20 steps: KeyboardInterrupt", USUAL),
    ("recursion", OutcomeKind.SCRIPT_ERROR, "after 20 steps: RecursionError", USUAL),
    ("odd-error", OutcomeKind.SCRIPT_ERROR, "after 20 steps: ValueError: bad name", USUAL),
    ("no-torch", OutcomeKind.NO_TRAINING_LOOP, "without asking a loader for a batch", USUAL),
    ("sleeps-before-any-batch", OutcomeKind.NO_TRAINING_LOOP, "no batch was asked for", IMPATIENT),
    ("never-steps", OutcomeKind.NO_TRAINING_LOOP, "without one optimizer step", BRIEF),
    ("too-short", OutcomeKind.TOO_SHORT, "ended after 20 optimizer steps", USUAL),
    ("os-exit", OutcomeKind.TOO_SHORT, "gone after 20 optimizer steps", USUAL),
    ("exec", OutcomeKind.TOO_SHORT, "gone after 20 optimizer steps", USUAL),
    ("exec-and-stay", OutcomeKind.HANG, "after 20 batches and 20 steps; its output is in", IMPATIENT),
    ("hangs", OutcomeKind.HANG, "after 20 batches and 20 steps; its output is in", IMPATIENT),
    ("hanging-worker", OutcomeKind.HANG, "the loop waited for a batch from its loader", IMPATIENT),
    ("raising-worker", OutcomeKind.WORKER_CRASH, " steps: ValueError: image 400 is broken", USUAL),
    ("key-error-worker", OutcomeKind.WORKER_CRASH, " steps: KeyError: 'label'", USUAL),
    ("long-error-worker", OutcomeKind.WORKER_CRASH, " steps: ValueError: broken: row row", USUAL),
    ("killed-worker", OutcomeKind.WORKER_CRASH, " steps", USUAL),
    ("exiting-worker", OutcomeKind.WORKER_CRASH, "exit", USUAL),
    ("memory-error-worker", OutcomeKind.HOST_OOM, " steps: MemoryError", USUAL),
    ("hog-worker", OutcomeKind.HOST_OOM, "more than the limit of 700 MiB", NARROW),
    ("hog", OutcomeKind.HOST_OOM, "more than the limit of 700 MiB", NARROW),
    ("device-oom", OutcomeKind.DEVICE_OOM, "OutOfMemoryError: CUDA out of memory", USUAL),
    ("shm-exhausted", OutcomeKind.SHM_EXHAUSTED, "No space left on device", USUAL),
    ("nan-loss", OutcomeKind.NONFINITE_LOSS, "the loss was nan", USUAL),
    ("segfault", OutcomeKind.KILLED, "ended by SIGSEGV after 20 steps", USUAL),
    ("killed", OutcomeKind.KILLED, "ended by SIGKILL after 20 steps", USUAL),
]
"""How a script misbehaves, the outcome, what the message says, the limits."""

HARMLESS = [
    "swallowed-exit",
    "ignored-sigterm",
    "forked-child",
    "daemon",
    "deletes-own-folder",
    "closes-descriptors",
    "raising-thread",
    "noise",
]
"""What a script may do and is measured all the same."""


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the trial a temporary folder of its own; afterwards look for what outlived it."""
    before = set(Path("/dev/shm").iterdir())
    with TemporaryDirectory(dir="/tmp") as temporary:  # short: sockets have short paths
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setattr("tempfile.tempdir", None)
        yield
        left = {path.name for path in Path(temporary).iterdir()}
        assert not any(name.startswith(("pymp-", "tunekit-", "own-")) for name in left)
    assert processes_with(str(tmp_path)) == []
    assert leaked_shared_memory(before) == []


def trials_of(kind: str, folder: Path, limits: Limits = USUAL) -> RealTrials:
    """Return the trials of a script that misbehaves, with a worker if it is the worker that does."""
    workers = "1" if kind.endswith("-worker") else "0"
    target = zoo_target("misbehaves.py", "--kind", kind, "--workers", workers)
    return RealTrials(target, folder, limits, window_s=0.3)


@pytest.mark.parametrize(("kind", "outcome", "told", "limits"), FAILURES, ids=[row[0] for row in FAILURES])
def test_a_target_that_misbehaves_has_its_own_outcome(
    kind: str, outcome: OutcomeKind, told: str, limits: Limits, tmp_path: Path
) -> None:
    failure = trials_of(kind, tmp_path, limits).run_baseline().failure
    assert failure is not None
    assert (failure.kind, told in failure.message) == (outcome, True), failure
    assert failure.remedy
    assert outcome is not OutcomeKind.HANG or str(tmp_path / "0000" / "output.log") in failure.message
    assert all(text.isprintable() for text in (failure.message, failure.remedy, *failure.last_lines))


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_does_not_stop_the_training_does_not_stop_the_trial(kind: str, tmp_path: Path) -> None:
    record = trials_of(kind, tmp_path).run_baseline()
    assert record.failure is None


def test_a_gigabyte_of_output_costs_neither_the_trial_nor_the_disk(tmp_path: Path) -> None:
    record = trials_of("gigabyte", tmp_path).run_baseline()
    assert record.failure is None
    log = tmp_path / "0000" / "output.log"
    assert log.stat().st_size < LOG_HEAD_BYTES + 2 * LOG_TAIL_BYTES + (2 << 20)
    text = log.read_bytes()
    assert text.startswith(b"step 1 zzz")
    assert text.count(b"[tunekit left out ") == 1


def test_garbage_among_the_events_is_passed_over(tmp_path: Path) -> None:
    record = trials_of("garbage-events", tmp_path).run_baseline()
    assert record.failure is None
    reader = EventReader(tmp_path / "0000")
    assert {event.event for event in reader.read_new()} >= {"start", "learnt", "done"}
    assert reader.rejected_lines >= 4


@pytest.mark.slow
def test_a_search_whose_every_trial_with_workers_fails_goes_on_to_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    search = [sys.executable, "-m", "tunekit", "search", "--out", str(folder)]
    search += ["--budget", "5m", "--window", "0.3", "--confirm", "1", "--trials", "4"]
    for fixed in (
        "compile=false",
        "precision=fp32",
        "channels_last=false",
        "pin_memory=false",
        "batch_size=16",
    ):
        search += ["--fix", fixed]
    script = [sys.executable, "misbehaves.py", "--kind", "raising-worker", "--when-workers", "1"]
    ended = subprocess.run([*search, "--", *script], cwd=ZOO, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    run = read_json(folder / "run.json", Run)
    assert run.status is RunStatus.FINISHED
    with_workers = [trial for trial in run.trials if trial.config and trial.config.num_workers]
    assert with_workers
    assert all(t.failure and t.failure.kind is OutcomeKind.WORKER_CRASH for t in with_workers)
    assert all(t.failure is None for t in run.trials if t not in with_workers)
    report = [sys.executable, "-m", "tunekit", "report", str(folder)]
    drawn = subprocess.run(report, capture_output=True, text=True, check=True).stdout
    assert f"{len(with_workers)} trials of {len(run.trials)} ended as worker_crash" in " ".join(drawn.split())
