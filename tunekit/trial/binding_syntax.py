"""Knob values and bindings as text: `--bind KNOB=HOW`, read and written.

HOW is one of

    inject  fixed                               set by the agent; kept as the script sets it
    env:NAME                                    an environment variable
    configs/a.yaml:data.batch_size              a key in a YAML, JSON or TOML file
    --bs {}   --bs={}   data.batch_size={}      words on the command line; {} is the value
    --compile   --compile|--no-compile          words for true (and others for false)
    {fp32:,bf16:--bf16,fp16:--fp16}             different words for each value

and a value's place may say how the script spells it: `env:AMP{bf16:1,fp32:0}`, `--precision {fp32:32-true}`.
"""

import math
import re
import shlex
from collections.abc import Sequence

from tunekit.errors import UsageError
from tunekit.records.config import INJECTED_KNOBS, KNOB, SWITCH_KNOBS, KnobValue
from tunekit.records.target import Binding, BindingKind
from tunekit.trial.knob_names import BINDABLE, LEARNING_RATE, STEPS, knob_hint

PLACE = "{}"
"""Placeholder for the value."""

BoundValue = KnobValue | float
"""A value of a knob or of `lr`."""

Spelling = tuple[tuple[str, str], ...]
"""Pairs of a knob's value as tunekit writes it and the script's text for it."""

