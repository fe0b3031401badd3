"""SQLite writes wherever it is asked to, from C: the overlay names the files that it opens."""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import Any, Callable

from .. import imports
from . import overlay as overlays
from .overlay import Answer, Overlay, denial
from .paths import status_of
from .stand_ins import guarded

_ARGUMENTS = (
    *("timeout", "detect_types", "isolation_level", "check_same_thread"),
    *("factory", "cached_statements", "uri"),
)
"""What sqlite3.connect takes after the database, in its order."""
_RUNNERS = ("execute", "executemany", "executescript")
_FUNCTION = "tunekit_database"
_NAMES_A_FILE = re.compile(r"\b(?:attach|into)\b", re.IGNORECASE)
_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|\s+"""  # comments and blanks
    r"""|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]"""  # texts, and names in quotes
    r"""|[^\W\d][\w$]*|.""",
    re.DOTALL,
)


def with_named_files(sql: str) -> str:
    """Return the statements with a function around what ATTACH and VACUUM INTO name a file with.

    That may be any expression, so that only SQLite itself can say which file it is.
    """
    tokens = _TOKEN.findall(sql)
    statement: list = []
    for at, token in enumerate([*tokens, ";"]):
        if token == ";":
            _wrap_name(tokens, statement)
            statement = []
        elif not token.isspace() and not token.startswith(("--", "/*")):
            statement.append(at)
    return "".join(tokens)


def _wrap_name(tokens: list, statement: list) -> None:
    """Put the function around the file's name in one statement, given by the places of its tokens."""
    words = [tokens[at].lower() for at in statement]
    if words[:1] == ["attach"]:
        begin = 2 if words[1:2] == ["database"] else 1
        depth = [words[:at].count("(") - words[:at].count(")") for at in range(len(words))]
        end = next((at for at in range(begin, len(words)) if words[at] == "as" and not depth[at]), begin)
    elif words[:1] == ["vacuum"] and "into" in words:
        begin, end = words.index("into") + 1, len(words)
    else:
        return
    if end <= begin:
        return
    first, last = statement[begin], statement[end - 1]
    if first == last and re.match(r'["`\[]|[^\W\d]', tokens[first]):  # a name here says itself
        name = tokens[first].strip('"`[]')
        tokens[first] = "'" + name.replace("'", "''") + "'"
    tokens[first] = f"{_FUNCTION}({tokens[first]}"
    tokens[last] += ")"


class Databases:
    """Plans for connecting, and connections that name the files of their statements."""

    def __init__(self, overlay: Overlay, failed: Callable) -> None:
        self._overlay = overlay
        self._failed = failed
        self._classes: dict = {}

    def guard(self, module: Any) -> None:

        def plan(original, database, *args, **kwargs):
            given = {"factory": module.Connection, "uri": False, **dict(zip(_ARGUMENTS, args)), **kwargs}  # noqa: B905 - since 3.10
            uri = given["uri"]
            found, as_uri = self._database(os.fsdecode(database), uri)
            if found is not None:
                database, given["uri"] = found, as_uri
            given["factory"] = self._connection_class(module, given["factory"], uri)
            return lambda: original(database, **given)

        original = module.connect
        stand_in = guarded(self._overlay, original, plan, "sqlite3", self._failed)
        for place in (module, sys.modules.get("sqlite3")):  # the package is there if it was imported before
            if getattr(place, "connect", None) is original:
                place.connect = stand_in

    def _connection_class(self, module: Any, owner: Any, uri: Any) -> Any:
        if not isinstance(owner, type):
            return owner

        def cursor(connection, factory=module.Cursor):
            return owner.cursor(connection, self._cursor_class(module, factory, uri))

        def runner(name: str) -> Callable:
            def run(connection, *args):
                return getattr(connection.cursor(), name)(*args)

            return functools.wraps(getattr(owner, name))(run)

        return self._subclass((owner, uri), {"cursor": cursor, **{name: runner(name) for name in _RUNNERS}})

    def _cursor_class(self, module: Any, owner: Any, uri: Any) -> Any:
        if not isinstance(owner, type):
            return owner

        def runner(name: str) -> Callable:
            original = getattr(owner, name)

            @functools.wraps(original)
            def run(cursor, sql, *args):
                return self._run(
                    module, functools.partial(original, cursor), cursor.connection, uri, sql, *args
                )

            return run

        return self._subclass((owner, uri), {name: runner(name) for name in _RUNNERS})

    def _subclass(self, key: tuple, methods: dict) -> Any:
        owner = key[0]
        if key not in self._classes:
            self._classes[key] = type(owner.__name__, (owner,), {**methods, "__module__": owner.__module__})
        return self._classes[key]

    def _run(self, module: Any, run: Callable, connection: Any, uri: Any, sql: Any, *args: Any) -> Any:
        if not isinstance(sql, str) or not _NAMES_A_FILE.search(sql):
            return run(sql, *args)
        named = with_named_files(sql)
        if named == sql:
            return run(sql, *args)
        refused: list = []
        connection.create_function(_FUNCTION, 1, functools.partial(self._named, uri, refused))
        try:
            return run(named, *args)
        except module.OperationalError:
            if refused:
                raise refused[0] from None
            raise

    def _named(self, uri: Any, refused: list, name: Any) -> Any:
        try:
            found, as_uri = self._database(name, uri) if isinstance(name, str) else (None, False)
            if as_uri and not uri:
                refused.append(
                    denial("attaching so large a database", name, "attach it by a URI with mode=ro")
                )
                raise refused[0]
        except Answer as answered:
            refused.append(answered.error)
            raise
        except OSError:
            raise
        except Exception as fault:
            self._failed(fault)
            found = None
        return name if found is None else found

    def _database(self, name: str, uri: Any) -> tuple:
        """Return what to connect to, None for the database itself, and whether that is a URI."""
        from urllib.parse import parse_qs, quote, unquote, urlsplit

        query = ""
        if uri and name.startswith("file:"):
            split = urlsplit(name)
            name, query = unquote(split.path), split.query
        options = parse_qs(query)
        if (
            not name
            or name == ":memory:"
            or options.get("mode") in (["ro"], ["memory"])
            or "immutable" in options
        ):
            is_memory = not name or name == ":memory:" or options.get("mode") == ["memory"]
            copy = None if is_memory else self._overlay.read_path(name)
        else:
            copy = self._writable_database(name)
        if copy is None:
            return None, False
        if copy.startswith("file:") or not query:
            return copy, copy.startswith("file:")
        return f"file:{quote(copy)}?{query}", True

    def _writable_database(self, name: str) -> Any:
        from urllib.parse import quote

        overlay = self._overlay
        status = status_of(name, follows=True)
        real = overlay.follow(overlay.find(name)[0])[0]
        too_large = status is not None and status.st_size > overlays.LARGEST_COPY_BYTES
        if too_large and not overlay.is_diverted(real) and overlay.existed(real):
            return f"file:{quote(real)}?mode=ro"  # a large data set is only read, as a rule
        copy, newborn = overlay.write_path(name)
        for journal in (f"{real}-wal", f"{real}-journal"):
            if copy is not None and overlay.existed(journal):
                overlay.write_path(journal)
            elif newborn is not None:
                overlay.expect(journal)
        overlay.born(newborn)
        return copy


def install(overlay: Overlay, failed: Callable) -> None:
    """Replace SQLite's entry point as the script imports it."""
    imports.when_imported("sqlite3.dbapi2", Databases(overlay, failed).guard)
