"""What a real training with a config changes of the user's command."""

import json
from pathlib import Path
from typing import Any

import pytest
from build_records import config, discovery, target
from scripted_search import learnt

from tunekit.records.config import TrainConfig
from tunekit.records.target import Target
from tunekit.trial.binding_syntax import parse_binding
from tunekit.trial.training import Training, prepare_training

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


def test_a_knob_that_is_the_baselines_is_neither_bound_nor_injected(searched: Target, tmp_path: Path) -> None:
    wanted = config(batch_size=2 * OWN.batch_size, pin_memory=not OWN.pin_memory)
    training, request = prepared(wanted, searched, tmp_path / "applied")
    assert training.bound.changed == {"batch_size": wanted.batch_size, "pin_memory": wanted.pin_memory}
    assert training.command == (*COMMAND, "--bs", str(wanted.batch_size))
    assert request["knobs"] == {"pin_memory": wanted.pin_memory}


def test_what_the_command_says_otherwise_by_now_is_put_back(searched: Target, tmp_path: Path) -> None:
    other = searched.model_copy(update={"command": (*COMMAND, "--bs", "7")})
    training, _ = prepared(OWN, other, tmp_path / "applied")
    assert training.bound.changed == {"batch_size": OWN.batch_size}


def test_what_was_said_when_it_was_searched_and_is_left_to_the_default_now_is_said_again(
    searched: Target, tmp_path: Path
) -> None:
    training, _ = prepared(OWN, searched.model_copy(update={"unset_knobs": ()}), tmp_path / "applied")
    assert training.bound.changed.keys() == {"batch_size", "compile"}