_SWITCH_WORDS = dict.fromkeys(("true", "on", "yes", "1"), True)
_SWITCH_WORDS |= dict.fromkeys(("false", "off", "no", "0"), False)
_NOTHING = ("null", "none")
_BRACES = re.compile(r"\{([^{}]*)\}")
_ENV = re.compile(r"env:([^{}]*)(?:\{([^{}]*)\})?", re.DOTALL)
_FILE = re.compile(
    r"(?P<path>.*\.(?:ya?ml|json|toml)):(?P<key>[^\s{}=:]+)(?:\{(?P<spelling>[^{}]*)\})?", re.I
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OTHER_FILE = re.compile(r"[^\s{}=:]+\.\w+:[^\s{}=:]+")


def parse_value(knob: str, text: str) -> BoundValue:
    """Return the value that a text means for a knob.

    Raises:
        ValueError: the knob can't have such a value; the message says which values it can have.
    """
    lowered = text.strip().lower()
    if knob == LEARNING_RATE:
        return _positive_number(lowered)
    known = KNOB["batch_size" if knob == STEPS else knob]
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


def spelled(binding: Binding, value: BoundValue) -> str | None:
    """Return the binding's text for a value.

    Returns:
        The text; None if the binding spells no values, or has no text for "no value".

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
    """Return the value that a text means in the script's own spelling.

    Raises:
        ValueError: it isn't a known spelling.
    """
    if not binding.spelling:
        return parse_value(binding.knob, text)
    for value, written in binding.spelling:
        if written == text:
            return parse_value(binding.knob, value)
    raise ValueError(f"one of {', '.join(written for _, written in binding.spelling)}")


def parse_binding(text: str) -> Binding:
    """Return the binding in "KNOB=HOW".

    Raises:
        UsageError: the syntax is wrong, or the knob can't be bound this way.
    """
    knob, equals, how = (part.strip() for part in text.partition("="))
    if not equals or not knob or not how:
        raise UsageError(f"--bind {text}: write it as KNOB=HOW, as in: --bind 'batch_size=--bs {{}}'")
    if knob not in BINDABLE:
        raise UsageError(f"--bind {text}: no knob {knob!r}; {knob_hint(knob, BINDABLE)}")
    if re.search(r"[\x00\ud800-\udfff]", how):  # can't be passed to a program
        raise UsageError(f"--bind {knob}: the binding is not readable as text: {how!r}")
    try:
        return _binding(knob, how)
    except UsageError as error:
        raise UsageError(f"--bind {text}: {error}") from error


def binding_text(binding: Binding) -> str:
    """Return the binding as "KNOB=HOW", which `parse_binding` reads."""
    return f"{binding.knob}={how_text(binding)}"


def how_text(binding: Binding) -> str:
    """Return the part of a binding after "KNOB="."""
    pairs = ",".join(f"{value}:{written}" for value, written in binding.spelling)
    spelling = f"{{{pairs}}}" if pairs else ""
    if binding.kind is BindingKind.ENV:
        return f"env:{binding.variable}{spelling}"
    if binding.kind is BindingKind.FILE:
        return f"{binding.path}:{binding.key}{spelling}"
    if binding.kind is BindingKind.ARG:
        words = _joined(binding.words).replace(PLACE, spelling or PLACE)
        return f"{words}|{_joined(binding.words_off)}" if binding.words_off else words
    return binding.kind.value


def values_possible(binding: Binding, knob: str) -> tuple[BoundValue, ...] | None:
    """Return the values of the knob that the binding's spelling allows; None when it allows any."""
    if not binding.spelling:
        return None
    return tuple(parse_value(knob, value) for value, _ in binding.spelling)


def _binding(knob: str, how: str) -> Binding:
    if how == BindingKind.FIXED:
        return Binding(knob=knob, kind=BindingKind.FIXED)
    if how == BindingKind.INJECT:
        if knob not in INJECTED_KNOBS:
            raise UsageError(f"{knob} can't be injected; bind it to words, a file's key or a variable")
        return Binding(knob=knob, kind=BindingKind.INJECT)
    if how.startswith("env:"):
        return _env_binding(knob, how)
    in_file = None if how.lstrip("'").startswith("-") else _FILE.fullmatch(how)
    if in_file:
        return _file_binding(knob, in_file)
    if _BRACES.search(how):
        return _value_words(knob, how)
    if how.lstrip("'").startswith("-"):
        return _switch_words(knob, how)
    if _OTHER_FILE.fullmatch(how):
        raise UsageError("only .yaml, .yml, .json and .toml files can be bound to; use words or env:NAME")
    raise UsageError(
        "write HOW as inject, fixed, env:NAME, FILE.yaml:KEY or words such as '--bs {}' or 'data.bs={}'"
    )


def _env_binding(knob: str, how: str) -> Binding:
    match = _ENV.fullmatch(how)
    if match is None or not _VARIABLE.fullmatch(match[1]):
        raise UsageError(
            "not the name of a variable; write env:NAME or env:NAME{value:text}, "
            "the name in letters, digits and _"
        )
    spelling = _parse_spelling(knob, match[2])
    return Binding(knob=knob, kind=BindingKind.ENV, variable=match[1], spelling=spelling)


def _file_binding(knob: str, match: re.Match[str]) -> Binding:
    key = match["key"]
    if not all(key.split(".")):
        raise UsageError(f"the key {key!r} has an empty part; write it as data.batch_size")
    spelling = _parse_spelling(knob, match["spelling"])
    return Binding(knob=knob, kind=BindingKind.FILE, path=match["path"], key=key, spelling=spelling)


def _value_words(knob: str, how: str) -> Binding:
    braces = _BRACES.findall(how)
    if len(braces) > 1:
        raise UsageError(f"braces in {len(braces)} places; the value goes into one")
    spelling = _parse_spelling(knob, braces[0])
    words = _split(_BRACES.sub(PLACE, how))
    if words == (PLACE,) and not _are_switches(spelling):
        raise UsageError(f"no flag for the value; write the flag too, as in: '--flag {PLACE}'")
    return Binding(knob=knob, kind=BindingKind.ARG, words=words, spelling=spelling)


def _are_switches(spelling: Spelling) -> bool:
    """Return whether each value has its own switch, where one of them may have none."""
    texts = [text for _, text in spelling]
    return any(texts) and all(text.startswith("-") for text in texts if text)


def _switch_words(knob: str, how: str) -> Binding:
    if knob not in SWITCH_KNOBS:
        what = "'--precision {fp32:32-true,bf16:bf16-mixed}'" if knob == "precision" else f"'{how} {PLACE}'"
        raise UsageError(f"{knob} is not true or false; say where its value goes, as in: {what}")
    on, bar, off = how.partition("|")
    words, words_off = _split(on), _split(off)
    if not words or (bar and not words_off) or "|" in off or words == words_off:
        raise UsageError("write a switch as ON or as ON|OFF, as in: '--compile|--no-compile'")
    return Binding(knob=knob, kind=BindingKind.ARG, words=words, words_off=words_off)


def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"can't be split into words ({error}); close the quotes") from error


def _joined(words: Sequence[str]) -> str:
    """Return words quoted for a shell, leaving the placeholder unquoted where possible."""
    quoted = []
    for word in words:
        rest = word.replace(PLACE, "")
        quoted.append(word if rest == shlex.quote(rest) or word == PLACE else shlex.quote(word))
    return " ".join(quoted)


def _parse_spelling(knob: str, text: str | None) -> Spelling:
    """Return the (value, text) pairs in "fp32:32-true,bf16:bf16-mixed"; empty without braces or for `{}`.

    Raises:
        UsageError: a pair is malformed, the knob can't have the value, or two values have the same text.
    """
    if not text:
        return ()
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


def _positive_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError("a positive number")
    return number
