"""A binding's words in a training command: found, replaced in place, taken away, read.

A flag is known in both of its forms, `--bs 32` and `--bs=32`, and an override with or without Hydra's
plus signs, `data.bs=32` and `+data.bs=32`; what is there keeps its form.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tunekit.records.target import Binding
from tunekit.trial.binding_syntax import PLACE

Words = tuple[str, ...]


@dataclass(frozen=True)
class _Occurrence:
    """One place where a command has the words of a binding."""

    start: int
    form: Words
    value: str | None
    """What stands in the place of the value; None for words without one."""


def with_value(words: Sequence[str], binding: Binding, text: str) -> Words:
    """Return the words with the value put in: in its first place, and at the end where it has none."""
    found = list(_occurrences(words, _forms(binding), _spellings(binding)))
    if binding.words == (PLACE,):
        return _with(words, found, tuple(text.split()))
    form = found[0].form if found else binding.words
    return _with(words, found, tuple(word.replace(PLACE, text, 1) for word in form))


def without_value(words: Sequence[str], binding: Binding) -> Words:
    """Return the words without the binding's."""
    return _with(words, list(_occurrences(words, _forms(binding), _spellings(binding))), ())


def with_switch(words: Sequence[str], binding: Binding, on: bool) -> Words:
    """Return the words switched on or off."""
    found = list(_occurrences(words, _switch_forms(binding)))
    return _with(words, found, binding.words if on else binding.words_off)


def value_in(words: Sequence[str], binding: Binding) -> str | None:
    """Return the text in the place of the value, the last one as most parsers do; None without one."""
    found = list(_occurrences(words, _forms(binding), _spellings(binding)))
    if binding.words == (PLACE,):
        return " ".join(found[-1].form) if found else "" if "" in _spellings(binding) else None
    return found[-1].value if found else None


def switch_in(words: Sequence[str], binding: Binding) -> bool | None:
    """Return whether the words are switched on; None when they do not say."""
    found = list(_occurrences(words, _switch_forms(binding)))
    if not found:
        return None if binding.words_off else False
    return found[-1].form == binding.words


def _with(words: Sequence[str], found: Sequence[_Occurrence], new: Words) -> Words:
    """Return the words with new ones for the first occurrence and without the others."""
    result: list[str] = []
    after = 0
    for occurrence in found:
        result += words[after : occurrence.start]
        result += new if occurrence is found[0] else ()
        after = occurrence.start + len(occurrence.form)
    result += words[after:]
    return tuple(result) if found else (*result, *new)


def _occurrences(
    words: Sequence[str], forms: Sequence[Words], spellings: Sequence[str] = ()
) -> Iterator[_Occurrence]:
    """Yield the places of any of the forms, in order, none within another."""
    start = 0
    while start < len(words):
        found = next((seen for form in forms if (seen := _at(words, start, form, spellings))), None)
        if found:
            yield found
        start += len(found.form) if found else 1


def _at(words: Sequence[str], start: int, form: Words, spellings: Sequence[str]) -> _Occurrence | None:
    """Return the occurrence of a form that begins at a word; None when none does."""
    there = words[start : start + len(form)]
    if len(there) < len(form):
        return None
    value = None
    for wanted, word in zip(form, there, strict=True):
        if PLACE not in wanted:
            if word != wanted:
                return None
            continue
        before, _, after = wanted.partition(PLACE)
        whole = len(word) >= len(before) + len(after)
        if not (whole and word.startswith(before) and word.endswith(after)):
            return None
        if wanted == PLACE and _is_flag(word) and word not in spellings:
            return None  # the flag before it has no value here
        value = word[len(before) : len(word) - len(after)]
    return _Occurrence(start, form, value)


def _forms(binding: Binding) -> tuple[Words, ...]:
    """Return the binding's words in every form that parsers take for the same."""
    words = binding.words
    if words == (PLACE,):  # each value has words of its own
        forms = (tuple(text.split()) for text in _spellings(binding))
        return tuple(sorted(filter(None, forms), key=len, reverse=True))
    if len(words) == 2 and _is_flag(words[0]) and words[1] == PLACE:
        return words, (f"{words[0]}={PLACE}",)
    if len(words) > 1:
        return (words,)
    flag, equals, place = words[0].partition("=")
    if not equals or place != PLACE:
        return (words,)
    if _is_flag(flag):
        return words, (flag, PLACE)
    name = words[0].lstrip("+")
    return words, *((f"{pluses}{name}",) for pluses in ("", "+", "++") if f"{pluses}{name}" != words[0])


def _switch_forms(binding: Binding) -> list[Words]:
    """Return the words for true and those for false, longer ones first."""
    return sorted(filter(None, (binding.words, binding.words_off)), key=len, reverse=True)


def _spellings(binding: Binding) -> list[str]:
    return [text for _, text in binding.spelling]


def _is_flag(word: str) -> bool:
    return re.fullmatch(r"-[^\d.].*", word, re.DOTALL) is not None
