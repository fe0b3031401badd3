"""A data set that is looked at from a process of its own."""

import os
from pathlib import Path

import forking
import pytest

from tunekit.errors import TunekitError, UsageError
from tunekit.machine.storage.data_probe import answer_of
from tunekit.machine.storage.inspect import inspect_storage_apart


def test_it_tells_what_lies_under_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('a file of the user is no module of ours')\n")
    monkeypatch.chdir(tmp_path)
    storage = inspect_storage_apart(Path())
    assert (storage.path, storage.files) == (os.path.realpath(tmp_path), 1)


def test_a_path_that_is_none_is_refused_as_usual(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere': No such file or directory; give the file or folder"):
        inspect_storage_apart(tmp_path / "nowhere")


def test_a_path_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """Opening a pipe without a writer blocks, as a dead mount does; a fork keeps the child's output open."""
    silent = tmp_path / "silent"
    os.mkfifo(silent)
    with pytest.raises(UsageError, match=r"silent' did not respond within 500 ms: is its file server"):
        answer_of(forking.fork_and_open, silent, 0.5)
    os.close(os.open(silent, os.O_RDWR | os.O_NONBLOCK))  # lets go whoever still opens it


def test_a_process_that_breaks_says_why(tmp_path: Path) -> None:
    with pytest.raises(TunekitError, match=r"ended with status 1 without an answer: NotADirectoryError"):
        answer_of(os.listdir, Path(__file__), 30.0)
