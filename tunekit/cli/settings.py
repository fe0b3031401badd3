"""A project's settings, flags and bindings: `[tool.tunekit]` of pyproject.toml, or tunekit.toml."""

import argparse
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from tunekit.cli.flags import READERS
from tunekit.errors import UnreadableError, UsageError
from tunekit.records.codec import write_text
from tunekit.records.options import SEARCH, Kind, Option
from tunekit.records.target import Binding
from tunekit.trial.binding_syntax import binding_text, how_text, parse_binding
from tunekit.trial.target import named_script
from tunekit.typos import did_you_mean
from tunekit.untrusted import decoded, parse_toml, read_bytes, read_text

OWN_FILE = "tunekit.toml"
PROJECT_FILE = "pyproject.toml"

SETTINGS = {one.flag[2:]: one for one in SEARCH if one.in_settings}
"""Every option that a settings file may hold, by its flag's name."""

_TABLES = {
    "bind": 'a table of knobs, each with a text such as "--bs {}"',
    "script": 'a table of scripts, such as [script."train.py".bind]',
}


def file_and_line(options: argparse.Namespace, name: str) -> tuple[list[str], list[str]]:
    """Return the values of a repeatable flag: the settings file's, then the command line's.

    Args:
        options: what the parser read.
        name: of the flag, such as "fix".
    """
    values, count = getattr(options, name), len(options.project.get(name, ()))
    return values[:count], values[count:]


def load_settings(folder: Path, command: Sequence[str] = ()) -> dict[str, object]:
    """Return the settings of a folder or of its nearest parent that has some, within the repository.

    They are values for `parser.set_defaults`, by their names among the parsed options: a flag on the command
    line wins, but what it adds to `--fix`, `--range` and `--bind` comes after what the file says, so that for
    the same knob the last one wins.

    Args:
        folder: where the training command runs.
        command: the training command; its script may have its own bindings, whose paths are relative to
            the folder.

    Raises:
        UsageError: a settings file can't be read, names what no flag is called, or gives it another type.
    """
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        found = _settings_in(place)
        if found is not None:
            path, table = found
            flags, name = _flags(table, path), _script_name(command, folder, path.parent)
            bound = [binding_text(binding) for binding in _bindings(table, path, folder, name)]
            return flags | ({"bind": bound} if bound else {})
        if (place / ".git").exists():
            break
    return {}


def _settings_in(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the folder's settings file and its content; None where it has none."""
    own, project = folder / OWN_FILE, folder / PROJECT_FILE
    in_own = _parsed(own) if own.exists() else None
    in_project = _project_table(project) if project.exists() else None
    if in_own and in_project:
        raise UsageError(f"both {own} and [tool.tunekit] of {project} hold settings; keep one of them")
    if in_own is not None:
        return own, in_own
    return None if in_project is None else (project, in_project)


def _project_table(path: Path) -> dict[str, Any] | None:
    tools = _parsed(path, mention=b"tunekit").get("tool")
    table = tools.get("tunekit") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path}: tool.tunekit must be a table, got {table!r}; write it as [tool.tunekit]")
    return table


def _parsed(path: Path, mention: bytes = b"") -> dict[str, Any]:
    """Return a file's settings; nothing, without parsing it, where it does not mention tunekit."""
    try:
        content = read_bytes(path)
        return parse_toml(decoded(content)) if mention in content else {}
    except UnreadableError as error:
        raise UsageError(f"{path} {error}; correct it or move it away") from error


def _flags(table: Mapping[str, Any], path: Path) -> dict[str, object]:
    flags: dict[str, object] = {}
    for name, value in table.items():
        if name in _TABLES:
            continue
        if name not in SETTINGS:
            known = (*SETTINGS, *_TABLES)
            hint = did_you_mean(name, known, f"use one of {', '.join(known)}")
            raise UsageError(f"{path}: no setting {name!r}; {hint}")
        try:
            flags[SETTINGS[name].name] = _read(SETTINGS[name], value)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"{path}: {name}: {error}") from error
    return flags


def _read(option: Option, value: object) -> object:
    """Return a value of the file as the command line would parse it."""
    texts = value if option.is_list else [value]
    is_text = isinstance(texts, list) and all(isinstance(one, str) and one for one in texts)
    if option.kind in (Kind.NAME, Kind.NAMES) and not is_text:
        what = 'a list of texts, such as ["compile=false"]' if option.is_list else "text in quotes"
        raise argparse.ArgumentTypeError(f"must be {what}, got {value!r}")
    if option.choices and value not in option.choices:
        raise argparse.ArgumentTypeError(f"must be {' or '.join(option.choices)}, got {value!r}")
    return value if option.is_list else READERS[option.kind](str(value))


