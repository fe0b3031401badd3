"""What every test of a command line needs."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def own_signal_handler() -> Iterator[None]:
    """Put back the handler that `main` replaces."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
