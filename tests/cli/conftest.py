"""What every test of a command line needs."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_signal_handlers() -> Iterator[None]:
    """Put back the handlers that `main` replaces."""
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, with a script that must not run."""
    (tmp_path / "train.py").write_text("raise SystemExit('a test must not train')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path
