"""Real projects, tuned unmodified: nothing that they had is touched, and the training writes for real."""

import hashlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from real_trials import ZOO, free_port, processes_with
from zoo_trials import python_without_tunekit

from tunekit.records.codec import read_json
from tunekit.records.run import Run, RunStatus

pytestmark = pytest.mark.real

PYTHON = sys.executable
QUICK = ("--trials", "2", "--confirm", "1", "--window", "0.3", "--budget", "10m")
OLD_FILES = {
    "out/checkpoint-3/model.safetensors": b"forty hours of training",
    "out/checkpoint-3/trainer_state.json": b'{"global_step": 3}',
    "out/last/optimizer.bin": b"momentum of last week",
    "out/model.pt": b"the model of last week",
    "out/ckpt.pt": b"the model of the week before",
    "out/epoch=0-step=5.ckpt": b"a checkpoint of Lightning's",
    "notes.md": b"# what we tried\n",
}
"""What a project already has, much of it where its script is about to write."""


def launcher(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


@dataclass(frozen=True)
class Project:
    """A training command, as its user types it in the project's folder."""

    name: str
    command: tuple[str, ...]
    flags: tuple[str, ...] = ()
    tuned: str = "num_workers"
    """A knob that the search must have been able to move."""


LOADER = ("--fix", "precision=fp32", "--fix", "compile=false")
TORCHRUN = (launcher("torchrun"), "--nproc_per_node", "2", "--master_port", "PORT")
ACCELERATE = (
    *(launcher("accelerate"), "launch", "--num_processes", "1", "--num_machines", "1", "--cpu"),
    *("--mixed_precision", "no", "--dynamo_backend", "no"),
)
GPT = (
    *(PYTHON, "gpt_no_loader.py", "--output", "out"),
    *("--batch_size", "12", "--gradient_accumulation_steps", "2"),
)
BOUND_GPT = (
    *("--bind", "batch_size=--batch_size {}"),
    *("--bind", "accumulate_grad_batches=--gradient_accumulation_steps {}"),
    *("--global-batch", "24", "--fix", "compile=false"),
)
PROJECTS = [
    Project("hf-trainer", (PYTHON, "hf_trainer.py", "--output", "out"), LOADER),
    Project("lightning", (PYTHON, "lightning_fit.py", "--output", "out"), LOADER),
    Project("accelerate", (*ACCELERATE, "accelerate_loop.py", "--output", "out"), LOADER),
    Project("torchrun", (*TORCHRUN, "ddp_gloo.py", "--output", "out"), LOADER),
    Project("gpt", GPT, BOUND_GPT, tuned="batch_size"),
    Project(
        "scaler", (PYTHON, "scaler_accumulate.py", "--output", "out", "--init-scale", "65536"), LOADER[2:]
    ),
    Project("iterable-sharded", (PYTHON, "iterable.py", "--shards", "--output", "out"), LOADER),
    Project("other-environment", ("OTHER_PYTHON", "lstm_padded.py", "--output", "out"), LOADER),
]


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has torch and no tunekit."""
    return str(python_without_tunekit(tmp_path_factory.mktemp("environment")))


def hashes(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in OLD_FILES}


def files_in(folder: Path) -> dict[str, tuple[int, int]]:
    """Return every file with its size and modification time."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(folder))] = (status.st_size, status.st_mtime_ns)
    return found


def wait_for_change(
    folder: Path, before: dict[str, tuple[int, int]], training: subprocess.Popen[bytes]
) -> bool:
    """Return whether a file appeared or changed before the training ended or a minute passed."""
    end = time.monotonic() + 60
    while time.monotonic() < end and training.poll() is None:
        if files_in(folder) != before:
            return True
        time.sleep(0.1)
    return files_in(folder) != before


@pytest.mark.slow  # the tests of trials reach these loops
@pytest.mark.parametrize("project", [pytest.param(one, id=one.name) for one in PROJECTS])
def test_a_project_is_tuned_unmodified_and_unharmed(
    project: Project, tmp_path: Path, other_python: str
) -> None:
    script = next(word for word in project.command if word.endswith(".py"))
    for name in (script, "plain_loop.py"):
        (tmp_path / name).write_bytes((ZOO / name).read_bytes())
    for name, content in OLD_FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, (1, 1))
    before = hashes(tmp_path)
    places = {"PORT": str(free_port()), "OTHER_PYTHON": other_python}
    command = [places.get(word, word) for word in project.command]

    searching = [PYTHON, "-m", "tunekit", "search", *QUICK, *project.flags, "--out", "run", "--", *command]
    done = subprocess.run(searching, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert hashes(tmp_path) == before
    assert not processes_with(str(tmp_path / "run" / "trials"))
    run = read_json(tmp_path / "run" / "run.json", Run)
    assert run.status is RunStatus.FINISHED
    assert [trial.failure for trial in run.trials if trial.failure] == []
    assert run.recommendations
    assert {entry.knob for entry in run.space if entry.is_searched} >= {project.tuned}

    outputs = files_in(tmp_path / "out")
    config = tmp_path / "run" / "balanced.yaml"
    with (tmp_path / "training.log").open("wb") as log:
        training = subprocess.Popen(
            [PYTHON, "-m", "tunekit", "run", str(config), "--keep-lr", "--", *command],
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
    try:
        changed = wait_for_change(tmp_path / "out", outputs, training)
        assert changed, (tmp_path / "training.log").read_text()
    finally:
        training.terminate()  # a launcher ends its ranks before itself
        training.wait(timeout=60)
