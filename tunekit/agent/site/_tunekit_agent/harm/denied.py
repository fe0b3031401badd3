"""What the guard answers instead of doing harm."""

from __future__ import annotations

import errno
import os


class HarmDenied(PermissionError):  # noqa: N818 - what happened, as scripts print it
    """A trial may not do this to something that existed before it; the message tells the remedy."""


class Answer(Exception):  # noqa: N818 - no error of ours
    """Carries the error that the script shall see, apart from the guard's own faults."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


def denial(what: str, path: str, remedy: str) -> HarmDenied:
    """Return the error for something that is refused.

    Args:
        what: the operation, as "renaming a folder".
        path: what it would have changed.
        remedy: what the user can do.
    """
    message = f"{what} is off in a tunekit trial, which keeps what existed before it as it was; {remedy}"
    return HarmDenied(errno.EACCES, message, path)


def answer(number: int, path: object) -> Answer:
    """Return the operating system's own error for a path, as the script would have met it."""
    return Answer(OSError(number, os.strerror(number), path))
