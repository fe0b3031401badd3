"""What the agent tells of a script's command line, in the script's own process, for each kind of parser."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from _tunekit_agent import options as agent_options
from hypothesis import given
from hypothesis import strategies as st
from real_trials import ZOO

from tunekit.records.agent_messages import AgentRequest, OptionsEvent, dump_request
from tunekit.records.config import KnobsAsked
from tunekit.records.target import ScriptOption
from tunekit.trial.events import EventReader
from tunekit.trial.knob_names import ALL_NAMES, plain_name
from tunekit.trial.launch import agent_path

SECRETS = ("sk-12345", "hunter2", "hf_12345", "abc")


def parsed(folder: Path, script: str, *words: str, code: str | None = None) -> dict[str, ScriptOption]:
    """Run a script that only parses under the real agent; return the options that it told last, by name."""
    request = AgentRequest(
        trial_folder=str(folder),
        working_dir=str(folder),
        scratch_folder=str(folder),
        started_at_s=time.time(),
        knobs=KnobsAsked(),
        loader=None,
        roots=(),
        window_s=1.0,
        option_names=ALL_NAMES,
    )
    (folder / "request.json").write_text(json.dumps(dump_request(request)))
    path = ZOO / "parsers" / f"with_{script}.py"
    if code is not None:
        path = folder / "script.py"
        path.write_text(code)
    process = subprocess.run(
        [sys.executable, str(path), *words],
        env={
            **os.environ,
            "PYTHONPATH": agent_path({}),
            "TUNEKIT_REQUEST": str(folder / "request.json"),
            "PARSE_ONLY": "1",
        },
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    reader = EventReader(folder)
    reported = [event for event in reader.read_new() if isinstance(event, OptionsEvent)]
    assert reader.rejected_lines == 0
    lines = "".join(one.read_text() for one in folder.glob("events-*.jsonl"))
    assert not any(secret in lines for secret in SECRETS)
    return {option.name: option for option in reported[-1].options} if reported else {}


def facts(option: ScriptOption) -> tuple[Any, ...]:
    return (str(option.form), option.flags, option.off, option.value)


PARSERS = {
    "argparse --batchSize 8": {
        "batchSize": ("flag", ("--batchSize", "-b"), (), 8),
        "jobs": ("flag", ("-j", "--jobs"), (), 0),
        "lr": ("flag", ("--lr-base",), (), 0.05),
        "amp": ("switch", ("--amp",), (), False),
        "pin_mem": ("switch", (), ("--no-pin-mem",), True),
        "compile": ("switch", ("--compile",), ("--no-compile",), False),
        "dtype": ("flag", ("--dtype",), (), "bfloat16"),
    },
    "argparse -c 3 --amp --no-pin-mem": {
        "batchSize": ("flag", ("--batchSize", "-b"), (), 3),
        "amp": ("switch", ("--amp",), (), True),
        "pin_mem": ("switch", (), ("--no-pin-mem",), False),
    },
    "subcommands fit --bs 4": {
        "bs": ("flag", ("--bs",), (), 4),
        "learning_rate": ("flag", ("--learning_rate",), (), 0.05),
    },
    "click fit -b 4 --amp": {
        "batch_size": ("flag", ("--batch-size", "-b"), (), 4),
        "num_workers": ("flag", ("--num-workers",), (), 0),
        "precision": ("flag", ("--precision",), (), "fp32"),
        "amp": ("switch", ("--amp",), ("--no-amp",), True),
        "lr": ("flag", ("--lr",), (), 0.05),
    },
    "typer --bs 4": {
        "batch_size": ("flag", ("--bs",), (), 4),
        "workers": ("flag", ("--workers",), (), 0),
        "learning_rate": ("flag", ("--learning-rate",), (), 0.05),
        "dtype": ("flag", ("--dtype",), (), "float32"),
        "amp": ("switch", ("--amp",), ("--no-amp",), False),
    },
    "absl -b 4": {
        "train_batch_size": ("flag", ("--train_batch_size",), (), 4),
        "dataloader_num_workers": ("flag", ("--dataloader_num_workers",), (), 0),
        "base_lr": ("flag", ("--base_lr",), (), 0.05),
        "precision": ("flag", ("--precision",), (), "fp32"),
        "bf16": ("switch", ("--bf16",), ("--nobf16",), False),
    },
    "fire fit --lr=0.5": {
        "batch_size": ("flag", ("--batch_size",), (), 16),
        "nworkers": ("flag", ("--nworkers",), (), 0),
        "lr": ("flag", ("--lr",), (), 0.5),
        "use_amp": ("optional", ("--use_amp",), (), False),
    },
    "hydra data.batch_size=4": {
        "data.batch_size": ("key", ("data.batch_size",), (), 4),
        "data.num_workers": ("key", ("data.num_workers",), (), 0),
        "optim.lr": ("key", ("optim.lr",), (), 0.05),
        "trainer.precision": ("key", ("trainer.precision",), (), "32-true"),
    },
    "omegaconf batch_size=4": {
        "batch_size": ("key", ("batch_size",), (), 4),
        "loader.workers": ("key", ("loader.workers",), (), 0),
        "optimizer.lr": ("key", ("optimizer.lr",), (), 0.05),
    },
    "simple_parsing --batch_size 4": {
        "options.batch_size": ("flag", ("--batch_size",), (), 4),
        "options.workers": ("flag", ("--workers",), (), 0),
        "options.lr": ("flag", ("--lr",), (), 0.05),
        "options.amp": ("optional", ("--amp", "--noamp"), (), False),
    },
    "jsonargparse fit --data.batch_size 4": {
        "data.batch_size": ("flag", ("--data.batch_size",), (), 4),
        "data.num_workers": ("flag", ("--data.num_workers",), (), 0),
        "trainer.precision": ("flag", ("--trainer.precision",), (), "32-true"),
        "optimizer.lr": ("flag", ("--optimizer.lr",), (), 0.05),
    },
    "yacs SOLVER.BASE_LR 0.5": {
        "SOLVER.IMS_PER_BATCH": ("pair", ("SOLVER.IMS_PER_BATCH",), (), 16),
        "SOLVER.BASE_LR": ("pair", ("SOLVER.BASE_LR",), (), 0.5),
        "DATALOADER.NUM_WORKERS": ("pair", ("DATALOADER.NUM_WORKERS",), (), 0),
    },
}


@pytest.mark.parametrize("command", PARSERS)
def test_a_parsers_options_are_told_with_the_values_in_force(command: str, tmp_path: Path) -> None:
    reported = {name: facts(option) for name, option in parsed(tmp_path, *command.split()).items()}
    if "-c 3" in command:  # what was not changed stands in the case before
        reported = {name: fact for name, fact in reported.items() if name in PARSERS[command]}
    assert reported == PARSERS[command]


def test_the_data_classes_of_transformers_are_told(tmp_path: Path) -> None:
    both = {
        name: (f"--{name}", f"--{name.replace('_', '-')}")
        for name in ("per_device_train_batch_size", "dataloader_num_workers", "learning_rate")
    }
    reported = {name: facts(option) for name, option in parsed(tmp_path, "hf", "--bf16").items()}
    assert reported == {
        "per_device_train_batch_size": ("flag", both["per_device_train_batch_size"], (), 16),
        "dataloader_num_workers": ("flag", both["dataloader_num_workers"], (), 0),
        "learning_rate": ("flag", both["learning_rate"], (), 0.05),
        "bf16": ("optional", ("--bf16",), (), True),
        "fp16": ("optional", ("--fp16",), (), False),
    }


@pytest.mark.parametrize(
    ("script", "words", "name", "choices"),
    [
        ("argparse", (), "dtype", ("float16", "bfloat16")),
        ("click", ("fit",), "precision", ("fp32", "bf16")),
        ("typer", (), "dtype", ("float32", "bfloat16")),
        ("absl", (), "precision", ("fp32", "bf16")),
        ("jsonargparse", ("fit",), "trainer.precision", ("32-true", "bf16-mixed")),
    ],
)
def test_the_only_values_that_a_parser_takes_are_told(
    script: str, words: tuple[str, ...], name: str, choices: tuple[str, ...], tmp_path: Path
) -> None:
    assert parsed(tmp_path, script, *words)[name].choices == choices


def test_a_parser_of_thousands_of_options_and_long_values_is_told_within_bounds(tmp_path: Path) -> None:
    code = """if True:
        import argparse
        parser = argparse.ArgumentParser()
        for number in range(3000):
            parser.add_argument(f"--part{number}.batch-size", default="x" * 5000, choices=["x" * 5000, "y"])
        parser.parse_args()
        for number in range(100):
            parser.parse_args([f"--part0.batch-size=y"] if number % 2 else [])
    """
    reported = parsed(tmp_path, "", code=code)
    assert len(reported) == 64
    assert sum(path.stat().st_size for path in tmp_path.glob("events-*.jsonl")) < 1 << 20


def test_an_option_that_can_not_be_read_is_not_the_scripts_trouble(tmp_path: Path) -> None:
    code = """if True:
        import argparse
        class Odd:
            value = property(lambda self: 1 / 0)
        parser = argparse.ArgumentParser()
        parser.add_argument("--bs", default=Odd())
        assert isinstance(parser.parse_args().bs, Odd)
    """
    assert parsed(tmp_path, "", code=code) == {}


def test_values_that_json_has_not_are_not_told(tmp_path: Path) -> None:
    code = """if True:
        import argparse, pathlib
        parser = argparse.ArgumentParser()
        parser.add_argument("--bs", default=float("nan"))
        parser.add_argument("--lr", default=[1, 2])
        parser.add_argument("--workers", default=pathlib.Path("."))
        parser.add_argument("--accum", default=1 << 80)
        parser.parse_args()
    """
    assert {name: option.value for name, option in parsed(tmp_path, "", code=code).items()} == {
        "bs": None,
        "lr": None,
        "workers": None,
        "accum": None,
    }


@given(st.text())
def test_the_agent_and_the_parent_read_names_alike(name: str) -> None:
    assert agent_options.plain_name(name) == plain_name(name)
