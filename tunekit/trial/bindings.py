"""How a config reaches the training process: by the agent, the command, the user's files or variables."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tunekit.errors import TunekitError, UsageError
from tunekit.records.config import INJECTED_KNOBS, KnobsAsked, TrainConfig
from tunekit.records.target import Binding, BindingKind, ScriptOption, Target
from tunekit.trial.binding_syntax import PLACE
from tunekit.trial.command_words import switch_in, value_in, with_switch, with_value, without_value
from tunekit.trial.config_files import Scalar, read_key, with_values
from tunekit.trial.spelling import BINDABLE, LEARNING_RATE, BoundValue, spelled, value_read, value_text


@dataclass(frozen=True)
class Bound:
    """Everything that makes one trial differ from the target as it is."""

    command: tuple[str, ...]
    """The user's words, those of `arg` bindings put in."""
    environment: dict[str, str]
    """Variables to set."""
    file_texts: dict[str, str]
    """Real path of each file of the user's that has to read otherwise -> its rewritten text."""
    injected: KnobsAsked
    """What the agent has to set."""
    changed: dict[str, BoundValue]
    """Every knob, and `lr`, that differs from the script as it is."""


def bind(
    target: Target,
    config: TrainConfig | None,
    baseline: TrainConfig | None,
    lr: float | None = None,
    *,
    stale: Collection[str] = (),
) -> Bound:
    """Return how a config reaches the target; only what differs from the baseline is touched.

    The user's files are read and never written. A knob that the user fixed stays as it is.

    Args:
        target: the command and its bindings.
        config: the knobs wanted; None leaves them all.
        baseline: the knobs that the script has; None when they are unknown, so that all are set.
        lr: learning rate to set; None leaves the script's own.
        stale: knobs to set although the baseline has the same value: what they are now is another.

    Raises:
        UsageError: a knob that only a binding can set has none, or its binding has no text for the value.
        TargetError: a bound file can't be read or rewritten.
    """
    changed = _changed(target, config, baseline, lr, stale)
    command = target.command
    environment: dict[str, str] = {}
    in_files: dict[Path, dict[str, Scalar]] = {}
    injected: dict[str, BoundValue] = {}
    for knob, value in changed.items():
        binding = target.binding_of(knob)
        if binding is None or binding.kind is BindingKind.INJECT:
            injected[knob] = value
        elif binding.kind is BindingKind.ARG:
            command = _in_command(command, _first_argument(target), binding, value)
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
        injected=KnobsAsked.model_validate(injected),
        changed=changed,
    )


def present_values(target: Target, options: Collection[ScriptOption] = ()) -> dict[str, BoundValue]:
    """Return what command, files and environment say now for bound knobs, as far as it can be read.

    Args:
        target: the command and its bindings.
        options: what the script's parser was seen to have (`Discovery.options`): the value in force where the
            command does not name a bound option, which is its default then.
    """
    values: dict[str, BoundValue] = {}
    for binding in target.bindings:
        try:
            if binding.kind is BindingKind.ARG and not _has_place(binding):
                on = switch_in(_arguments(target), binding)
                if on is not None:
                    values[binding.knob] = on
                continue
            text = _present_text(target, binding)
            if text is None and binding.kind is BindingKind.ARG:
                text = _text_in_force(binding, options)
            if text is not None:
                values[binding.knob] = value_read(binding, text)
        except (TunekitError, ValueError):
            continue  # unreadable, or no value of the knob: unknown
    return values


def _text_in_force(binding: Binding, options: Collection[ScriptOption]) -> str | None:
    """Return the value that the script's parser gave the bound option; None where it has no such option."""
    flag = binding.words[0].lstrip("+").partition("=")[0]
    value = next((option.value for option in options if flag in option.flags), None)
    return None if value is None else value_text(value)


