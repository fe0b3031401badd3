"""Reads single keys of the user's config files and rewrites their text; the files are never written.

A key is dotted: mapping keys and list indices, outermost first, as in `data.loaders.0.batch_size`.
"""

import difflib
import itertools
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomlkit
from ruamel.yaml import YAML
from ruamel.yaml.comments import TaggedScalar
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scalarbool import ScalarBoolean
from tomlkit.exceptions import TOMLKitError

from tunekit.errors import TargetError, UnreadableError, UsageError
from tunekit.trial.binding_syntax import value_text
from tunekit.typos import did_you_mean
from tunekit.untrusted import parse_json, parse_toml, read_text

Scalar = bool | int | float | str | None
"""The value of a key."""

MAX_KEYS = 5000
MAX_DEPTH = 20

_COLON = re.compile(r"\s*:")
_PLAIN = re.compile(r"[A-Za-z_][\w./+-]*", re.ASCII)
_READ_AS_OTHERS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Words that some version of YAML doesn't read as strings."""


def read_key(path: Path, key: str) -> Scalar:
    """Return the value at a key.

    Raises:
        TargetError: there is no such file, or it can't be parsed as its suffix says.
        UsageError: there is no such key, or it holds more than one value.
    """
    return _value_at(_parsed(path, _text_of(path)), key, path)[1]


def all_keys(path: Path) -> dict[str, Scalar]:
    """Return every dotted key of the file that holds a scalar, with its value.

    Raises:
        TargetError: the file can't be read.
    """
    found = itertools.islice(_keys(_parsed(path, _text_of(path))), MAX_KEYS)
    return {key: _as_scalar(value) for key, value in found}


def with_values(path: Path, values: Mapping[str, Scalar]) -> str:
    """Return the file's text with new values at some keys.

    YAML and TOML stay byte for byte the same except for the values; JSON keeps its indentation. A new value
    takes the type of the old one: text replaces a non-string as the number or boolean that it reads as, and
    a number or boolean replaces a string that reads as one as text.

    Raises:
        TargetError: there is no such file, or it can't be read or rewritten.
        UsageError: there is no such key, or it holds more than one value.
    """
    text = _text_of(path)
    for key, value in values.items():
        data = _parsed(path, text)
        steps, present = _value_at(data, key, path)
        fitting = _coerced(present, value)
        if path.suffix.lower() == ".json":
            text = _json_with(text, data, steps, fitting)
        elif path.suffix.lower() == ".toml":
            text = _toml_with(text, steps, fitting)
        else:
            text = _yaml_with(path, text, steps, fitting)
    return text


