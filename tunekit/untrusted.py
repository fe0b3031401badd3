"""How files are read that anybody may have written: kind and size first, then depth and number.

Who reads one makes an error of its own of `UnreadableError`, with the file's name and a remedy:

    try:
        tree = parse_yaml(read_text(path))
    except UnreadableError as error:
        raise UsageError(f"{path} {error}; give a file that a search wrote") from error
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

from tunekit.errors import UnreadableError

CONFIG_BYTES = 1 << 20
"""Most bytes of a file that people write: settings, profiles, configs, scripts."""

MOST_VALUES = 6000
"""Most keys and values of such a file. Round-trip readers take a quarter of a millisecond for each."""

MOST_EXPANDED = 50_000
"""Most values of a YAML file once every alias stands for what its anchor holds."""

DEEPEST = 64
"""Most levels of a tree."""

_KINDS = {
    stat.S_IFDIR: os.strerror(errno.EISDIR),
    stat.S_IFIFO: "it is a pipe, not a file",
    stat.S_IFSOCK: "it is a socket, not a file",
    stat.S_IFCHR: "it is a device, not a file",
    stat.S_IFBLK: "it is a device, not a file",
}
_NUMBER_CHARACTERS = 200
_LIKE_A_NUMBER = re.compile(r"[-+.]?[0-9][^\s]*")
_LONG_DOTTED = re.compile(r"(?:[^\s.=,\[\]{}#]{1,100}[ \t]*\.[ \t]*){64}")
"""A dotted key of TOML of so many parts, whose reader takes the square of their number."""


def read_bytes(path: Path, most_bytes: int = CONFIG_BYTES) -> bytes:
    """Return what a file holds.

    Nothing but a regular file is opened, so that no pipe is waited for and no device is read for ever.

    Raises:
        UnreadableError: it is missing, no file, larger, or can't be read.
    """
    try:
        _refuse(path.stat(), most_bytes)
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as stream:  # noqa: PTH123 - the file may have been replaced meanwhile
            _refuse(os.fstat(handle), most_bytes)
            content = stream.read(most_bytes + 1)
    except OSError as error:
        raise UnreadableError(f"can't be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in its name
        raise UnreadableError(f"can't be read: {error}") from error
    if len(content) > most_bytes:
        raise _too_large(len(content), most_bytes)
    return content


def read_text(path: Path, most_bytes: int = CONFIG_BYTES) -> str:
    """Return the text of a file.

    Raises:
        UnreadableError: it is missing, no file, larger, can't be read, or is not UTF-8.
    """
    return decoded(read_bytes(path, most_bytes))


def decoded(content: bytes) -> str:
    """Return bytes as text.

    Raises:
        UnreadableError: they are not UTF-8.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError("is not UTF-8 text; save it as UTF-8") from error


