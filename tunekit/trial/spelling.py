"""Values of knobs as text, and how a binding spells them for the user's script."""

import math
import re

from tunekit.errors import UsageError
from tunekit.records.config import KNOB, KNOBS, KnobValue
from tunekit.records.target import Binding

LEARNING_RATE = "lr"
"""Not a knob that is searched, but bound like one."""

BINDABLE = (*KNOBS, LEARNING_RATE)
"""Everything that a binding can be for."""

BoundValue = KnobValue | float
"""A value of a knob or of `lr`."""

_SWITCH_WORDS = dict.fromkeys(("true", "on", "yes", "1"), True)
_SWITCH_WORDS |= dict.fromkeys(("false", "off", "no", "0"), False)
_NOTHING = ("null", "none")


def parse_value(knob: str, text: str) -> BoundValue:
    """Return the value of a knob that a text names.

    Raises:
        ValueError: the knob can't have such a value; the message says which it can have.
    """
    lowered = text.strip().lower()
    if knob == LEARNING_RATE:
        return _positive_number(lowered)
    known = KNOB[knob]
    if known.is_switch:
        if lowered in _SWITCH_WORDS:
            return _SWITCH_WORDS[lowered]
        raise ValueError("true or false")
    if known.off is None and lowered in _NOTHING:
        return None
    if known.choices:
        if lowered in known.choices:
            return known.choices[known.choices.index(lowered)]
        raise ValueError(f"one of {', '.join(known.choices)}")
    least = known.least or 0
    if not re.fullmatch(r"[0-9]{1,15}", lowered) or int(lowered) < least:
        raise ValueError(f"a whole number, at least {least}")
    return int(lowered)


def value_text(value: BoundValue) -> str:
    """Return a value as tunekit writes it: true, false, null, a number or a name."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def parse_spelling(knob: str, text: str) -> tuple[tuple[str, str], ...]:
    """Return the (value, text) pairs in "fp32:32-true,bf16:bf16-mixed".

    Raises:
        UsageError: a pair is not one, the knob can't have the value, or two values read alike.
    """
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, colon, written = (piece.strip() for piece in part.partition(":"))
        if not colon:
            raise UsageError(
                f"{{{text}}}: {part.strip()!r} spells no value of {knob}; "
                "write {value:text,value:text}, or {} for values as they are"
            )
        try:
            value = value_text(parse_value(knob, name))
        except ValueError as error:
            raise UsageError(f"{{{text}}}: {name!r} is no value of {knob}; use {error}") from error
        if value in pairs:
            raise UsageError(f"{{{text}}}: {value} is spelled twice; keep one of them")
        if written in pairs.values():
            raise UsageError(
                f"{{{text}}}: two values of {knob} are spelled {written!r}, so the script would see no "
                "difference between them; keep one of them"
            )
        pairs[value] = written
    return tuple(pairs.items())


def spelling_text(spelling: tuple[tuple[str, str], ...]) -> str:
    """Return the spelling as `parse_spelling` reads it."""
    return ",".join(f"{value}:{written}" for value, written in spelling)


def spelled(binding: Binding, value: BoundValue) -> str | None:
    """Return the text that the binding spells a value with.

    Returns:
        None when it spells nothing, or when it has no text for "no value".

    Raises:
        UsageError: the binding spells other values, but not this one.
    """
    if not binding.spelling:
        return None
    text = dict(binding.spelling).get(value_text(value))
    if text is None and value is not None:
        known = ", ".join(name for name, _ in binding.spelling)
        raise UsageError(
            f"{binding.knob}={value_text(value)} has no spelling in its binding, which knows {known}; "
            f"add {value_text(value)}:TEXT to it, or leave the value out with --fix or --range"
        )
    return text


def value_read(binding: Binding, text: str) -> BoundValue:
    """Return the value that a text in the script's own spelling stands for.

    Raises:
        ValueError: it stands for none.
    """
    if not binding.spelling:
        return parse_value(binding.knob, text)
    for value, written in binding.spelling:
        if written == text:
            return parse_value(binding.knob, value)
    raise ValueError(f"one of {', '.join(written for _, written in binding.spelling)}")


def _positive_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError("a positive number")
    return number
