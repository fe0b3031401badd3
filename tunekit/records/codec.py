"""JSON files of records: written atomically, read as untrusted input."""

import json
import os
import re
import secrets
from pathlib import Path
from typing import TypeVar

import pydantic_core
from pydantic import ValidationError

from tunekit.errors import DamagedRecordError, NewerRecordError, UnreadableError
from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.untrusted import read_bytes

AnyRecord = TypeVar("AnyRecord", bound=Record)

MAX_FILE_BYTES = 128 << 20
"""Largest record that is read: a run of some 10,000 trials. Reading a larger one could exhaust memory."""

_UNUSUAL = re.compile(r"[^\n -~]")


def to_json(record: Record, indent: int | None = 2) -> str:
    """Return the record as JSON text; `from_json` gives back an equal record.

    Unprintable characters are escaped, so the text is safe to show on a terminal.
    """
    text = record.model_dump_json(indent=indent)
    return _UNUSUAL.sub(lambda one: one[0] if one[0].isprintable() else json.dumps(one[0])[1:-1], text)


def from_json(text: str | bytes, kind: type[AnyRecord], source: str = "the text") -> AnyRecord:
    """Return the record of type `kind` in the JSON text.

    Args:
        text: JSON from any source; every field is validated.
        kind: the record type to build.
        source: where the text came from, for messages.

    Raises:
        NewerRecordError: its schema_version is above the one this tunekit writes.
        DamagedRecordError: it is not JSON, or not a record of this kind.
    """
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        payload = pydantic_core.from_json(raw)
    except ValueError as error:
        raise DamagedRecordError(
            f"{source} is not readable as JSON ({error}); restore it from a backup"
        ) from error
    version = payload.get("schema_version") if isinstance(payload, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NewerRecordError(
            f"{source} has schema_version {version}, this tunekit reads up to {SCHEMA_VERSION}; "
            "upgrade tunekit"
        )
    try:
        return kind.model_validate(payload)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in problem["loc"]) or "the whole"
        raise DamagedRecordError(f"{source} is not a {kind.__name__}: {place}: {problem['msg']}") from error


def write_json(path: Path, record: Record) -> None:
    """Write the record to `path` atomically: a reader sees either the old or the new file, never a part."""
    write_text(path, to_json(record) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write text to `path` atomically: to a temporary file in the same folder, synced, then renamed.

    Its permissions are those of a new file under the user's umask.

    Raises:
        OSError: the folder can't be written.
    """
    temporary = path.with_name(f".{path.name[:200]}-{secrets.token_hex(6)}")
    # Not mkstemp, whose files only their owner can read.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path, kind: type[AnyRecord], max_bytes: int = MAX_FILE_BYTES) -> AnyRecord:
    """Return the record in the file.

    Raises:
        DamagedRecordError: the file is missing, not a regular file, unreadable, too large or damaged.
        NewerRecordError: it is newer than this tunekit.
    """
    try:
        text = read_bytes(path, max_bytes)
    except UnreadableError as error:
        raise DamagedRecordError(f"{path} {error}") from error
    return from_json(text, kind, str(path))
