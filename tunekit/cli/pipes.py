"""Output that nobody can read any more: a program that it was piped into, or a terminal that is gone."""

import errno
import os
import select
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_GONE = (errno.EPIPE, errno.EIO)
"""What writing to a pipe that nobody reads, or to a terminal that hung up, comes back with."""


def until_the_reader_leaves(run: Callable[[], int]) -> int:
    """Run to the end, or until nobody reads the output any more, which is no failure.

    Args:
        run: returns an exit code, and raises OSError of its own output only where that is gone.

    Returns:
        Its exit code; 0 when the reader has left.
    """
    code = 0
    try:
        try:
            code = run()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in _GONE:
            raise
        discard_the_rest()
    except SystemExit as ended:
        # rich ends the program by itself on a broken pipe, with exit code 1.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        discard_the_rest()
    return code


def reader_has_left(error: OSError) -> bool:
    """Return whether an error is that of standard output or error which nobody reads."""
    return error.errno in _GONE and any(_is_unread(stream) for stream in (sys.stdout, sys.stderr))


def say_error(text: str) -> None:
    """Say what went wrong, if anybody is there to read it."""
    try:
        print(text, file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        discard_the_rest()


def lasting_console(to_stderr: bool = False, **options: Any) -> "Console":
    """Return a console that what works for hours may write to: once nobody reads it, it is silent.

    Args:
        to_stderr: write to standard error.
        options: of `rich.console.Console`.
    """
    from rich.console import Console  # noqa: PLC0415 - slow to import; --help must be instant

    return Console(file=_Lasting(sys.stderr if to_stderr else sys.stdout), **options)  # type: ignore[arg-type]


class _Lasting:
    """A stream whose reader may leave."""

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
        """Let what was said go nowhere from now on.

        Raises:
            OSError: it is another fault.
        """
        if error.errno not in _GONE:
            raise error
        discard_the_rest()


def _is_unread(stream: TextIO) -> bool:
    try:
        watched = select.poll()
        watched.register(stream.fileno(), 0)
        return any(seen & (select.POLLERR | select.POLLHUP) for _, seen in watched.poll(0))
    except (OSError, ValueError):  # closed, or not of the system's
        return False


def discard_output() -> None:
    """Let what standard output could not take go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def discard_the_rest() -> None:
    """Let what is still in the buffers go nowhere, or Python complains about it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if _is_unread(stream):
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
