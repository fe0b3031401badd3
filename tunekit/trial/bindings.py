"""How a config reaches the training process: by the agent, the command, the user's files or variables."""

import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunekit.errors import TunekitError, UsageError
from tunekit.records.config import INJECTED_KNOBS, TrainConfig
from tunekit.records.target import Binding, BindingKind, ScriptOption, Target
from tunekit.trial.binding_syntax import (
    PLACE,
    BoundValue,
    spelled,
    value_read,
    value_text,
)
from tunekit.trial.config_files import Scalar, read_key, with_values
from tunekit.trial.knob_names import BINDABLE, LEARNING_RATE, STEPS

Words = tuple[str, ...]


@dataclass(frozen=True)
class Bound:
    """Everything that makes one trial differ from the unchanged target."""

    command: tuple[str, ...]
    """The user's command with the words of `arg` bindings put in."""
    environment: dict[str, str]
    """Variables to set."""
    file_texts: dict[str, str]
    """Real path of each of the user's files that must read differently -> its rewritten text."""
    injected: dict[str, BoundValue]
    """Values that the agent sets."""
    changed: dict[str, BoundValue]
    """Every knob, including `lr` and `steps`, that differs from the unchanged script."""


def bind(
    target: Target,
    config: TrainConfig | None,
    baseline: TrainConfig | None,
    lr: float | None = None,
    *,
    stale: Collection[str] = (),
    options: Collection[ScriptOption] = (),
) -> Bound:
    """Return how a config reaches the target; only differences from the baseline are set.

    The user's files are read and never written. A knob that the user fixed stays unchanged.

    Args:
        target: the command and its bindings.
        config: the wanted knobs; None changes none.
        baseline: the script's own knobs; None if they are unknown, so that all are set.
        lr: learning rate to set; None keeps the script's own.
        stale: knobs to set even if the baseline has the same value, since their current value differs.
        options: the options of the script's parser.

    Raises:
        UsageError: a knob that needs a binding has none, or its binding has no text for the value.
        TargetError: a bound file can't be read or rewritten.
    """
    changed = _changed(target, config, baseline, lr, stale, options)
    command = target.command
    environment: dict[str, str] = {}
    in_files: dict[Path, dict[str, Scalar]] = {}
    injected: dict[str, BoundValue] = {}
    for knob, value in changed.items():
        binding = target.binding_of(knob)
        if binding is None or binding.kind is BindingKind.INJECT:
            injected |= {} if value is None else {knob: value}
        elif binding.kind is BindingKind.ARG:
            first = _first_argument(target)
            command = (*command[:first], *_InCommand(command[first:], binding).set_to(value))
        elif binding.kind is BindingKind.ENV:
            environment |= _in_environment(binding, value)
        else:
            written = spelled(binding, value)
            keys = in_files.setdefault(_file_of(target, binding), {})
            keys[binding.key or ""] = value if written is None else written
    return Bound(
        command=command,
        environment=environment,
        file_texts={str(path): with_values(path, keys) for path, keys in in_files.items()},
        injected=injected,
        changed=changed,
    )


def present_values(target: Target, options: Collection[ScriptOption] = ()) -> dict[str, BoundValue]:
    """Return the current values of bound knobs in command, files and environment, where they can be read.

    Args:
        target: the command and its bindings.
        options: the options of the script's parser (`Discovery.options`), which give the default of a bound
            option that the command does not contain.
    """
    values: dict[str, BoundValue] = {}
    for binding in target.bindings:
        try:
            text = _present_text(target, binding)
            if text is None and binding.kind is BindingKind.ARG and not _is_switch(binding):
                text = _text_in_force(binding, options)
            if text is not None:
                values[binding.knob] = value_read(binding, text)
        except (TunekitError, ValueError):
            continue  # unreadable, or not a value of the knob
    return values


def _text_in_force(binding: Binding, options: Collection[ScriptOption]) -> str | None:
    """Return the value that the script's parser gave the bound option; None if it has no such option."""
    flag = binding.words[0].lstrip("+").partition("=")[0]
    value = next((option.value for option in options if flag in option.flags), None)
    return None if value is None else value_text(value)


