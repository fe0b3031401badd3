"""Flags of tunekit's own behind the `--`, where the training command gets them: a hint, no error."""

import re
from collections.abc import Sequence
from pathlib import Path

from tunekit.cli.parser import flag_of, flags_of
from tunekit.trial.target import named_script


def unmentioned(verb: str, command: Sequence[str]) -> str | None:
    """Return a hint where the script's source mentions no flag of that name; None where it may have it."""
    before = ("", *command)
    place = next((at for at, word in enumerate(command) if word.endswith(".py") or before[at] == "-m"), None)
    script = named_script(command, Path.cwd())
    if place is None or script is None or not script.is_file():
        return None
    own, source = flags_of(verb), script.read_text(encoding="utf-8", errors="replace")
    for flag in map(flag_of, command[place + 1 :]):
        if flag in own and not _is_named(flag, source):
            remedy = "if it is meant for tunekit, put it before --"
            return f"{flag} stands after --, so {command[place]} gets it and does not mention it; {remedy}"
    return None


def _is_named(flag: str, source: str) -> bool:
    """Return whether a source has a flag, or a variable that one may be made from."""
    name = flag.lstrip("-").replace("-", "[-_]")
    return re.search(rf"(?<![a-zA-Z0-9]){name}(?![a-zA-Z0-9])", source) is not None
