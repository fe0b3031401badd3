"""Flags of tunekit's own behind the `--`, where the training command gets them: hints, no errors."""

import re
from collections.abc import Sequence
from pathlib import Path

from tunekit.cli.parser import flag_of, flags_of

_UNKNOWN = re.compile(
    r"(unrecogni[sz]ed|unknown|unexpected|no such|invalid) +(argument|option|flag|parameter)", re.IGNORECASE
)
"""How the parsers of training scripts refuse a flag."""


def unmentioned(verb: str, command: Sequence[str]) -> str | None:
    """Return a hint where the script's source mentions no flag of that name; None where it may have it."""
    place = next((at for at, word in enumerate(command) if word.endswith(".py")), None)
    if place is None:
        return None
    strays = _strays(verb, command[place + 1 :])
    source = _text_of(Path(command[place])) if strays else None
    if source is None:
        return None
    name = next((flag for flag in strays if not _is_named(flag, source)), None)
    return None if name is None else _hint(name, f"{command[place]} gets it and does not mention it")


def refused(verb: str, command: Sequence[str], lines: Sequence[str]) -> str | None:
    """Return a hint where the last lines of a command refuse one of them."""
    refusals = [line for line in lines if _UNKNOWN.search(line)]
    for flag in _strays(verb, command):
        if any(re.search(rf"(?<![\w-]){flag}(?![\w-])", line) for line in refusals):
            return _hint(flag, "the training command gets it")
    return None


def _strays(verb: str, words: Sequence[str]) -> list[str]:
    own = flags_of(verb)
    return [flag for flag in map(flag_of, words) if flag in own]


def _text_of(script: Path) -> str | None:
    try:
        return script.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _is_named(flag: str, source: str) -> bool:
    """Return whether a source has a flag, or a variable that one may be made from."""
    return (
        re.search(rf"(?<![a-zA-Z0-9]){flag.lstrip('-').replace('-', '[-_]')}(?![a-zA-Z0-9])", source)
        is not None
    )


def _hint(flag: str, why: str) -> str:
    return f"{flag} stands after --, so {why}; if it is meant for tunekit, put it before --"
