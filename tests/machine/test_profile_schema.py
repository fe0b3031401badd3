"""The JSON schema that editors check profile files with."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from machine.profile_schema import profile_schema, schema_text
from machine.shipped import FILES, FOLDER

COMMITTED = FOLDER / "schema.json"
VALIDATOR = Draft202012Validator(json.loads(COMMITTED.read_text(encoding="utf-8")))
T4: dict[str, Any] = yaml.safe_load((FOLDER / "t4.yaml").read_text(encoding="utf-8"))


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the T4's profile with one value changed, at a path such as "instances.0.gpus"."""
    content = copy.deepcopy(T4)
    *parents, last = path.split(".")
    place: Any = content
    for key in parents:
        place = place[int(key)] if key.isdigit() else place[key]
    place[last] = value
    return content


def test_the_committed_schema_is_the_records() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == schema_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_file_names_the_schema_and_follows_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.splitlines()[0] == f"# yaml-language-server: $schema={COMMITTED.name}"
    assert [error.message for error in VALIDATOR.iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("id", "No Good"),
        ("compute_capability", 7.5),
        ("bandwith", 300),
        ("is_read_from_device", True),
        ("instances.0.as_of", "November"),
    ],
)
def test_a_bad_value_fails_the_schema(path: str, value: object) -> None:
    assert not VALIDATOR.is_valid(changed(path, value))


def test_the_schema_explains_fields_in_the_records_words() -> None:
    schema = profile_schema()
    assert schema["properties"]["device_names"]["description"] == "Names by which drivers report the device."
    instance = schema["$defs"]["Instance"]["properties"]
    assert "decimal GB" in instance["ram_gb"]["description"]
    assert "is_read_from_device" not in schema["properties"]
