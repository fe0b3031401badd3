"""Flags of tunekit's behind the `--`."""

import sys
from pathlib import Path

import pytest

from tunekit.cli.main import main
from tunekit.cli.strays import unmentioned

WITH_A_PARSER = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--{}')\n"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(WITH_A_PARSER.format("lr") + "parser.parse_args()\n")
    return tmp_path / "train.py"


@pytest.mark.parametrize(
    "words", [["--budget", "10m"], ["--budget=10m"], ["--lr", "1", "--trial-limit", "1m"]]
)
@pytest.mark.parametrize("launcher", [["python"], ["torchrun", "--nproc-per-node", "2"]])
def test_a_flag_that_the_script_does_not_mention_is_hinted_at(
    launcher: list[str], words: list[str], script: Path
) -> None:
    hint = unmentioned("search", [*launcher, "train.py", *words]) or ""
    flag = words[-2] if len(words) > 1 else "--budget"
    assert hint.startswith(f"{flag} stands after --, so train.py gets it")


@pytest.mark.parametrize(
    "words",
    [
        ["python", "train.py", "--lr", "1"],  # which it has
        ["python", "train.py", "--epoch-count", "1"],  # none of ours
        ["python", "train.py", "--help"],
        ["python", "train.py", "--batch-size", "8", "--workers=2"],  # most likely its own
        ["torchrun", "--budget", "1", "train.py"],  # the launcher's
        ["mytrain", "--budget", "10m"],  # whose source is not known
        ["python", "missing.py", "--budget", "10m"],
        [],
    ],
)
def test_what_may_be_the_commands_own_is_not(words: list[str], script: Path) -> None:
    assert unmentioned("search", words) is None


@pytest.mark.parametrize("source", ["args.trial_limit", "'--trial-limit'", "trial_limit: float = 3"])
def test_a_variable_may_be_made_from_a_flag(source: str, script: Path) -> None:
    script.write_text(source)
    assert unmentioned("search", ["python", "train.py", "--trial-limit", "5m"]) is None
    script.write_text("untrial_limited")
    assert unmentioned("search", ["python", "train.py", "--trial-limit", "5m"]) is not None


@pytest.mark.real
@pytest.mark.parametrize("where", ["train.py", "-m"])
def test_a_search_hints_and_still_runs_the_command(
    where: str, script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["train.py"] if where == "train.py" else ["-m", "train"]
    words = ["search", "--budget", "60s", "--", sys.executable, *command, "--window", "3"]
    assert main(words) == 4
    said = capfd.readouterr().err
    assert "unrecognized arguments: --window 3" in said
    assert f"--window stands after --, so {command[-1]} gets it" in said