def _refuse(found: os.stat_result, most_bytes: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableError(f"can't be read: {_KINDS.get(stat.S_IFMT(found.st_mode), 'it is no file')}")
    if found.st_size > most_bytes:
        raise _too_large(found.st_size, most_bytes)


def _too_large(size_bytes: int, most_bytes: int) -> UnreadableError:
    return UnreadableError(f"has {size_bytes:,} bytes or more, where {most_bytes:,} is the most that is read")


def parse_json(text: str) -> Any:
    """Return the tree that a JSON text holds.

    Raises:
        UnreadableError: it is no JSON, too deep, or holds too many values.
    """
    import json  # noqa: PLC0415

    try:
        tree = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"is not readable as JSON ({_line(error)})") from error
    _refuse_tree(tree)
    return tree


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table that a TOML text holds.

    Raises:
        UnreadableError: it is no TOML, too deep, or holds too many values.
    """
    import tomllib  # noqa: PLC0415

    if _LONG_DOTTED.search(text):
        raise UnreadableError(f"can't be read as TOML (a key of {DEEPEST} parts or more)")
    try:
        tree = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"can't be read as TOML ({_line(error)})") from error
    _refuse_tree(tree)
    return tree


def parse_yaml(text: str) -> Any:
    """Return what a YAML text holds; no key stands twice in one mapping.

    Raises:
        UnreadableError: it is no YAML, too deep, holds too many values, or aliases that stand for too many.
    """
    import yaml  # noqa: PLC0415 - slow to import; --help must be instant

    check_yaml(text, unique_keys=True)
    with _as_unreadable_yaml():
        # The C loader is thirty times as fast; wheels have it.
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def check_yaml(text: str, unique_keys: bool = False) -> None:
    """Refuse a YAML text that could take a loader endless time or memory, before one sees it.

    Args:
        text: it may be no YAML at all.
        unique_keys: whether to refuse a key that stands twice in one mapping.

    Raises:
        UnreadableError: it is no YAML, too deep, holds too many values, or aliases that stand for too many.
    """
    import yaml  # noqa: PLC0415

    size = _YamlSize(unique_keys)
    with _as_unreadable_yaml():
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            size.add(event)


class _YamlSize:
    """Counts what a YAML text holds while it is parsed, aliases at the size of what they stand for.

    Args:
        unique_keys: whether to refuse a key that stands twice in one mapping.
    """

    def __init__(self, unique_keys: bool) -> None:
        self._unique_keys = unique_keys
        self._values = 0
        self._anchored: dict[str, int | None] = {}
        """Values below each anchor; None while it is open."""
        self._open: list[_Collection] = []
        self._expanded = 0

    def add(self, event: Any) -> None:
        """Count an event of the parser."""
        import yaml  # noqa: PLC0415

        self._values += 1
        if self._values > 2 * MOST_VALUES:  # a collection has a start and an end
            raise UnreadableError(f"holds more than {MOST_VALUES:,} values")
        if isinstance(event, yaml.CollectionStartEvent):
            self._start(event.anchor, isinstance(event, yaml.MappingStartEvent))
        elif isinstance(event, yaml.CollectionEndEvent):
            ended = self._open.pop()
            if ended.anchor is not None:
                self._anchored[ended.anchor] = self._expanded - ended.before
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)

    def _start(self, anchor: str | None, is_mapping: bool) -> None:
        self._key(None)
        self._open.append(_Collection(anchor, is_mapping, self._expanded))
        self._expanded += 1
        if anchor is not None:
            self._anchored[anchor] = None
        if len(self._open) > DEEPEST:
            raise UnreadableError(f"is nested deeper than {DEEPEST} levels")

    def _alias(self, anchor: str) -> None:
        self._key(None)
        below = self._anchored.get(anchor, 1)  # of an unknown one the loader tells
        if below is None:
            raise UnreadableError(f"holds itself at *{anchor}")
        self._expanded += below
        if self._expanded > MOST_EXPANDED:
            raise UnreadableError(
                f"holds more than {MOST_EXPANDED:,} values with its aliases written out (at *{anchor})"
            )

    def _scalar(self, event: Any) -> None:
        self._key(event.value)
        self._expanded += 1
        if event.anchor is not None:
            self._anchored[event.anchor] = 1
        is_plain = event.implicit[0] or event.tag is not None
        if is_plain and len(event.value) > _NUMBER_CHARACTERS and _LIKE_A_NUMBER.fullmatch(event.value):
            raise UnreadableError(f"holds a number of {len(event.value):,} characters")

    def _key(self, scalar: str | None) -> None:
        """Note a key or a value of the mapping at hand."""
        if not (self._open and self._open[-1].is_mapping):
            return
        mapping = self._open[-1]
        mapping.at_value = not mapping.at_value
        if mapping.at_value and scalar is not None and self._unique_keys:
            if scalar in mapping.keys:
                raise UnreadableError(f"has the key {scalar[:100]!r} twice; keep one of them")
            mapping.keys.add(scalar)


class _Collection:
    """A mapping or a list that is not closed yet."""

    def __init__(self, anchor: str | None, is_mapping: bool, before: int) -> None:
        self.anchor = anchor
        self.is_mapping = is_mapping
        self.before = before
        self.at_value = False
        self.keys: set[Hashable] = set()


@contextlib.contextmanager
def _as_unreadable_yaml() -> Iterator[None]:
    """Tell where a text stops being YAML, in one line."""
    import yaml  # noqa: PLC0415

    try:
        yield
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = _line(getattr(error, "problem", None) or "it can't be parsed")
        place = problem if mark is None else f"line {mark.line + 1}: {problem}"
        raise UnreadableError(f"is not YAML ({place})") from error
    except (ValueError, TypeError, RecursionError) as error:  # a date that there is none of; a list as a key
        raise UnreadableError(f"is not YAML ({_line(error)})") from error


def _refuse_tree(tree: Any) -> None:
    """Refuse a tree without aliases that is too deep or holds too many values."""
    count, waiting = 0, [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        below = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        count += 1 + len(below)
        if depth > DEEPEST:
            raise UnreadableError(f"is nested deeper than {DEEPEST} levels")
        if count > 2 * MOST_VALUES:
            raise UnreadableError(f"holds more than {MOST_VALUES:,} values")
        waiting += [(child, depth + 1) for child in below if isinstance(child, dict | list)]


def _line(said: object) -> str:
    return " ".join(str(said).split())[:200] or type(said).__name__
