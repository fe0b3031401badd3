"""Output whose reader may go away: a pipe that closes, or a terminal that hangs up."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from tunekit.plain_text import printable

_GONE = (errno.EPIPE, errno.EIO)
"""What a write to a pipe without a reader, or to a terminal that hung up, fails with."""


@contextlib.contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Discard standard output and error once their reader is gone."""
    out, err = (cast("TextIO", _LastingStream(stream)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                out.flush()


class _LastingStream:
    """A stream that discards everything after its first error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text; discard it after an error."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._discard(error)
            return len(text)

    def flush(self) -> None:
        """Flush; do nothing after an error."""
        try:
            self._stream.flush()
        except OSError as error:
            self._discard(error)

    def _discard(self, error: OSError) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        if error.errno not in _GONE:
            raise error


def say(*lines: str, to_stderr: bool = True) -> None:
    """Print lines with terminal escapes made visible."""
    print("\n".join(map(printable, lines)), file=sys.stderr if to_stderr else sys.stdout)
