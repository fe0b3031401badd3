"""Whatever existed before a real trial is afterwards byte for byte the same."""

import ast
import hashlib
import os
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from real_trials import Plan, Ran, looking_at

from tunekit.records.trial import OutcomeKind
from tunekit.trial import sandbox

pytestmark = pytest.mark.real


def fingerprints(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Return the hash, mode and modification time of every file, and the target of every link."""
    seen = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        if path.is_symlink():
            seen[str(path)] = (str(path.readlink()), 0, 0)
        elif path.is_file() and path.name != BEFORE:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            seen[str(path)] = (digest, status.st_mode, status.st_mtime_ns)
    return seen


BEFORE = "before.txt"
LINK = "last.ckpt"


def fill(names: tuple[str, ...], folder: Path) -> None:
    """Make the user's files, older than any trial, and keep what they are."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == LINK:
            path.symlink_to("best.ckpt")
        elif name.endswith(".db"):
            with sqlite3.connect(path) as runs:
                runs.execute("create table runs (name text)")
                runs.execute("insert into runs values ('an old one')")
            runs.close()
        else:
            path.write_bytes(b"data of " + name.encode())
            os.utime(path, (1, 1))
    (folder / BEFORE).write_text(repr(fingerprints(folder)))


def saving(script: str, *files: str, words: tuple[str, ...] = (), **more: Any) -> list[Plan]:
    """Return a plan for each way in which a trial is kept from the user's files."""
    command = ("python", script, "--folder", "{output}", *words)
    name = "-".join((script, *words))
    return [
        Plan(
            command,
            prepare=partial(fill, files),
            sandbox=kind,
            name=f"{name}-{kind}",
            **{"is_slow": script != "harmful.py"} | more,
        )
        for kind in ("overlay", "landlock", "none")
    ]


def denied(ran: Ran) -> set[str]:
    kind = ran.plan.sandbox
    found, reasons = sandbox.probe(str(ran.output), [kind])
    if kind not in ("none", found) and "TUNEKIT_NEEDS_SANDBOX" not in os.environ:
        pytest.skip(f"{kind} does not hold here: {reasons[kind]}")
    return {written.path for written in ran.baseline.written if written.action == "denied"}


EVERYTHING = saving(
    *("harmful.py", "step-1.pt", "step-2.pt", "state.json", "best.pt", "model.safetensors", "scripted.pt"),
    *("rows.npy", "train.log", "train.log.1", "data.bin", "runs.db"),
)
CHECKPOINT = ("checkpoint-5/model.safetensors", "checkpoint-5/trainer_state.json", "model.safetensors")
ROTATING = saving("hf_checkpoints.py", *CHECKPOINT)
TO_THE_END = {"outcome": OutcomeKind.TOO_SHORT, "is_slow": True, "window_s": 5.0}
BEST = ("--steps", "5", "--best")
LIGHTNING = saving("lightning_checkpoints.py", "best.ckpt", "final.ckpt", LINK)
HUB = saving("accelerate_and_hub.py", *(f"checkpoints/checkpoint_{n}/model.safetensors" for n in (1, 2)))


@looking_at(
    *EVERYTHING,
    *ROTATING,
    *saving("hf_checkpoints.py", "checkpoint-5/model.safetensors", words=BEST, **TO_THE_END),
    *LIGHTNING,
    *saving("lightning_checkpoints.py", "best.ckpt", LINK, words=("--steps", "5"), **TO_THE_END),
    *HUB,
)
def test_no_old_file_changes_and_no_new_one_is_left(ran: Ran) -> None:
    denied(ran)
    failure = ran.baseline.failure
    assert (failure and failure.kind) == ran.plan.outcome, ran.printed()[-2000:]
    before = ast.literal_eval((ran.output / BEFORE).read_text())
    now = fingerprints(ran.output)
    assert now == before or ran.plan.words[1] == "harmful.py"
    assert {path: now.get(path) for path in before} == before
    assert ran.plan.outcome is None or "trained to the end" in ran.printed()


@looking_at(*EVERYTHING)
def test_what_was_denied_is_listed_and_the_guard_has_no_fault(ran: Ran) -> None:
    assert denied(ran) == {str(ran.output / f"step-{number}.pt") for number in (1, 2)}
    events = "".join(path.read_text() for path in (ran.trials / "0000").glob("events-*.jsonl"))
    assert "guard_error" not in events


@looking_at(*ROTATING, *LIGHTNING, *HUB)
def test_frameworks_save_and_send_nothing(ran: Ran) -> None:
    assert (
        denied(ran)
        >= {
            "hf_checkpoints.py": {"transformers.Trainer._save_checkpoint"},
            "lightning_checkpoints.py": {"lightning.Trainer.save_checkpoint"},
            "accelerate_and_hub.py": {
                "accelerate.Accelerator.save_state",
                "huggingface_hub.create_repo",
                "huggingface_hub.upload_folder",
                "huggingface_hub.upload_file",
            },
        }[ran.plan.words[1]]
    )