def check_bindings(target: Target) -> None:
    """Refuse bindings that no trial could use, before the first one.

    Raises:
        TargetError: a bound file is missing or can't be read.
        UsageError: a bound key is missing, two bindings are for one knob or one place, or the batch size that
            is bound is not the one that the user says.
    """
    knob_at: dict[tuple[object, ...], str] = {}
    for number, binding in enumerate(target.bindings):
        if binding.knob in (earlier.knob for earlier in target.bindings[:number]):
            raise UsageError(f"{binding.knob} is bound twice; keep one of its bindings")
        place = (binding.words, binding.path, binding.key, binding.variable)
        if any(place) and place in knob_at:
            raise UsageError(
                f"{knob_at[place]} and {binding.knob} are bound to the same place; give each its own"
            )
        knob_at[place] = binding.knob
        if binding.kind is BindingKind.FILE:
            read_key(_file_of(target, binding), binding.key or "")
    said, present = target.samples_per_step, present_values(target).get("batch_size")
    if said is not None and present not in (None, said):
        raise UsageError(
            f"--samples-per-step {said}: batch_size is bound to a place that says {present}; leave "
            "--samples-per-step out, or bind the batch that one process takes in one forward pass"
        )


def _changed(
    target: Target,
    config: TrainConfig | None,
    baseline: TrainConfig | None,
    lr: float | None,
    stale: Collection[str],
) -> dict[str, BoundValue]:
    """Return the knobs to set, with their values.

    Raises:
        UsageError: nothing can set one of them.
    """
    wanted: dict[str, BoundValue] = config.model_dump(mode="json") if config else {}
    present: dict[str, BoundValue] = baseline.model_dump(mode="json") if baseline else {}
    if lr is not None:
        wanted[LEARNING_RATE] = lr
        present |= {knob: now for knob, now in present_values(target).items() if knob == LEARNING_RATE}
    changed = {}
    for knob in (knob for knob in BINDABLE if knob in wanted):
        value = wanted[knob]
        as_it_is = knob in present and value == present[knob] and knob not in stale
        if as_it_is or _is_fixed(target, knob):
            continue
        if _is_reachable(target, knob):
            changed[knob] = value
        elif knob in present or knob == LEARNING_RATE:
            raise UsageError(
                f"{knob}={value_text(value)} can't be set inside the script; "
                f"say where it stands: --bind {knob}=HOW"
            )
    return changed


def _is_reachable(target: Target, knob: str) -> bool:
    """Return whether the agent or a binding can set the knob."""
    binding = target.binding_of(knob)
    return knob in INJECTED_KNOBS or (binding is not None and binding.kind is not BindingKind.INJECT)


def _is_fixed(target: Target, knob: str) -> bool:
    binding = target.binding_of(knob)
    return binding is not None and binding.kind is BindingKind.FIXED


def _in_command(command: tuple[str, ...], first: int, binding: Binding, value: BoundValue) -> tuple[str, ...]:
    before, words = command[:first], command[first:]
    if not _has_place(binding):
        return (*before, *with_switch(words, binding, bool(value)))
    text = spelled(binding, value)
    if text is None and value is None:
        return (*before, *without_value(words, binding))
    return (*before, *with_value(words, binding, value_text(value) if text is None else text))


def _in_environment(binding: Binding, value: BoundValue) -> dict[str, str]:
    text = spelled(binding, value)
    if text is None and value is None:
        return {}
    if text is None:
        text = str(int(value)) if isinstance(value, bool) else value_text(value)
    return {binding.variable or "": text}


def _has_place(binding: Binding) -> bool:
    return any(PLACE in word for word in binding.words)


def _first_argument(target: Target) -> int:
    """Return the index of the first word that can be the script's: those before are the interpreter's."""
    places = (
        index
        for index, word in enumerate(target.command[1:], start=1)
        if target.script is not None and str(Path(target.working_dir) / word) == target.script
    )
    return next(places, 0) + 1


def _arguments(target: Target) -> tuple[str, ...]:
    return target.command[_first_argument(target) :]


def _file_of(target: Target, binding: Binding) -> Path:
    return (Path(target.working_dir) / (binding.path or "")).resolve()


def _present_text(target: Target, binding: Binding) -> str | None:
    """Return what stands in the binding's place, as text; None when nothing does."""
    if binding.kind is BindingKind.ARG:
        return value_in(_arguments(target), binding)
    if binding.kind is BindingKind.ENV:
        return os.environ.get(binding.variable or "")
    if binding.kind is BindingKind.FILE:
        return value_text(read_key(_file_of(target, binding), binding.key or ""))
    return None
