"""Describes how the user sets a knob in this target: by its flag, key, variable or line of code."""

import shlex

from tunekit.errors import UsageError
from tunekit.records.config import KNOB, LOADER_KNOBS
from tunekit.records.target import Binding, BindingKind, Target
from tunekit.trial.binding_syntax import PLACE, BoundValue, spelled, value_text


def set_knob(target: Target, knob: str, value: BoundValue) -> str:
    """Return how to set a knob in this target.

    Examples are "--workers 6", "data.num_workers: 6 in config.yaml", "WORKERS=6" and, for the script's own
    code, "num_workers=6 in the DataLoader".
    """
    binding = target.binding_of(knob)
    if binding is not None:
        try:
            text = spelled(binding, value)
        except UsageError:  # the binding has no text for this value: the script needs a change
            return _in_code(knob, value)
        words = _at_binding(binding, value, text)
        if words is not None:
            return words
    return _in_code(knob, value)


def _at_binding(binding: Binding, value: BoundValue, text: str | None) -> str | None:
    if binding.kind is BindingKind.ARG:
        return _as_words(binding, value, text)
    if binding.kind is BindingKind.FILE:
        equals = " =" if (binding.path or "").lower().endswith(".toml") else ":"
        written = value_text(value) if text is None else text
        return f"{binding.key}{equals} {written} in {binding.path}"
    if binding.kind is BindingKind.ENV:
        if text is None and value is None:
            return f"unset {binding.variable}"
        if text is None:  # as trials write them
            text = str(int(value)) if isinstance(value, bool) else value_text(value)
        return f"{binding.variable}={shlex.quote(text)}"
    return None


def _as_words(binding: Binding, value: BoundValue, text: str | None) -> str:
    has_place = any(PLACE in word for word in binding.words)
    if has_place and (text is not None or value is not None):
        written = value_text(value) if text is None else text
        return shlex.join(word.replace(PLACE, written) for word in binding.words)
    if value and not has_place:
        return shlex.join(binding.words)
    if binding.words_off:
        return shlex.join(binding.words_off)
    words = (word.replace(PLACE, "").rstrip("=") for word in binding.words)
    return f"no {shlex.join(word for word in words if word)}"


def _in_code(knob: str, value: BoundValue) -> str:
    if knob in LOADER_KNOBS:
        return f"{knob}={value!r} in the DataLoader"
    code = KNOB[knob].code.get(value) if knob in KNOB and not isinstance(value, float) else None
    return code or f"{knob}={value_text(value)} in the script"
