"""A function that never returns from a pipe without a writer, for a child process to call."""

import os
from pathlib import Path


def fork_and_open(path: Path) -> None:
    """Open a path in this process and in a fork of it."""
    os.fork()
    path.open()
