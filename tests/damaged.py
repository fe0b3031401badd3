"""Damaged files by rule: what disks, editors, merges and hostile hands make of a good text."""

import json
import random
from collections.abc import Iterator
from typing import Any

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    10**400,
    1e308,
    "",
    "x\x1b[31m\u202e",
    [],
    {},
    [[]],
    {"": 1},
)
"""What stands in place of a value; each is of the wrong type, or beyond its bounds, for most fields."""


def cut(text: str, chance: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield the text cut short at drawn places."""
    for at in sorted(chance.sample(range(len(text)), count)):
        yield f"cut at {at}", text[:at].encode()


def flipped(text: str, chance: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield the text with one bit flipped."""
    raw = text.encode()
    for at in sorted(chance.sample(range(len(raw)), count)):
        bit = chance.randrange(8)
        yield f"bit {bit} of byte {at}", raw[:at] + bytes([raw[at] ^ (1 << bit)]) + raw[at + 1 :]


def lines_mixed(text: str, chance: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield the text with a line lost, or there twice: in YAML and TOML that is a key."""
    lines = text.splitlines(keepends=True)
    for number in sorted(chance.sample(range(len(lines)), min(count, len(lines)))):
        yield f"line {number} lost", "".join(lines[:number] + lines[number + 1 :]).encode()
        yield f"line {number} twice", "".join(lines[: number + 1] + lines[number:]).encode()


def encoded(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield the text as editors and transfers damage it."""
    raw = text.encode()
    yield "empty", b""
    yield "blank", b" \n\t\n"
    yield "twice", raw + raw
    yield "behind a BOM", b"\xef\xbb\xbf" + raw
    yield "UTF-16", text.encode("utf-16")
    yield "Latin-1", raw + "# \xe4".encode("latin-1")
    yield "NUL", raw.replace(b"\n", b"\0", 1) + b"\0"
    yield "surrogate", raw + b"\xed\xa0\x80"
    yield "binary", bytes(range(256)) * 8
    yield "a merge", b"<<<<<<< HEAD\n" + raw + b"=======\n" + raw + b">>>>>>> other\n"
    yield "a pickle", b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00}\x94."


def mistyped(text: str, chance: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield a JSON text with one of its values made another, its keys lost, or there twice."""
    tree = json.loads(text)
    places = list(_places(tree))
    for where in chance.sample(places, min(count, len(places))):
        value = chance.choice(WRONG)
        damaged = json.loads(text)
        node = damaged
        for step in where[:-1]:
            node = node[step]
        node[where[-1]] = value
        yield f"{'.'.join(map(str, where))} = {str(value)[:20]!r}", json.dumps(damaged).encode()
    for version in (0, 2, 10**30, -1, "1", None, 1.5, []):
        yield f"schema_version {str(version)[:9]}", json.dumps({**tree, "schema_version": version}).encode()
    for word in ("NaN", "Infinity", "-Infinity", "1e999", "-0", "9" * 5000):
        yield f"a number {word[:9]}", text.replace("1", word, 1).encode()
    yield "a key twice", (text.rstrip().removesuffix("}") + ', "schema_version": 7}').encode()


def deep(opening: str, closing: str, levels: int = 5000) -> Iterator[tuple[str, bytes]]:
    """Yield nothing but levels, closed and not."""
    yield f"{levels} times {opening}", (opening * levels).encode()
    yield f"{levels} times {opening}1{closing}", (opening * levels + "1" + closing * levels).encode()


def _places(node: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for step, child in children:
        yield (*where, step)
        yield from _places(child, (*where, step))
