"""JSON files of records: written atomically, read as untrusted input."""

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from tunekit.errors import DamagedRecordError, NewerRecordError, RecordError
from tunekit.records.base import SCHEMA_VERSION, Record

AnyRecord = TypeVar("AnyRecord", bound=Record)

_UNUSUAL = re.compile(r"[^\n -~]")

MAX_FILE_BYTES = 256 << 20
"""A file above this size is no record of ours; reading it would only exhaust memory."""


def to_json(record: Record, indent: int | None = 2) -> str:
    """Return the record as JSON text; `from_json` gives back an equal record.

    What is no visible letter is spelled out, so that the text may be shown on a terminal.
    """
    text = record.model_dump_json(indent=indent)
    return _UNUSUAL.sub(lambda one: one[0] if one[0].isprintable() else json.dumps(one[0])[1:-1], text)


def from_json(text: str | bytes, kind: type[AnyRecord], source: str = "the text") -> AnyRecord:
    """Return the record of type `kind` that the JSON text holds.

    Args:
        text: JSON, from anywhere; it is validated field by field.
        kind: the record type to build.
        source: where the text came from, for messages.

    Raises:
        NewerRecordError: its schema_version is above the one this tunekit writes.
        DamagedRecordError: it is not JSON, or not a record of this kind.
    """
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedRecordError(
            f"{source} is not readable as JSON ({error}); restore it from a backup"
        ) from error
    _refuse_newer(payload, source)
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise DamagedRecordError(f"{source} is not a {kind.__name__}: {_first_problem(error)}") from error


def write_json(path: Path, record: Record) -> None:
    """Write the record to `path` so that a reader sees the old file or the new one, never half."""
    write_text(path, to_json(record) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write text to `path` atomically: a temporary file beside it, synced, then renamed.

    Raises:
        OSError: the folder can't be written.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path, kind: type[AnyRecord]) -> AnyRecord:
    """Return the record that the file holds.

    Raises:
        RecordError: the file is missing, unreadable, too large, damaged or newer than this tunekit.
    """
    try:
        size_bytes = path.stat().st_size
        if size_bytes > MAX_FILE_BYTES:
            raise DamagedRecordError(
                f"{path} has {size_bytes} bytes, more than the {MAX_FILE_BYTES} "
                f"that a {kind.__name__} may have"
            )
        text = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path} can't be read: {error.strerror}") from error
    return from_json(text, kind, source=str(path))


def _refuse_newer(payload: Any, source: str) -> None:
    version = payload.get("schema_version") if isinstance(payload, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NewerRecordError(
            f"{source} has schema_version {version}, this tunekit reads up to {SCHEMA_VERSION}; "
            "upgrade tunekit"
        )


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in problem["loc"]) or "the whole"
    return f"{place}: {problem['msg']}"
