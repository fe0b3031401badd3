"""JSON Schemas of the records, with the docstrings of fields and values as descriptions."""

import ast
import inspect
from collections.abc import Iterator
from enum import Enum
from functools import reduce
from itertools import pairwise
from operator import or_
from textwrap import dedent
from types import ModuleType
from typing import Any, TypeVar

from pydantic import TypeAdapter

from tunekit.records.base import SCHEMA_VERSION, Record

AnyKind = TypeVar("AnyKind", Record, Enum)

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(*kinds: type[Record], title: str) -> dict[str, Any]:
    """Return the schema of the JSON of any one of these records.

    Unknown fields are allowed, as a later tunekit may add some.
    """
    schema = TypeAdapter(reduce(or_, kinds)).json_schema(mode="serialization")
    parts: dict[str, Any] = schema.pop("$defs", {})
    if len(kinds) == 1:
        parts[kinds[0].__name__] = schema
    kinds_below: tuple[type[Record] | type[Enum], ...] = (*_below(Record), *_below(Enum))
    by_name = {kind.__name__: kind for kind in kinds_below}
    by_name |= {f"{kind.__module__}.{kind.__name__}".replace(".", "__"): kind for kind in kinds_below}
    for name, part in parts.items():
        if name in by_name:  # parts of tuples are no records
            describe(part, by_name[name])
        if part.get("additionalProperties") is False:
            del part["additionalProperties"]
    named = [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds]
    whole = {"anyOf": named} if len(kinds) > 1 else named[0]
    head = {"$schema": DIALECT, "title": title, "$comment": f"schema_version {SCHEMA_VERSION}"}
    return head | whole | {"$defs": without_titles(dict(sorted(parts.items())))}


def describe(part: dict[str, Any], kind: type[Record] | type[Enum]) -> None:
    """Add the docstrings of a record's fields, or of an enumeration's values, to its part of a schema."""
    texts = docstrings(kind)
    if issubclass(kind, Enum):
        values = [f"{one.value}: {texts[name]}" for name, one in kind.__members__.items() if name in texts]
        part["description"] = "\n".join([inspect.getdoc(kind) or "", *values])
    for name, field in part.get("properties", {}).items():
        if name in texts:
            field["description"] = texts[name]


def docstrings(of: type | ModuleType) -> dict[str, str]:
    """Return the string below each name that is assigned in the source of a class or a module.

    Pydantic can do this for every record, but it would then parse their sources at each start.
    """
    body = ast.parse(dedent(inspect.getsource(of))).body
    if isinstance(body[0], ast.ClassDef):
        body = body[0].body
    found = {}
    for field, below in pairwise(body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def without_titles(part: Any) -> Any:
    """Drop the titles that only repeat the names of fields."""
    if isinstance(part, list):
        return [without_titles(one) for one in part]
    if not isinstance(part, dict):
        return part
    kept = {key: without_titles(value) for key, value in part.items()}
    return {key: value for key, value in kept.items() if key != "title" or not isinstance(value, str)}


def _below(kind: type[AnyKind]) -> Iterator[type[AnyKind]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
