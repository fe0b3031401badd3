"""Consoles for what works for hours: once nobody reads them, they are silent."""

import sys
from typing import Any, TextIO

from rich.console import Console

from tunekit.cli.pipes import GONE, discard_the_rest


def lasting_console(to_stderr: bool = False, **options: Any) -> Console:
    """Return a console that may be written to after its reader has left.

    Args:
        to_stderr: write to standard error.
        options: of `rich.console.Console`.
    """
    return Console(file=_PipeSafeStream(sys.stderr if to_stderr else sys.stdout), **options)  # type: ignore[arg-type]


class _PipeSafeStream:
    """A stream whose reader may leave: what is written after that goes nowhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or nothing."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def flush(self) -> None:
        """Write what waits, or nothing."""
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        """Let what was said go nowhere from now on."""
        if error.errno not in GONE:
            raise error
        discard_the_rest()
