"""Reads files written by people or by tunekit, and refuses those that could hang or exhaust the reader.

The caller adds the file's name and a remedy:

    try:
        tree = parse_yaml(read_text(path))
    except UnreadableError as error:
        raise UsageError(f"{path} {error}; give a file that a search wrote") from error
"""

import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from tunekit.errors import UnreadableError

CONFIG_BYTES = 1 << 20
"""Maximum size of files that people write: settings, profiles, configs, scripts."""

MAX_DEPTH = 64
"""Maximum number of levels of nesting in a JSON, TOML or YAML file."""


def open_regular(path: Path, *, follows: bool = True) -> BinaryIO:
    """Open a regular file for reading; anything else is refused without blocking, as reading may never end.

    Args:
        path: the file.
        follows: whether the path may be a link.

    Raises:
        UnreadableError: it is a folder, a pipe, a socket or a device.
        OSError: it is missing, or can't be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follows else os.O_NOFOLLOW))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnreadableError("can't be read: not a regular file")
    return os.fdopen(handle, "rb")


def read_bytes(path: Path, max_bytes: int = CONFIG_BYTES, *, follows: bool = True) -> bytes:
    """Return the content of a regular file.

    Raises:
        UnreadableError: it is missing, not a regular file, too large, or can't be read.
    """
    try:
        with open_regular(path, follows=follows) as stream:
            size_bytes = os.fstat(stream.fileno()).st_size
            # A kernel file that has nothing to read yet returns None.
            content = stream.read(max_bytes + 1) or b""
    except OSError as error:
        raise UnreadableError(f"can't be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the path
        raise UnreadableError(f"can't be read: {error}") from error
    if len(content) > max_bytes:
        raise UnreadableError(f"has {size_bytes:,} bytes; at most {max_bytes:,} are read")
    return content


def read_text(path: Path, max_bytes: int = CONFIG_BYTES) -> str:
    """Return the text of a file.

    Raises:
        UnreadableError: it can't be read (see `read_bytes`), or is not UTF-8.
    """
    return decoded(read_bytes(path, max_bytes))


def decoded(content: bytes) -> str:
    """Decode UTF-8 bytes.

    Raises:
        UnreadableError: they are not UTF-8.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError("is not UTF-8 text; save it as UTF-8") from error


def parse_json(text: str) -> Any:
    """Parse a JSON text.

    Raises:
        UnreadableError: it is not JSON, or is nested too deeply.
    """
    import json  # noqa: PLC0415

    try:
        return _checked(json.loads(text.removeprefix("\ufeff")))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"is not readable as JSON ({_line(error)})") from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text.

    Raises:
        UnreadableError: it is not TOML, or is nested too deeply.
    """
    import tomllib  # noqa: PLC0415

    try:
        tree: dict[str, Any] = _checked(tomllib.loads(text.removeprefix("\ufeff")))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"can't be read as TOML ({_line(error)})") from error
    return tree


def parse_yaml(text: str) -> Any:
    """Parse a YAML text.

    Raises:
        UnreadableError: it is not YAML, or is nested too deeply.
    """
    import yaml  # noqa: PLC0415 - slow to import; --help must be instant

    try:
        # The C loader is 30x faster; PyYAML's wheels include it.
        return _checked(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = _line(getattr(error, "problem", None) or error)
        place = problem if mark is None else f"line {mark.line + 1}: {problem}"
        raise UnreadableError(f"is not YAML ({place})") from error


def _checked(tree: Any, depth: int = 0, seen: dict[int, int] | None = None) -> Any:
    """Return the tree unless it is nested too deeply; `seen` covers YAML aliases, which repeat one value."""
    seen = {} if seen is None else seen
    if depth <= seen.get(id(tree), -1):
        return tree
    seen[id(tree)] = depth
    if depth > MAX_DEPTH:
        raise UnreadableError(f"is nested deeper than {MAX_DEPTH} levels")
    below = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for child in below:
        _checked(child, depth + 1, seen)
    return tree


def _line(text: object) -> str:
    return " ".join(str(text).split())[:200] or type(text).__name__
