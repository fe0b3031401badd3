"""Turns the words after `--` into a target."""

import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tunekit.errors import TargetError
from tunekit.machine.host.interpreter import is_python, program_of, unwrapped
from tunekit.plain_text import printable
from tunekit.records.target import Target
from tunekit.secret_words import MASK, has_mask, masked_words
from tunekit.trial.process_count import LAUNCHER_MODULES, own_options
from tunekit.typos import did_you_mean

_STARTS = ("python", "python3", "torchrun", "accelerate", "deepspeed")
"""The first words of most training commands."""


def resolve_target(command: Sequence[str], working_dir: Path, builtin: str | None = None) -> Target:
    """Return the target for a training command.

    Args:
        command: program and arguments, as the user would type them.
        working_dir: the folder that it runs in.
        builtin: name of the built-in workload, if the command is tunekit's own.

    Raises:
        TargetError: there is no such program or script, a word is not valid text, a secret is missing, or one
            of Python's own options keeps the agent out.
    """
    if not command:
        raise TargetError("no training command; give it after --, as in: tunekit search -- python train.py")
    try:
        "".join((*command, str(working_dir))).encode()
    except UnicodeEncodeError as error:
        raise TargetError(
            f"the command or its folder is not readable as text: {list(masked_words(command))}"
        ) from error
    if has_mask(command):
        raise TargetError(
            f"the command has {MASK} in place of a secret, which is not stored: {shlex.join(command)}; "
            f"give the command after --, with the secret in place of {MASK}"
        )
    if program_of(command[0], working_dir) is None:
        here = [program for program in _STARTS if program_of(program, working_dir)]
        hint = did_you_mean(command[0], here, "give the command as you would type it")
        if command[0].endswith(".py"):
            hint = f"start it with Python: {here[0] if here else 'python'} {shlex.join(command)}"
        raise TargetError(f"no program {command[0]!r} on PATH; {printable(hint)}")
    _refuse_agentless(command)
    script = _script_of(command, working_dir)
    return Target(
        name=builtin or _name_of(command, script),
        command=tuple(command),
        working_dir=str(working_dir),
        script=str(script) if script else None,
        script_sha256=_digest(script) if script else None,
        builtin=builtin,
    )


def _refuse_agentless(command: Sequence[str]) -> None:
    """Refuse Python's own options that keep the agent from starting.

    Raises:
        TargetError: the command has such an option.
    """
    words = unwrapped(command)
    if not words or not is_python(words[0]):
        return
    for before, word in pairwise(["", *own_options(words[1:])[0]]):
        found = re.match(r"-(?!-)[^WX]*?([IES])", word)
        if found and not re.fullmatch(r"-[^-]*[WX]", before):  # else it is that option's value
            raise TargetError(
                f"python -{found[1]} keeps tunekit's agent out of the script ({' '.join(words[:3])}): "
                f"leave -{found[1]} out of the command"
            )


def commit_of(folder: Path) -> str | None:
    """Return a folder's git commit, with "-dirty" if tracked files differ from it; None if unknown."""
    words = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def without_secrets(target: Target) -> Target:
    """Return the target with its command masked, safe to store and show."""
    return target.changed(command=masked_words(target.command))


def named_script(command: Sequence[str], folder: Path) -> Path | None:
    """Return the script that a command names, even after a launcher or as a module; None without one.

    The file may not exist.

    Args:
        command: program and arguments.
        folder: the folder that it runs in.
    """
    words = list(command[1:])
    named = next((word for word in words if word.endswith(".py") and not word.startswith("-")), None)
    if named is None and "-m" in words[:-1]:
        module = folder.joinpath(*words[words.index("-m") + 1].split("."))
        named = str(module / "__main__.py") if module.is_dir() else f"{module}.py"
    if named is None:
        # A word may be a shell's whole script, too long for a path, for which pathlib raises.
        named = next((word for word in words if os.path.isfile(folder / word)), None)  # noqa: PTH113
    return None if named is None else Path(os.path.normpath(folder / named))


def other_script(searched: Target, target: Target) -> tuple[str, str] | None:
    """Return the paths of two commands' scripts if they are different scripts; else None.

    A script in a moved or copied project counts as the same, however it is started.
    """
    places = [named_script(one.command, Path(one.working_dir)) for one in (searched, target)]
    was, now = places
    if was is None or now is None or {was.suffix, now.suffix} != {".py"} or was == now:
        return None
    is_in_project = now.is_relative_to(searched.working_dir)
    has_same_text = now.is_file() and _digest(now) == searched.script_sha256
    if has_same_text or (was.name == now.name and not is_in_project):
        return None
    return str(was), str(now)


def script_text_of(target: Target) -> str | None:
    """Return the text of the Python file that a target runs; None if it is unknown or can't be read."""
    try:
        return None if target.script is None else Path(target.script).read_text("utf-8", "replace")
    except OSError:
        return None


def _script_of(command: Sequence[str], working_dir: Path) -> Path | None:
    """Return the Python file that the command runs; None for a module or another program.

    Raises:
        TargetError: the command names a script that doesn't exist.
    """
    if not is_python(command[0]):
        return None
    _, run = own_options(command[1:])
    if not run or run[0] in ("-m", "-c", "-"):
        return None
    path = working_dir / run[0]
    if not path.exists():
        beside = [entry.name for entry in path.parent.glob("*.py")] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, beside, "check the path")
        raise TargetError(f"no script {run[0]!r} in {path.parent}; {hint}")
    return path if path.is_file() else None


def _name_of(command: Sequence[str], script: Path | None) -> str:
    if script is not None:
        return script.stem[:100]
    words = [word for word in masked_words(command)[1:] if not word.startswith("-") and "=" not in word]
    words = [word for word in words if word not in LAUNCHER_MODULES and not word.isdigit()]
    scripts = (Path(word).stem for word in words if word.endswith(".py"))
    stem = next(scripts, (words or [Path(command[0]).name])[0]).replace("/", "-")
    return stem[:100] or "target"


def _digest(script: Path) -> str:
    with script.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
