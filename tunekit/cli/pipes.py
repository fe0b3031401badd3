"""Output that is piped into a program which ends first, as in `tunekit gpus | head`."""

import os
import select
import sys
from collections.abc import Callable
from typing import TextIO


def until_the_reader_leaves(run: Callable[[], int]) -> int:
    """Run to the end, or until nobody reads the output any more, which is no failure.

    Args:
        run: returns an exit code, and raises BrokenPipeError only for tunekit's own output.

    Returns:
        Its exit code; 0 when the reader has left.
    """
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_the_rest()
        return 0
    except SystemExit as ended:
        # rich ends the program by itself on a broken pipe, with exit code 1.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _discard_the_rest()
        return 0


def reader_has_left() -> bool:
    """Return whether standard output or error is a pipe that nobody reads."""
    return any(_is_unread(stream) for stream in (sys.stdout, sys.stderr))


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


def _discard_the_rest() -> None:
    """Let what is still in the buffers go nowhere, or Python complains about it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if _is_unread(stream):
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
