"""Output into a pipe whose reader leaves early, or to a terminal that hangs up."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tunekit.cli.main import main
from tunekit.errors import UnknownGpuError

RATE = ("--rate", "180", "--samples", "1281167", "--epochs", "90", "--gpu", "a10g")


@pytest.mark.parametrize("words", [("gpus",), ("plan", *RATE, "--json"), ("plan", "--help")])
def test_a_reader_that_has_left_is_no_failure(words: tuple[str, ...]):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "tunekit", *words],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            timeout=120,
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_another_broken_pipe_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def broken(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("tunekit.cli.main.build_parser", broken)
    assert main(["gpus"]) == 1
    assert "Broken pipe" in capsys.readouterr().err


def without_reader(*words: str) -> "subprocess.CompletedProcess[bytes]":
    """Run a program whose standard output and error nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            [sys.executable, *words], stdout=writing, stderr=writing, timeout=120, check=False
        )
    finally:
        os.close(writing)


def test_an_error_without_a_reader_keeps_its_exit_code():
    assert without_reader("-m", "tunekit", "gpus", "no-such-gpu").returncode == UnknownGpuError.exit_code


def test_output_without_a_reader_does_not_end_the_program(tmp_path: Path):
    script = (
        "import sys\n"
        "from rich.console import Console\n"
        "from tunekit.cli.pipes import ignore_broken_pipe\n"
        "with ignore_broken_pipe():\n"
        "    for to_stderr in (False, True):\n"
        "        for number in range(2000):\n"
        "            Console(stderr=to_stderr).print('one more line that nobody reads')\n"
        "open(sys.argv[1], 'w').close()\n"
    )
    assert without_reader("-c", script, str(tmp_path / "went on")).returncode == 0
    assert (tmp_path / "went on").exists()
