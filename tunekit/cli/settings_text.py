"""Bindings written into a project's settings file."""

import tomllib
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from tunekit.cli.settings import OWN_FILE, PROJECT_FILE
from tunekit.errors import UnreadableError, UsageError
from tunekit.records.codec import write_text
from tunekit.records.target import Binding
from tunekit.trial.binding_syntax import how_text
from tunekit.untrusted import parse_toml, read_text

_IN_PROJECT = ("tool", "tunekit", "bind")
_IN_OWN = ("bind",)


def write_settings(folder: Path, bindings: Sequence[Binding], replace: bool = False) -> Path:
    """Write bindings into the folder's settings, everything else in the file kept byte for byte.

    They go to tunekit.toml where there is one, else to pyproject.toml, else to a new tunekit.toml.

    Args:
        folder: gets the settings; paths in the bindings are relative to it.
        bindings: all that the project has from now on.
        replace: whether other bindings that are there may go.

    Returns:
        The file.

    Raises:
        UsageError: other bindings are there, or the file can't be read or written.
    """
    own, project = folder / OWN_FILE, folder / PROJECT_FILE
    path = own if own.exists() or not project.exists() else project
    table = _IN_OWN if path == own else _IN_PROJECT
    try:
        path = path.resolve()
        existing = read_text(path) if path.exists() else ""
        text = with_bindings(existing, bindings, table, replace)
        if text != existing:
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
            write_text(path, text)
            path.chmod(mode)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    except OSError as error:
        raise UsageError(f"{path} can't be written ({error.strerror}); check its permissions") from error
    except UnreadableError as error:
        raise UsageError(f"{path} {error}") from error
    return path


def with_bindings(
    existing: str, bindings: Sequence[Binding], table: Sequence[str] = _IN_OWN, replace: bool = False
) -> str:
    """Return the text of a settings file with bindings in it.

    Args:
        existing: TOML, possibly empty.
        bindings: one per knob.
        table: names of the table that holds them, outermost first.
        replace: whether other bindings that are there may go.

    Raises:
        UsageError: the text is no TOML, or other bindings are there.
    """
    wanted = {binding.knob: how_text(binding) for binding in bindings}
    try:
        present = _table_of(parse_toml(existing), table)
        if (present or {}) == wanted:
            return existing
        if present is None:
            return _appended(existing, wanted, table)
        if present and not replace:
            raise UsageError(
                f"[{'.'.join(table)}] holds other bindings ({', '.join(sorted(present))}); "
                "remove it, or ask to replace it"
            )
        return _replaced(existing, wanted, table)
    except UnreadableError as error:
        raise UsageError(f"{error}; correct it") from error
    except TOMLKitError as error:
        raise UsageError(f"can't be rewritten as TOML ({error}); correct it") from error


def _table_of(data: Any, table: Sequence[str]) -> dict[str, Any] | None:
    for name in table:
        if not isinstance(data, dict) or name not in data:
            return None
        data = data[name]
    if not isinstance(data, dict):
        raise UsageError(f"{'.'.join(table)} is no table; write it as [{'.'.join(table)}]")
    return data


def _appended(existing: str, wanted: dict[str, str], table: Sequence[str]) -> str:
    """Return the text with the table at its end, or set within it where a table can't be reopened."""
    ending = "\r\n" if "\r\n" in existing else "\n"
    lines = [f"[{'.'.join(table)}]", *_lines(wanted)]
    gap = "" if not existing else ending if existing.endswith("\n") else ending * 2
    text = existing + gap + ending.join(lines) + ending
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return _replaced(existing, wanted, table)
    return text


def _lines(wanted: dict[str, str]) -> Iterator[str]:
    for knob, how in wanted.items():
        yield f"{knob} = {tomlkit.item(how).as_string()}"


def _replaced(existing: str, wanted: dict[str, str], table: Sequence[str]) -> str:
    """Return the text with the table's entries made those wanted; its comments stay."""
    document = tomlkit.parse(existing)
    entries: MutableMapping[str, Any] = document
    for name in table:
        if name not in entries:
            entries[name] = {}
        entries = entries[name]
    for knob in [knob for knob in entries if knob not in wanted]:
        del entries[knob]
    for knob, how in wanted.items():
        if entries.get(knob) != how:
            entries[knob] = how
    return tomlkit.dumps(document)
