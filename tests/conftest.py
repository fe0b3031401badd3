"""What all tests have: child processes that compute on one thread, signals that can be heard, patience."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_environment import gpu_torch, simulated_gpu
from hypothesis import HealthCheck, settings
from real_postgres import postgres

__all__ = ["gpu_torch", "postgres", "simulated_gpu"]

# Spinning threads on a busy machine prove nothing.
os.environ["OMP_NUM_THREADS"] = "1"

# A shell that starts the tests in the background, or under nohup, has these ignored; tests send them.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)

# A busy machine is no counterexample, and the same code passes every time or never. What other examples
# would show, `pytest --hypothesis-profile=explore` looks for.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("explore"), derandomize=True)
settings.load_profile("same")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs on simulated devices, before `-m` selects."""
    for item in items:
        if isinstance(item, pytest.Function) and "gpu_torch" in item.fixturenames:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session", autouse=True)
def own_folder_untouched() -> Iterator[None]:
    """Fail where the tests changed the user's own files: prices, for one, that later plans would take."""
    before = _own_files()
    yield
    assert _own_files() == before


def _own_files() -> dict[Path, int]:
    own = Path.home() / ".config" / "tunekit"
    return {path: path.stat().st_mtime_ns for path in own.rglob("*") if path.is_file()}