def _coerced(present: Scalar, value: Scalar) -> Scalar:
    if isinstance(value, str):
        return value if isinstance(present, str) else _plain(value)
    if isinstance(present, str) and value is not None and not isinstance(_plain(present), str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value


def _plain(text: str) -> Scalar:
    """Return the value that a text means when it is unquoted."""
    words: dict[str, Scalar] = {"true": True, "false": False, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    if re.fullmatch(r"[+-]?[0-9]{1,15}", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?", text):
        return float(text)
    return text


def _text_of(path: Path) -> str:
    if not path.exists():
        beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, beside, "check the path of its binding")
        raise TargetError(f"no file {path.name!r} in {path.parent}; {hint}")
    try:
        return read_text(path)
    except UnreadableError as error:
        raise TargetError(f"{path} {error}; check its binding") from error


def _parsed(path: Path, text: str) -> Any:
    try:
        if path.suffix.lower() == ".json":
            return parse_json(text)
        if path.suffix.lower() == ".toml":
            return parse_toml(text)
        reader = YAML(typ="rt", pure=True)
        reader.allow_duplicate_keys = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about an anchor that is defined twice
            return reader.load(text)
    except UnreadableError as error:
        raise TargetError(f"{path} {error}; correct it, or bind the knob another way") from error
    except (ValueError, YAMLError, RecursionError) as error:
        raise TargetError(
            f"{path} is not YAML ({_first_line(error)}); correct it, or bind the knob another way"
        ) from error


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _value_at(data: Any, key: str, path: Path) -> tuple[list[str | int], Scalar]:
    steps: list[str | int] = []
    parts, node = key.split("."), data
    while parts:
        step, taken = _step(node, parts)
        if not taken:
            raise UsageError(_no_key(data, key, path))
        steps.append(step)
        node, parts = node[step], parts[taken:]
    if isinstance(node, Mapping | list):
        below = [f"{key}.{name}" for name, _ in itertools.islice(_keys(node), 8)]
        hint = f"name one of its keys: {', '.join(below)}" if below else "it is empty"
        raise UsageError(f"{key!r} in {path} holds more than one value; {hint}")
    return steps, _as_scalar(node)


def _step(node: Any, parts: list[str]) -> tuple[Any, int]:
    """Return the next step to a key, and how many of its parts that takes; 0 if the key is missing.

    A name may have dots or be no text, such as 0.5.
    """
    names = node if isinstance(node, Mapping) else range(len(node)) if isinstance(node, list) else ()
    named = {str(name): name for name in names}
    takes = ((".".join(parts[:taken]), taken) for taken in range(len(parts), 0, -1))
    return next(((named[name], taken) for name, taken in takes if name in named), (None, 0))


def _no_key(data: Any, key: str, path: Path) -> str:
    """Return the message for a missing key: the keys that may be meant, or the existing ones."""
    known = [name for name, _ in itertools.islice(_keys(data), MAX_KEYS)]
    last = key.rpartition(".")[2]
    near = [name for name in known if name.rpartition(".")[2] == last]
    near += [name for name in difflib.get_close_matches(key, known, n=3) if name not in near]
    if near:
        return f"no key {key!r} in {path}; did you mean {' or '.join(near[:3])}?"
    return f"no key {key!r} in {path}; it has {', '.join(known[:12]) or 'no keys'}"


def _keys(node: Any, deep: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield each scalar with its dotted key, down to a limited depth in case a file refers to itself."""
    is_list = isinstance(node, list)
    for name, child in node.items() if isinstance(node, Mapping) else enumerate(node if is_list else ()):
        if not isinstance(child, Mapping | list):
            yield str(name), child
        elif deep < MAX_DEPTH:
            yield from ((f"{name}.{below}", value) for below, value in _keys(child, deep + 1))


def _as_scalar(node: Any) -> Scalar:
    """Return a value as a plain Python type, without the parser's annotations."""
    if node is None or isinstance(node, bool):
        return node
    if isinstance(node, ScalarBoolean):
        return bool(node)
    for kind in (int, float):
        if isinstance(node, kind):
            return kind(node)
    return str(node.value) if isinstance(node, TaggedScalar) else str(node)


def _json_with(text: str, data: Any, steps: list[str | int], value: Scalar) -> str:
    _set(data, steps, value)
    indents = re.search(r"\n([ \t]+)\S", text)
    ending = text[len(text.rstrip()) :]
    separators = None if indents or re.search(r"[:,] ", text) else (",", ":")
    new = json.dumps(data, indent=indents[1] if indents else None, separators=separators, ensure_ascii=False)
    return new + ending


def _toml_with(text: str, steps: list[str | int], value: Scalar) -> str:
    """Return the new text; TOML has no null, so None leaves the text unchanged."""
    if value is None:
        return text
    try:
        document = tomlkit.parse(text)
        _set(document, steps, value)
        return tomlkit.dumps(document)
    except TOMLKitError as error:
        raise TargetError(f"can't rewrite the key ({_first_line(error)}); bind it another way") from error


def _set(data: Any, steps: list[str | int], value: Scalar) -> None:
    for step in steps[:-1]:
        data = data[step]
    data[steps[-1]] = value


def _yaml_with(path: Path, text: str, steps: list[str | int], value: Scalar) -> str:
    """Return the YAML text with a new scalar at the steps, and everything else byte for byte the same.

    A value that comes from an alias or a merge belongs to other keys too, so it is refused.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about an anchor that is defined twice
        node = YAML(typ="rt", pure=True).compose(text)
    after = 0
    for step in steps:
        child, after = _child(node, step)
        if child is None or child.start_mark.index < after:
            key = ".".join(map(str, steps))
            raise TargetError(
                f"{path}: {key}: an alias or a merge (<<) brings it in; write the key out there"
            )
        node = child
    if not isinstance(node, ScalarNode) or node.style in ("|", ">"):
        raise TargetError(f"{path}: the key has no scalar on one line; write a plain value there")
    start, end = node.start_mark.index, node.end_mark.index
    if start == end:
        colon = _COLON.match(text, after)
        if colon is None:
            raise TargetError(f"{path}: there is no value to rewrite; write one, after a colon")
        return f"{text[: colon.end()]} {_yaml_text(value)}{text[colon.end() :]}"
    anchor = f"&{node.anchor} " if node.anchor else ""
    style = node.style if isinstance(value, str) else None
    return f"{text[:start]}{anchor}{_yaml_text(value, style)}{text[end:]}"


def _child(node: Node, step: str | int) -> tuple[Node | None, int]:
    """Return the node at a step (the last of duplicate keys), and the index that it must start after."""
    if isinstance(node, SequenceNode):
        child = node.value[int(step)]
        return (None if child in node.value[: int(step)] else child), node.start_mark.index
    pairs = reversed(node.value) if isinstance(node, MappingNode) else ()
    pair = next(((key, held) for key, held in pairs if key.value == str(step)), None)
    return (pair[1], pair[0].end_mark.index) if pair else (None, 0)


def _yaml_text(value: Scalar, style: str | None = None) -> str:
    """Return a scalar's text, which YAML 1.1 and 1.2 read alike.

    Args:
        value: the scalar.
        style: the quotes for a string; None for as few as needed.
    """
    if isinstance(value, float):
        text = repr(value)  # YAML 1.1 needs a decimal point: it reads 5e-05 as a string
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    if not isinstance(value, str):
        return value_text(value)
    if style is None and _PLAIN.fullmatch(value) and value.lower() not in _READ_AS_OTHERS:
        return value
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return '"' + "".join(_escaped(letter) for letter in value) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"
