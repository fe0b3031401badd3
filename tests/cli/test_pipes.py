"""Output into a pipe whose reader leaves early."""

import os
import subprocess
import sys

import pytest

from tunekit.cli.main import main

RATE = ("--rate", "180", "--samples", "1281167", "--epochs", "90", "--gpu", "a10g")


@pytest.mark.parametrize(
    "words",
    [
        ("gpus",),
        ("gpus", "t4"),
        ("gpus", "--json"),
        ("plan", *RATE),
        ("plan", *RATE, "--json"),
        ("plan", "--help"),
        ("--version",),
    ],
)
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


def test_a_pipe_that_is_not_tunekits_own_output_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def broken(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("tunekit.cli.main.build_parser", broken)
    assert main(["gpus"]) == 1
    assert "Broken pipe" in capsys.readouterr().err
