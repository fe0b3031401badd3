"""SQLite writes from C, so scripts connect to copies, and may attach the user's databases only to read."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable

from .. import imports
from . import mirror as mirrors
from .mirror import Mirror, status_of
from .stand_ins import guarded

_ARGUMENTS = (
    *("timeout", "detect_types", "isolation_level", "check_same_thread"),
    *("factory", "cached_statements", "uri"),
)
"""The parameters of sqlite3.connect after the database, in order."""
_ATTACH, _OK, _DENY = 24, 0, 1
"""SQLite's codes: an action of a statement, and two answers of an authorizer."""
_JOURNALS = ("-wal", "-journal")


def named_file(database: str, is_uri: bool) -> tuple:
    """Return the file that SQLite opens for a name ("" for none), and whether it opens it read-only."""
    from urllib.parse import parse_qs, unquote, urlsplit

    options = {}
    if is_uri and database.startswith("file:"):
        split = urlsplit(database)
        database, options = unquote(split.path), parse_qs(split.query)
    if database == ":memory:" or options.get("mode") == ["memory"]:
        database = ""
    return database, options.get("mode") == ["ro"] or options.get("immutable") == ["1"]


def _found(mirror: Mirror, database: str, is_uri: bool) -> tuple:
    """Return what to connect to, and whether that is a URI."""
    from urllib.parse import quote

    path, is_read_only = named_file(database, is_uri)
    if not path:
        return database, is_uri
    query = database.partition("?")[2] if is_uri else ""
    if is_read_only:
        place = mirror.reading(path) or path
    else:
        entry, _ = mirror.find(path)
        status = status_of(entry)
        is_large = status is not None and status.st_size > mirrors.LARGEST_COPY_BYTES
        if is_large and not mirror.is_own(entry) and mirror.place_of(entry) == entry:
            return f"file:{quote(entry)}?mode=ro", True  # too large to copy, and probably just read
        for journal in (f"{entry}{suffix}" for suffix in _JOURNALS):
            if status is not None and mirror.place_of(entry) == entry and mirror.is_there(journal):
                mirror.writing(journal)
        place = mirror.writing(path) or path
    return (f"file:{quote(place)}?{query}", True) if is_uri else (place, False)


def _guard(mirror: Mirror, failed: Callable, module: Any) -> None:
    def authorize(is_uri: bool, action: int, file: Any, *_: Any) -> int:
        if action != _ATTACH or file == "":
            return _OK
        path, is_read_only = named_file(file, is_uri) if file else (None, False)
        if is_read_only or path == "" or (path and mirror.is_own(mirror.find(path)[0] or "")):
            return _OK
        mirror.report(str(path))
        return _DENY

    def plan(original: Callable, database: Any, *args: Any, **kwargs: Any) -> Callable:
        given = {"uri": False, **dict(zip(_ARGUMENTS, args)), **kwargs}  # noqa: B905 - since 3.10
        authorizer = functools.partial(authorize, given["uri"])
        found, given["uri"] = _found(mirror, os.fsdecode(database), given["uri"])

        def connected():
            connection = original(found, **given)
            connection.set_authorizer(authorizer)
            return connection

        return connected

    module.connect = guarded(mirror, module.connect, plan, "sqlite3", failed)


def install(mirror: Mirror, failed: Callable) -> None:
    """Replace SQLite's entry point as the script imports it."""
    imports.when_imported("sqlite3.dbapi2", functools.partial(_guard, mirror, failed))
