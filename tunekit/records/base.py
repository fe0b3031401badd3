"""The base of every record."""

from typing import Final

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION: Final = 1
"""Version of the files that tunekit writes; a file of a higher version is refused."""


class Record(BaseModel):
    """A frozen, validated set of facts.

    Unknown fields, NaN and infinities are errors, so that a record which could be built can
    also be written to JSON and read back unchanged.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)
