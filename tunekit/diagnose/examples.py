"""An example of each finding, found by the checks in the tests' records, and the checks' thresholds."""

import inspect
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from tunekit.diagnose import policy
from tunekit.diagnose.registry import checks_of
from tunekit.records.schema import docstrings
from tunekit.units import bytes_text

EXAMPLES_FILE = Path(__file__).with_name("examples.json")
"""Evidence and remedy of one finding of each code; written by tests/diagnose/test_examples.py."""


@cache
def examples() -> dict[str, dict[str, str]]:
    """Return what was `seen` and what to `do` in an example of each code."""
    found: dict[str, dict[str, str]] = json.loads(EXAMPLES_FILE.read_text(encoding="utf-8"))
    return found


def thresholds_of(code: str) -> tuple[str, ...]:
    """Return the thresholds of policy.py that the checks of a code use, each with its reason."""
    names = [name for one in checks_of(code) for name in (*one.by, *_names_in(one.look, set()))]
    reasons = docstrings(policy)
    return tuple(
        ". ".join(filter(None, (f"{name} = {_value_text(name)}", reasons.get(name))))
        for name in dict.fromkeys(names)
    )


def _names_in(function: Callable[..., Any], seen: set[Callable[..., Any]]) -> Iterator[str]:
    """Yield the constants of policy.py that a function uses, itself or in functions of this package."""
    seen.add(function)
    for name in _names_of(function.__code__):
        held = function.__globals__.get(name)
        if name.isupper() and hasattr(policy, name) and held is getattr(policy, name):
            yield name
        elif inspect.isfunction(held) and held.__module__.startswith(__package__) and held not in seen:
            yield from _names_in(held, seen)


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_of(inner)


def _value_text(name: str) -> str:
    value = getattr(policy, name)
    if name.endswith("_BYTES"):
        return bytes_text(value)
    return f"{value:.0%}" if name.endswith("_SHARE") else f"{value:g}"
