"""Output that nobody can read any more: a program that it was piped into, or a terminal that is gone."""

import errno
import os
import select
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import TextIO

_LEAST_WIDTH = 40
"""Letters of a line on a terminal, however narrow it is."""
GONE = (errno.EPIPE, errno.EIO)
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
        if error.errno not in GONE:
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
    return error.errno in GONE and any(_is_unread(stream) for stream in (sys.stdout, sys.stderr))


def say_error(text: str) -> None:
    """Say what went wrong, if anybody is there to read it; a terminal gets lines that fit it."""
    try:
        print(as_read(text), file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        discard_the_rest()


def as_read(text: str) -> str:
    """Return an error as standard error shows it: on a terminal long lines go on further in.

    So none of them looks like one of tunekit's own.
    """
    if not sys.stderr.isatty():
        return text
    width = max(_LEAST_WIDTH, shutil.get_terminal_size().columns)
    lines = (
        textwrap.wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )
    return "\n".join("\n".join(some) for some in lines)


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
