"""What a real training with a config changes of the user's command."""

import json
from pathlib import Path
from typing import Any

import pytest
from build_records import config, discovery, target
from scripted_search import learnt

from tunekit.errors import UsageError
from tunekit.records.config import TrainConfig
from tunekit.records.target import Target
from tunekit.trial.binding_syntax import parse_binding
from tunekit.trial.training import Training, bindings_here, prepare_training

OWN = config()
COMMAND = ("python", "train.py", "--workers", str(OWN.num_workers))
NAMED = tuple(TrainConfig.model_fields)


@pytest.fixture
def searched(tmp_path: Path) -> Target:
    """A script that has its batch size by default, its precision in a file, compile by a variable."""
    (tmp_path / "train.yaml").write_text(f"precision: {OWN.precision.value}\n")
    texts = (
        "batch_size=--bs {}",
        "num_workers=--workers {}",
        "precision=train.yaml:precision",
        "compile=env:COMPILE",
    )
    return target(
        command=COMMAND,
        working_dir=str(tmp_path),
        script=str(tmp_path / "train.py"),
        bindings=tuple(parse_binding(text) for text in texts),
        unset_knobs=("batch_size", "compile"),
    )


def prepared(
    wanted: TrainConfig, searched: Target, folder: Path, **overrides: Any
) -> tuple[Training, dict[str, Any]]:
    """Return the training and the knobs that its agent is asked to set."""
    own = {"named": NAMED} | overrides
    found = own.pop("found", learnt(OWN))
    training = prepare_training(searched, wanted, OWN, found, folder, {"HOME": "/root"}, **own)
    request = json.loads(Path(training.environment["TUNEKIT_REQUEST"]).read_text())
    return training, request


@pytest.mark.parametrize("found", [learnt(OWN), discovery(loaders=())], ids=["loader", "no loader"])
def test_a_config_that_is_the_baselines_changes_nothing(found: Any, searched: Target, tmp_path: Path) -> None:
    training, request = prepared(OWN, searched, tmp_path / "applied", found=found)
    assert training.command == COMMAND
    assert training.bound.changed == {}
    assert (request["knobs"], request["redirected"]) == ({}, {})
    added = set(training.environment) - {"HOME", "PATH", "PYTHONPATH", "TUNEKIT_REQUEST"}
    assert added == set()


def test_what_the_command_says_otherwise_by_now_is_put_back(searched: Target, tmp_path: Path) -> None:
    other = searched.model_copy(update={"command": (*COMMAND, "--bs", "7")})
    training, _ = prepared(OWN, other, tmp_path / "applied")
    assert training.bound.changed == {"batch_size": OWN.batch_size}


def test_what_was_said_when_it_was_searched_and_is_left_to_the_default_now_is_said_again(
    searched: Target, tmp_path: Path
) -> None:
    training, _ = prepared(OWN, searched.model_copy(update={"unset_knobs": ()}), tmp_path / "applied")
    assert training.bound.changed.keys() == {"batch_size", "compile"}


def project(folder: Path, *command: str, start_in: str = ".") -> Target:
    """Make a project whose script has a config file, and return a command that trains in it.

    Args:
        folder: gets the project.
        command: the script's own arguments.
        start_in: folder below that one that the command is started in.
    """
    (folder / start_in).mkdir(parents=True, exist_ok=True)
    (folder / "configs").mkdir(exist_ok=True)
    (folder / "configs/full.yaml").write_text("bs: 8\n")
    script = str(folder / "train.py")
    return target(
        command=("python", script, *command), working_dir=str((folder / start_in).resolve()), script=script
    )


def bound(searched: Target) -> Target:
    return searched.model_copy(update={"bindings": (parse_binding("batch_size=configs/full.yaml:bs"),)})


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("configs/full.yaml", lambda folder: (f"{folder}/configs/full.yaml",)),
        ("--config=configs/full.yaml", lambda folder: (f"--config={folder}/configs/full.yaml",)),
        ("configs/full.yaml", lambda folder: ("../configs/full.yaml",)),
        ("--epochs=3", lambda folder: ("--epochs=3",)),
    ],
    ids=["absolute", "after a flag", "relative", "beside the script"],
)
@pytest.mark.parametrize("trained", ["searched", "copy"])
def test_a_bound_file_is_the_one_that_this_command_reads(
    tmp_path: Path, trained: str, flag: str, words: Any
) -> None:
    searched = bound(project(tmp_path / "searched", flag))
    folder = tmp_path / trained
    here = project(folder, *words(folder), start_in="jobs")
    (binding,) = bindings_here(searched, here)
    assert binding.path is not None
    assert (Path(here.working_dir) / binding.path).resolve() == folder / "configs/full.yaml"


def test_a_command_that_reads_another_file_is_refused(tmp_path: Path) -> None:
    searched = bound(project(tmp_path / "searched", "configs/full.yaml"))
    with pytest.raises(UsageError, match="which this command does not name"):
        bindings_here(searched, project(tmp_path / "searched", "configs/small.yaml"))
