"""What every test of a command line needs."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def own_signal_handlers() -> Iterator[None]:
    """Put back the handlers that `main` replaces."""
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
