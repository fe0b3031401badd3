"""`tunekit schema`: a schema for every `--json`, whose fields stay within a version."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from build_checkups import checkup
from build_comparisons import compared, searched
from build_fits import fit, fits_run
from build_records import failure, trial_record
from build_reports import full_run
from json_schemas import valid
from jsonschema import ValidationError

from tunekit.cli.main import main
from tunekit.cli.parser import build_parser
from tunekit.cli.schema import OUTPUTS
from tunekit.cli.verbs import VERBS
from tunekit.records.base import SCHEMA_VERSION
from tunekit.records.codec import to_json
from tunekit.records.finding import Finding, Severity
from tunekit.records.schema import schema_of
from tunekit.records.trial import OutcomeKind

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden" / "json.txt"


def test_every_verb_that_prints_json_has_a_schema():
    flags = {verb: build_parser().parse_args([verb, *WORDS.get(verb, ())]) for verb in VERBS}
    assert set(OUTPUTS) == {verb for verb, options in flags.items() if hasattr(options, "json")}


WORDS = {
    "run": ["a.yaml"],
    "report": ["a"],
    "compare": ["a", "b"],
    "data": ["."],
    "export": ["a", "--to", "hf"],
}
"""What some verbs need."""


@pytest.mark.parametrize("verb", OUTPUTS)
def test_a_schema_is_printed_whole(verb: str, capsys: pytest.CaptureFixture[str]):
    assert main(["schema", verb]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == schema_of(*OUTPUTS[verb], title=f"tunekit {verb} --json")
    fields = [one for part in printed["$defs"].values() for one in part.get("properties", {}).values()]
    assert any("description" in one for one in fields)


def test_the_schemas_are_listed(capsys: pytest.CaptureFixture[str]):
    assert main(["schema"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(OUTPUTS)


def test_what_is_saved_is_as_its_schema_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    saved = {"run.json": full_run(), "fits.json": fits_run((fit("a10g", 22.1, (219, 250, 294)),))}
    for file, record in saved.items():
        (tmp_path / file).write_text(to_json(record))
        assert main(["report", str(tmp_path / file), "--json"]) == 0
        valid("report", capsys.readouterr().out)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_jq_lines_of_the_docs_find_something():
    lost = trial_record(7, None, overrides={"failure": failure(OutcomeKind.HOST_OOM, remedy="fewer workers")})
    whole = full_run().changed(trials=(*full_run().trials, lost))
    bad = Finding(code="no-shm", severity=Severity.ERROR, message="there is no /dev/shm")
    records = {
        "run.json": whole,
        "machine.json": checkup().changed(findings=(bad,)),
        "compared.json": compared(searched(), searched()),
    }
    lines = re.findall("^jq .*$", (ROOT / "docs" / "json.md").read_text(), re.MULTILINE)
    for _, *words, file in map(shlex.split, lines):
        done = subprocess.run(["jq", *words], input=to_json(records[file]), capture_output=True, text=True)
        assert done.stdout and "null" not in done.stdout, (words, done.stderr)
    assert len(lines) > 5


def test_a_newer_tunekit_may_add_fields_and_not_leave_out_any():
    record = json.loads(to_json(full_run()))
    valid("search", json.dumps(record | {"of_tomorrow": 1}))
    del record["outcome"]["word"]
    with pytest.raises(ValidationError, match="'word' is a required property"):
        valid("search", json.dumps(record))


def test_fields_are_only_added_within_a_version(golden: Callable[[str], object]):
    """A field of another type or name needs a higher SCHEMA_VERSION; a new one only --update-golden."""
    schemas = {verb: schema_of(*kinds, title=verb) for verb, kinds in OUTPUTS.items()}
    lines = {
        line
        for schema in schemas.values()
        for name, part in schema["$defs"].items()
        for line in fields(name, part)
    }
    lines |= {f"{verb} --json: {kind.__name__}" for verb, kinds in OUTPUTS.items() for kind in kinds}
    version, *before = GOLDEN.read_text(encoding="utf-8").splitlines()
    if version == str(SCHEMA_VERSION):
        assert set(before) - lines == set(), "readers rely on these: raise SCHEMA_VERSION"
    assert "\n".join([str(SCHEMA_VERSION), *sorted(lines), ""]) == golden(GOLDEN.name)


def fields(name: str, part: dict[str, Any]) -> Iterator[str]:
    yield from (f"{name} = {value}" for value in part.get("enum", ()))
    yield from (f"{name}.{field}: {type_text(of)}" for field, of in part.get("properties", {}).items())


def type_text(part: Any) -> str:
    """Return the type in a part of a schema, without its limits."""
    match part:
        case {"$ref": str(place)}:
            return place.rpartition("/")[2]
        case {"anyOf": several}:
            return " | ".join(sorted(map(type_text, several)))
        case {"const": value}:
            return repr(value)
        case {"enum": values}:
            return " | ".join(map(repr, values))
        case {"type": "array"}:
            return f"[{', '.join(map(type_text, part.get('prefixItems', [part.get('items')])))}]"
        case {"type": "object"}:
            return f"{{{type_text(part.get('additionalProperties'))}}}"
        case {"type": kind}:
            return str(kind)
    return "any"