def _script_name(command: Sequence[str], folder: Path, origin: Path) -> str:
    """Return how settings in `origin` call the script of a command that runs in `folder`."""
    script = named_script(command, folder)
    return Path(*command[:1]).name if script is None else Path(os.path.relpath(script, origin)).as_posix()


def _bindings(table: Mapping[str, Any], path: Path, folder: Path, script: str) -> tuple[Binding, ...]:
    """Return the bindings that hold for a script; its own come after those of the folder and replace them."""
    of_scripts = table.get("script", {})
    if not isinstance(of_scripts, dict) or any(
        not isinstance(one, dict) or one.keys() - {"bind"} for one in of_scripts.values()
    ):
        raise UsageError(f"{path}: script = {of_scripts!r}: must be {_TABLES['script']}")
    bindings: dict[str, Binding] = {}
    for name, owner in ((script, table), *of_scripts.items()):
        bound = owner.get("bind", {})
        if not isinstance(bound, dict) or not all(isinstance(how, str) for how in bound.values()):
            raise UsageError(f"{path}: bind = {bound!r}: must be {_TABLES['bind']}")
        try:
            parsed = {knob: parse_binding(f"{knob}={how}") for knob, how in bound.items()}
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
        bindings |= parsed if name == script else {}
    return tuple(_moved(bindings.values(), path.parent, folder))


def _moved(bindings: Iterable[Binding], origin: Path, folder: Path) -> Iterator[Binding]:
    """Yield bindings with their relative paths rewritten from `origin` to `folder`."""
    for binding in bindings:
        if binding.path is None or origin == folder or Path(binding.path).is_absolute():
            yield binding
        else:
            yield binding.changed(path=os.path.relpath(origin / binding.path, folder))


def write_settings(folder: Path, command: Sequence[str], bindings: Sequence[Binding]) -> Path:
    """Write the bindings of a command's script into a folder's settings, all else kept byte for byte.

    They go to tunekit.toml where there is one, else to pyproject.toml, else to a new tunekit.toml.

    Args:
        folder: gets the settings, and is where the command runs; paths in the bindings are relative to it.
        command: the training command.
        bindings: all that the script has from now on.

    Returns:
        The file.

    Raises:
        UsageError: the file can't be read or written.
    """
    own, project = folder / OWN_FILE, folder / PROJECT_FILE
    path = own if own.exists() or not project.exists() else project
    outer = () if path == own else ("tool", "tunekit")
    table = (*outer, "script", _script_name(command, folder, folder), "bind")
    try:
        path = path.resolve()
        existing = read_text(path) if path.exists() else ""
        text = with_bindings(existing, bindings, table)
        if text != existing:
            mode = path.stat().st_mode & 0o777 if path.exists() else None
            write_text(path, text)
            if mode is not None:
                path.chmod(mode)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    except OSError as error:
        raise UsageError(f"{path} can't be written ({error.strerror}); check its permissions") from error
    except UnreadableError as error:
        raise UsageError(f"{path} {error}") from error
    return path


def with_bindings(existing: str, bindings: Sequence[Binding], table: Sequence[str]) -> str:
    """Return the text of a settings file with bindings in it.

    Args:
        existing: TOML, possibly empty.
        bindings: one per knob.
        table: names of the table that holds them from now on, outermost first.

    Raises:
        UsageError: the text is no TOML.
    """
    wanted = {binding.knob: how_text(binding) for binding in bindings}
    try:
        document = tomlkit.parse(existing)
        entries: MutableMapping[str, Any] = document
        for name in table:
            if name not in entries:
                entries[name] = {}
            entries = entries[name]
            if not isinstance(entries, MutableMapping):
                raise UsageError(f"{'.'.join(table)} is no table; write it as a table")
        if dict(entries) == wanted:
            return existing
        for knob in [knob for knob in entries if knob not in wanted]:
            del entries[knob]
        entries.update({knob: how for knob, how in wanted.items() if entries.get(knob) != how})
    except TOMLKitError as error:
        raise UsageError(f"can't be read as TOML ({error}); correct it") from error
    text = tomlkit.dumps(document)
    held: Any = tomllib.loads(text)
    if reduce(lambda within, name: within.get(name, {}), table, held) != wanted:
        raise UsageError(f"has no place for {'.'.join(table)}; write its settings as a [table]")
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in existing else text
