"""The schemas of `--json`, for tests of what a verb prints."""

import json
from functools import cache

from jsonschema import Draft202012Validator

from tunekit.cli.schema import OUTPUTS
from tunekit.records.schema import schema_of


def valid(verb: str, text: str) -> str:
    """Return what a verb printed, which its schema allows; else raise."""
    _validator(verb).validate(json.loads(text))
    return text


@cache
def _validator(verb: str) -> Draft202012Validator:
    schema = schema_of(*OUTPUTS[verb], title=verb)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)