def bound_steps(target: Target, options: Collection[ScriptOption]) -> int | None:
    """Return the unchanged training's number of steps; None if no option is bound to it, or it is unknown.

    Args:
        target: the command and its bindings.
        options: the options of the script's parser, used if the searched command left the option out.
    """
    if not target.is_bound(STEPS):
        return None
    steps = present_values(target, options if STEPS in target.unset_knobs else ()).get(STEPS)
    return steps if isinstance(steps, int) else None


def scaled_steps(steps: int, config: TrainConfig, baseline: TrainConfig) -> int:
    """Return the steps in which a config processes the same samples, with the same number of processes.

    Args:
        steps: steps of the unchanged training.
        config: the wanted knobs.
        baseline: the script's own knobs.
    """
    before, now = (one.batch_size * one.accumulate_grad_batches for one in (baseline, config))
    return max(1, math.ceil(steps * before / now))


def check_bindings(target: Target) -> None:
    """Refuse bindings that no trial could use, before the first trial.

    Raises:
        TargetError: a bound file is missing or can't be read, or the key can't be rewritten.
        UsageError: a bound key is missing, two bindings use the same place, or the bound batch size differs
            from --samples-per-step.
    """
    knob_at: dict[tuple[object, ...], str] = {}
    for binding in target.bindings:
        place = (binding.words, binding.path, binding.key, binding.variable)
        if any(place) and place in knob_at:
            raise UsageError(
                f"{knob_at[place]} and {binding.knob} are bound to the same place; give each its own"
            )
        knob_at[place] = binding.knob
        if binding.kind is BindingKind.FILE:
            with_values(_file_of(target, binding), {binding.key or "": 1})
    said, present = target.samples_per_step, present_values(target).get("batch_size")
    if said is not None and present not in (None, said):
        raise UsageError(
            f"--samples-per-step {said}: batch_size is bound to a place that says {present}; leave "
            "--samples-per-step out, or bind the batch that one process takes in one forward pass"
        )


def bound_target(target: Target, bindings: Iterable[Binding]) -> Target:
    """Return a target with bindings; a later binding of the same knob replaces an earlier one.

    Raises:
        TargetError: a bound file is missing or can't be read.
        UsageError: a bound key is missing, or two bindings use the same place.
    """
    by_knob = {binding.knob: binding for binding in bindings}
    target = target.changed(bindings=tuple(by_knob.values()))
    check_bindings(target)
    present = present_values(target)
    unset = (knob for knob in by_knob if target.is_bound(knob) and knob not in present)
    return target.changed(unset_knobs=tuple(unset))


def _changed(
    target: Target,
    config: TrainConfig | None,
    baseline: TrainConfig | None,
    lr: float | None,
    stale: Collection[str],
    options: Collection[ScriptOption],
) -> dict[str, BoundValue]:
    wanted: dict[str, BoundValue] = config.model_dump(mode="json") if config else {}
    present: dict[str, BoundValue] = baseline.model_dump(mode="json") if baseline else {}
    if lr is not None:
        wanted[LEARNING_RATE] = lr
        present |= {knob: now for knob, now in present_values(target).items() if knob == LEARNING_RATE}
    if config and baseline and (steps := bound_steps(target, options)):
        present[STEPS], wanted[STEPS] = steps, scaled_steps(steps, config, baseline)
    changed = {}
    for knob in (knob for knob in BINDABLE if knob in wanted):
        value = wanted[knob]
        as_it_is = knob in present and value == present[knob] and knob not in stale
        binding = target.binding_of(knob)
        kind = binding.kind if binding else BindingKind.INJECT
        if as_it_is or kind is BindingKind.FIXED:
            continue
        if knob in INJECTED_KNOBS or kind is not BindingKind.INJECT:
            changed[knob] = value
        elif knob in present or knob == LEARNING_RATE:
            raise UsageError(
                f"{knob}={value_text(value)} can't be set inside the script; "
                f"say how the script takes it: --bind {knob}=HOW"
            )
    return changed


def _in_environment(binding: Binding, value: BoundValue) -> dict[str, str]:
    text = spelled(binding, value)
    if text is None and value is None:
        return {}
    if text is None:
        text = str(int(value)) if isinstance(value, bool) else value_text(value)
    return {binding.variable or "": text}


