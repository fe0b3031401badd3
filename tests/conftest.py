"""Set-up of all tests: one compute thread per child, default signals, Hypothesis profiles, golden files."""

import os
import signal
from collections.abc import Callable, Iterator
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

# A busy machine is no counterexample. The default examples are few and always the same; `.ci/nightly` draws
# fresh ones, and what it finds becomes an @example.
settings.register_profile(
    "nightly", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=200
)
settings.register_profile("quick", settings.get_profile("nightly"), max_examples=15, derandomize=True)
settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that rewrites golden files."""
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing")


class Updated:
    """A golden file that is written when a text is compared with it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __eq__(self, text: object) -> bool:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(str(text), encoding="utf-8")
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], object]:
    """Return the text of `golden/NAME` beside the test; with `--update-golden`, comparing writes it."""
    folder = request.path.parent / "golden"
    is_update = request.config.getoption("--update-golden")
    return lambda name: Updated(folder / name) if is_update else (folder / name).read_text(encoding="utf-8")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs on simulated devices, before `-m` selects, and put the longest files first."""
    for item in items:
        if isinstance(item, pytest.Function) and "gpu_torch" in item.fixturenames:
            item.add_marker(pytest.mark.gpu)
    long = {item.path for item in items if item.get_closest_marker("real") or item.get_closest_marker("gpu")}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(scope="session", autouse=True)
def own_folder_untouched() -> Iterator[None]:
    """Fail where the tests changed the user's own files: prices, for one, that later plans would take."""
    before = _own_files()
    yield
    assert _own_files() == before


def _own_files() -> dict[Path, int]:
    own = Path.home() / ".config" / "tunekit"
    return {path: path.stat().st_mtime_ns for path in own.rglob("*") if path.is_file()}
