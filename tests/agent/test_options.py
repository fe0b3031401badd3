"""What the agent tells of a script's command line, in the script's own process, for each kind of parser."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from _tunekit_agent import options as agent_options
from hypothesis import given
from hypothesis import strategies as st
from real_trials import ZOO

from tunekit.records.agent_messages import AgentRequest, OptionsEvent
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
        loader=None,
        roots=(),
        window_s=1.0,
        option_names=ALL_NAMES,
    )
    (folder / "request.json").write_text(request.model_dump_json())
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


COMMANDS = (
    "argparse --batchSize 8",
    "argparse -c 3 --amp --no-pin-mem",
    "subcommands fit --bs 4",
    "click fit -b 4 --amp",
    "typer --bs 4",
    "absl -b 4",
    "fire fit --lr=0.5",
    "hydra data.batch_size=4",
    "omegaconf batch_size=4",
    "simple_parsing --batch_size 4",
    "jsonargparse fit --data.batch_size 4",
    "yacs SOLVER.BASE_LR 0.5",
    "hf --bf16",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_parsers_options_are_told_with_the_values_in_force(
    command: str, tmp_path: Path, golden: Callable[[str], object]
) -> None:
    options = parsed(tmp_path, *command.split())
    lines = [one.model_dump_json(exclude_defaults=True) for _, one in sorted(options.items())]
    assert "\n".join([command, *lines, ""]) == golden(
        f"options-{command.split(maxsplit=1)[0]}-{COMMANDS.index(command)}.txt"
    )


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
