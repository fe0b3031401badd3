"""The JSON schema of profile files, made from the Profile record.

Editors complete and check a profile by it: every shipped file begins with a line that names schema.json.
After a change of the record, write it again from the checkout:

    PYTHONPATH=tests python tests/machine/profile_schema.py
"""

import json
from typing import Any

from machine.shipped import FOLDER

from tunekit.records.profile import (
    FactGroup,
    Instance,
    Profile,
    ProfileFacts,
    SpotPrice,
    Subscription,
    UnitPack,
)
from tunekit.records.schema import DIALECT, describe, without_titles

_NOT_WRITTEN = {Profile: "is_read_from_device", Instance: "is_refreshed"}
"""The fields that tunekit sets itself."""


def profile_schema() -> dict[str, Any]:
    """Return what a profile file may hold, with the record's own words on its fields."""
    schema = Profile.model_json_schema()
    parts = schema["$defs"] | {Profile.__name__: schema}
    for record, name in _NOT_WRITTEN.items():
        del parts[record.__name__]["properties"][name]
    for record in (Profile, ProfileFacts, FactGroup, Instance, SpotPrice, Subscription, UnitPack):
        describe(parts[record.__name__], record)
    del schema["title"]
    return {"$schema": DIALECT, "title": "tunekit GPU profile", **without_titles(schema)}


def schema_text() -> str:
    """Return the schema as it stands in `profiles/schema.json`."""
    return json.dumps(profile_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (FOLDER / "schema.json").write_text(schema_text(), encoding="utf-8")
