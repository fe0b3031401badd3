"""The JSON schema of profile files, made from the Profile record.

Editors complete and check a profile by it: every shipped file begins with a line that names schema.json.
After a change of the record, write it again from the checkout:

    PYTHONPATH=tests python tests/machine/profile_schema.py
"""

import ast
import inspect
import json
import textwrap
from typing import Any

from machine.shipped import FOLDER
from pydantic import BaseModel

from tunekit.records.profile import (
    FactGroup,
    Instance,
    Profile,
    ProfileFacts,
    SpotPrice,
    Subscription,
    UnitPack,
)

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NOT_WRITTEN = {Profile: "is_read_from_device", Instance: "is_refreshed"}
"""The fields that tunekit sets itself."""


def profile_schema() -> dict[str, Any]:
    """Return what a profile file may hold, with the record's own words on its fields."""
    schema = Profile.model_json_schema()
    parts = schema["$defs"] | {Profile.__name__: schema}
    for record, name in _NOT_WRITTEN.items():
        del parts[record.__name__]["properties"][name]
    for record in (Profile, ProfileFacts, FactGroup, Instance, SpotPrice, Subscription, UnitPack):
        for name, text in _field_docstrings(record).items():
            if name in parts[record.__name__]["properties"]:
                parts[record.__name__]["properties"][name]["description"] = text
    titled = {"$schema": _DIALECT, "title": "tunekit GPU profile"}
    return titled | {key: _without_titles(value) for key, value in schema.items() if key != "title"}


def schema_text() -> str:
    """Return the schema as it stands in `profiles/schema.json`."""
    return json.dumps(profile_schema(), indent=2, ensure_ascii=False) + "\n"


def _field_docstrings(record: type[BaseModel]) -> dict[str, str]:
    """Return the string that stands under each field in the record's source.

    Pydantic can do this for every record, but it would then parse their sources at each start.
    """
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[field.target.id] = inspect.cleandoc(text)
    return found


def _without_titles(part: Any) -> Any:
    """Drop the titles that only repeat the names of fields."""
    if isinstance(part, list):
        return [_without_titles(one) for one in part]
    if not isinstance(part, dict):
        return part
    kept = {key: _without_titles(value) for key, value in part.items()}
    return {key: value for key, value in kept.items() if key != "title" or not isinstance(value, str)}


if __name__ == "__main__":
    (FOLDER / "schema.json").write_text(schema_text(), encoding="utf-8")
