"""The base of every record."""

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema

SCHEMA_VERSION: Final = 1
"""Version of the files that tunekit writes; a file of a higher version is refused."""


def _give_up_at_first(schema: Any) -> None:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("type") in ("tuple", "list"):
                node["fail_fast"] = True
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


class Record(BaseModel):
    """A frozen, validated set of facts.

    Unknown fields, NaN and infinities are errors, so that a record which could be built can
    also be written to JSON and read back unchanged.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema, its lists given up at the first bad item: a damaged file may hold a million."""
        schema = handler(source)
        _give_up_at_first(schema)
        return schema
