"""Whatever existed before a real trial is afterwards byte for byte the same."""

import hashlib
import os
import sqlite3
from pathlib import Path

import pytest
from real_trials import RealTrials, zoo_target

from tunekit.records.host import SandboxKind
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.trial import sandbox

pytestmark = pytest.mark.real


def fingerprints(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Return the hash, mode and modification time of every file, and the target of every link."""
    seen = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        if path.is_symlink():
            seen[str(path)] = (str(path.readlink()), 0, 0)
        elif path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            seen[str(path)] = (digest, status.st_mode, status.st_mtime_ns)
    return seen


def kept(folder: Path, old: dict[str, tuple[str, int, int]]) -> bool:
    """Return whether every old file is there as it was."""
    now = fingerprints(folder)
    return {path: now.get(path) for path in old} == old


def fill(folder: Path, *names: str) -> None:
    """Make the user's files, older than any trial."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"data of " + name.encode())
        os.utime(path, (1, 1))


@pytest.fixture(
    params=["overlay", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("landlock", "none"))]
)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> SandboxKind:
    found, reasons = sandbox.probe(str(tmp_path), [request.param])
    if request.param not in ("none", found) and "TUNEKIT_NEEDS_SANDBOX" not in os.environ:
        pytest.skip(f"{request.param} does not hold here: {reasons[request.param]}")
    return request.param


def denied(record: TrialRecord) -> set[str]:
    return {written.path for written in record.written if written.action == "denied"}


def test_a_script_that_does_everything_to_its_files(kind: SandboxKind, tmp_path: Path) -> None:
    user = tmp_path / "user"
    fill(user, "step-1.pt", "step-2.pt", "state.json", "best.pt")
    fill(user, "model.safetensors", "scripted.pt", "rows.npy", "train.log", "train.log.1", "data.bin")
    with sqlite3.connect(user / "runs.db") as runs:
        runs.execute("create table runs (name text)")
        runs.execute("insert into runs values ('an old one')")
    runs.close()
    old = fingerprints(user)
    trials = RealTrials(zoo_target("harmful.py", "--folder", str(user)), tmp_path / "trials", sandbox=kind)
    record = trials.run_baseline()
    assert record.failure is None, trials.output(0)[-2000:]
    assert kept(user, old)
    assert denied(record) == {str(user / f"step-{number}.pt") for number in (1, 2)}
    events = "".join(path.read_text() for path in (tmp_path / "trials" / "0000").glob("events-*.jsonl"))
    assert "guard_error" not in events


def test_a_transformers_trainer_rotates_nothing(kind: SandboxKind, tmp_path: Path) -> None:
    user = tmp_path / "user"
    fill(user, "checkpoint-5/model.safetensors", "checkpoint-5/trainer_state.json", "model.safetensors")
    old = fingerprints(user)
    trials = RealTrials(
        zoo_target("hf_checkpoints.py", "--folder", str(user)), tmp_path / "trials", sandbox=kind
    )
    record = trials.run_baseline()
    assert record.failure is None, trials.output(0)[-2000:]
    assert fingerprints(user) == old
    assert "transformers.Trainer._save_checkpoint" in denied(record)


def test_a_transformers_trainer_ends_without_its_best_checkpoint(kind: SandboxKind, tmp_path: Path) -> None:
    user = tmp_path / "user"
    fill(user, "checkpoint-5/model.safetensors", "model.safetensors")
    old = fingerprints(user)
    target = zoo_target("hf_checkpoints.py", "--folder", str(user), "--steps", "5", "--best")
    trials = RealTrials(target, tmp_path / "trials", window_s=5.0, sandbox=kind)
    record = trials.run_baseline()
    assert record.failure is not None
    assert record.failure.kind is OutcomeKind.TOO_SHORT, trials.output(0)[-2000:]
    assert "trained to the end" in trials.output(0)
    assert fingerprints(user) == old


@pytest.mark.parametrize("steps", ["100000", "5"])
def test_a_lightning_trainer_replaces_nothing(steps: str, kind: SandboxKind, tmp_path: Path) -> None:
    user = tmp_path / "user"
    fill(user, "best.ckpt", "final.ckpt")
    (user / "last.ckpt").symlink_to("best.ckpt")
    old = fingerprints(user)
    target = zoo_target("lightning_checkpoints.py", "--folder", str(user), "--steps", steps)
    trials = RealTrials(target, tmp_path / "trials", sandbox=kind)
    record = trials.run_baseline()
    assert (record.failure is None) == (steps == "100000"), trials.output(0)[-2000:]
    assert ("trained to the end" in trials.output(0)) == (steps == "5")
    assert fingerprints(user) == old
    assert "lightning.Trainer.save_checkpoint" in denied(record)


def test_accelerate_and_the_hub_save_and_send_nothing(kind: SandboxKind, tmp_path: Path) -> None:
    user = tmp_path / "user"
    fill(user, "checkpoints/checkpoint_1/model.safetensors", "checkpoints/checkpoint_2/model.safetensors")
    old = fingerprints(user)
    trials = RealTrials(
        zoo_target("accelerate_and_hub.py", "--folder", str(user)), tmp_path / "trials", sandbox=kind
    )
    record = trials.run_baseline()
    assert record.failure is None, trials.output(0)[-2000:]
    assert fingerprints(user) == old
    assert denied(record) == {
        "accelerate.Accelerator.save_state",
        "huggingface_hub.create_repo",
        "huggingface_hub.upload_folder",
        "huggingface_hub.upload_file",
    }
