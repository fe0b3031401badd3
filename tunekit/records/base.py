"""The base class of every record."""

from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION: Final = 1
"""Version of the files that tunekit writes; a file of a higher version is refused."""


class Record(BaseModel):
    """A frozen, validated set of facts.

    Unknown fields, NaN and infinities are errors, so every record that could be built can be written to JSON
    and read back unchanged.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        json_schema_serialization_defaults_required=True,  # as they are always written
    )

    def changed(self, **values: Any) -> Self:
        """Return a copy with some fields changed, validated as a whole.

        Raises:
            ValidationError: a value is invalid, alone or in combination with the others.
        """
        return type(self).model_validate({**dict(self), **values})


AnyRecord = TypeVar("AnyRecord", bound=Record)


def with_texts(record: AnyRecord, change: Callable[[str], str]) -> AnyRecord:
    """Return a copy with every text changed, also in nested records; enum members stay as they are.

    Args:
        record: any record.
        change: must keep the texts valid: the copy isn't validated again.
    """
    values = {name: getattr(record, name) for name in type(record).model_fields}
    changed = {name: _changed(value, change) for name, value in values.items()}
    return record.model_copy(update={name: new for name, new in changed.items() if new is not values[name]})


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if type(value) is str:
        return change(value)
    if isinstance(value, Record):
        return with_texts(value, change)
    if isinstance(value, tuple):
        return tuple(_changed(one, change) for one in value)
    if isinstance(value, dict):
        return {name: _changed(one, change) for name, one in value.items()}
    return value