def _first_argument(target: Target) -> int:
    """Return the index of the first word that can be the script's; earlier words are the interpreter's."""
    places = (
        index
        for index, word in enumerate(target.command[1:], start=1)
        if target.script is not None and str(Path(target.working_dir) / word) == target.script
    )
    return next(places, 0) + 1


def _file_of(target: Target, binding: Binding) -> Path:
    return (Path(target.working_dir) / (binding.path or "")).resolve()


def _present_text(target: Target, binding: Binding) -> str | None:
    if binding.kind is BindingKind.ARG:
        return _InCommand(target.command[_first_argument(target) :], binding).text()
    if binding.kind is BindingKind.ENV:
        return os.environ.get(binding.variable or "")
    if binding.kind is BindingKind.FILE:
        return value_text(read_key(_file_of(target, binding), binding.key or ""))
    return None


@dataclass(frozen=True)
class _Occurrence:
    start: int
    form: Words
    value: str | None
    """The text in the place of the value; None for words without one."""


class _InCommand:
    """Finds, reads, replaces and removes a binding's words in a training command.

    A flag is found in both of its forms, `--bs 32` and `--bs=32`, and an override with or without Hydra's
    plus signs, `data.bs=32` and `+data.bs=32`. Replacing a value keeps the form.
    """

    def __init__(self, words: Sequence[str], binding: Binding) -> None:
        self._words, self._binding = words, binding
        self._texts = [text for _, text in binding.spelling]
        self._found = list(_occurrences(words, _forms(binding), self._texts))

    def set_to(self, value: BoundValue) -> Words:
        """Return the command with a value set: at its first occurrence, or at the end if there is none."""
        binding = self._binding
        if _is_switch(binding):
            return self._replaced(binding.words if value else binding.words_off)
        text = spelled(binding, value)
        if text is None and value is None:
            return self._replaced(())
        text = value_text(value) if text is None else text
        if binding.words == (PLACE,):
            return self._replaced(tuple(text.split()))
        form = self._found[0].form if self._found else binding.words
        return self._replaced(tuple(word.replace(PLACE, text, 1) for word in form))

    def text(self) -> str | None:
        """Return the text of the value, of its last occurrence as most parsers do; None without one."""
        binding, last = self._binding, self._found[-1] if self._found else None
        if _is_switch(binding):
            is_unsaid = last is None and binding.words_off
            return None if is_unsaid else value_text(last is not None and last.form == binding.words)
        if binding.words == (PLACE,):
            return " ".join(last.form) if last else "" if "" in self._texts else None
        return last.value if last else None

    def _replaced(self, new: Words) -> Words:
        """Return the command with new words for the first occurrence and without the others."""
        result: list[str] = []
        after = 0
        for occurrence in self._found:
            result += self._words[after : occurrence.start]
            result += new if occurrence is self._found[0] else ()
            after = occurrence.start + len(occurrence.form)
        result += self._words[after:]
        return tuple(result) if self._found else (*result, *new)


def _occurrences(
    words: Sequence[str], forms: Sequence[Words], spellings: Sequence[str] = ()
) -> Iterator[_Occurrence]:
    start = 0
    while start < len(words):
        found = next((seen for form in forms if (seen := _at(words, start, form, spellings))), None)
        if found:
            yield found
        start += len(found.form) if found else 1


def _at(words: Sequence[str], start: int, form: Words, spellings: Sequence[str]) -> _Occurrence | None:
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


def _forms(binding: Binding) -> Sequence[Words]:
    """Return the binding's words in every form that parsers treat alike, longest first."""
    words = binding.words
    if _is_switch(binding):
        return sorted(filter(None, (words, binding.words_off)), key=len, reverse=True)
    if words == (PLACE,):  # each value has its own words
        forms = (tuple(text.split()) for _, text in binding.spelling)
        return sorted(filter(None, forms), key=len, reverse=True)
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


def _is_flag(word: str) -> bool:
    return re.fullmatch(r"-[^\d.].*", word, re.DOTALL) is not None


def _is_switch(binding: Binding) -> bool:
    """Return whether the binding's words mean true, rather than contain the value."""
    return not any(PLACE in word for word in binding.words)
