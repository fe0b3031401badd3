"""Looks for the user's own way to set a knob: an option of the script or a key in a file.

A place is suggested only if its current value is the value observed in the loop. Options come from the
script's own parser as observed in a run; the script's text is read only if no parser was observed.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tunekit.errors import TunekitError, UnreadableError
from tunekit.records.config import SWITCH_KNOBS, Precision
from tunekit.records.target import (
    Binding,
    BindingKind,
    Discovery,
    OptionForm,
    ScriptOption,
    StepNumber,
    Target,
)
from tunekit.trial.binding_syntax import (
    PLACE,
    BoundValue,
    Spelling,
    binding_text,
    parse_binding,
    value_read,
)
from tunekit.trial.bindings import check_bindings
from tunekit.trial.config_files import Scalar, all_keys
from tunekit.trial.knob_names import OPTION_NAMES, PRECISION_SWITCHES, STEP_NAMES, WARM_UP_NAMES, plain_name
from tunekit.trial.knob_verification import batch_contradicted
from tunekit.untrusted import read_text

_NOT_OF_TRAINING = frozenset(
    ("eval", "evaluation", "val", "valid", "validation", "test", "predict", "inference")
)


def is_of_training(name: str) -> bool:
    """Return whether a dotted name is for training, rather than evaluation as in `val.batch_size`."""
    return _NOT_OF_TRAINING.isdisjoint(re.split(r"[^a-z0-9]+", name.lower()))


_DIALECTS: tuple[dict[Precision, str], ...] = (
    {Precision.FP32: "32-true", Precision.BF16: "bf16-mixed", Precision.FP16: "16-mixed"},
    {Precision.FP32: "32", Precision.BF16: "bf16-mixed", Precision.FP16: "16-mixed"},
    {Precision.FP32: "fp32", Precision.BF16: "bf16", Precision.FP16: "fp16"},
    {Precision.FP32: "no", Precision.BF16: "bf16", Precision.FP16: "fp16"},
    {Precision.FP32: "fp32", Precision.BF16: "amp_bf16", Precision.FP16: "amp_fp16"},
    {Precision.FP32: "float32", Precision.BF16: "bfloat16", Precision.FP16: "float16"},
)
"""How Lightning, plain scripts, accelerate, Composer and nanoGPT-like scripts write precisions."""

_CONFIG_FILES = (".yaml", ".yml", ".json", ".toml")


@dataclass(frozen=True)
class _Place:
    names: tuple[str, ...]
    """Its names, as plain names."""
    value: Scalar
    words: tuple[str, ...] = ()
    words_off: tuple[str, ...] = ()
    """For a switch: the words that turn it off."""
    is_switch: bool = False
    """Whether `words` turn it on, rather than contain its value."""
    is_typed: bool = False
    """Whether the user's command contains it."""
    choices: tuple[str, ...] = ()
    """The only values that the script allows; empty if any is allowed."""
    path: str | None = None
    key: str | None = None

    def binding(self, knob: str, spelling: Spelling = ()) -> Binding:
        kind = BindingKind.FILE if self.path else BindingKind.ARG
        off = self.words_off if self.is_switch else ()
        held = {"words": self.words, "words_off": off, "path": self.path, "key": self.key}
        return Binding.model_validate({"knob": knob, "kind": kind, "spelling": spelling, **held})


def candidate_bindings(
    target: Target, seen: Mapping[str, Scalar], discovery: Discovery | None = None
) -> dict[str, tuple[Binding, ...]]:
    """Return, for each knob that is not bound, where the user can set it, likeliest place first.

    Files come before the command line. A switch that may mean either 16-bit precision yields two candidates.

    Args:
        target: the training command.
        seen: the values observed in the loop, by knob, including `lr`.
        discovery: what the baseline learnt, including the options of the script's parser.
    """
    files = tuple(_in_files(target))
    words = _on_the_line(target, discovery)
    found = {}
    for knob in OPTION_NAMES:
        if knob in seen and target.binding_of(knob) is None:
            places = (*_named(knob, files), *_named(knob, words))
            fitting = [*_bindings_to(knob, places, seen[knob])]
            if knob == "precision":
                fitting += _precision_switches((*files, *words), seen[knob])
            found[knob] = tuple([one for one in fitting if _can_be_written(one, target)][:4])
    return {knob: candidates for knob, candidates in found.items() if candidates}


def binding_hint(knob: str, discovery: Discovery | None, seen: Scalar, target: Target | None = None) -> str:
    """Return the tunekit flag that binds a knob, using an option that the script is known to have.

    Args:
        knob: a knob, or `lr`.
        discovery: what the baseline learnt; None if it learnt nothing.
        seen: the value observed in the loop; None if unknown.
        target: its command and script text are read if no parser was observed.
    """
    options = discovery.options if discovery else ()
    places = _places_of(options, ()) if options or target is None else _on_the_line(target, None)
    named = _named(knob, places)
    fitting = list(_bindings_to(knob, named, seen)) if seen is not None else []
    if knob == "precision" and seen is not None:
        fitting += _precision_switches(places, seen)
    if fitting:
        return f"--bind '{binding_text(fitting[0])}'"
    words = next((" ".join(place.words) for place in named if PLACE in "".join(place.words)), None)
    if words is None:
        return f"--bind {knob}=HOW" + (" (no option of the script is known to set it)" if options else "")
    if knob == "precision":
        words = words.replace(PLACE, "{bf16:TEXT,fp32:TEXT}")
    return f"--bind '{knob}={words}'"


def batch_of_all_ranks(discovery: Discovery, batch_size: int) -> str | None:
    """Return the option that sets the global batch of all ranks; None if one sets a rank's, or none does."""
    places = _named("batch_size", _places_of(discovery.options, ()))
    held = [place for place in places if not isinstance(place.value, bool)]
    if discovery.world_size == 1 or any(_is_same(place.value, batch_size) for place in held):
        return None
    whole = batch_size * discovery.world_size
    return next((place.words[0] for place in held if _is_same(place.value, whole)), None)


def long_flags(binding: Binding) -> frozenset[str]:
    """Return the `--flags` that a binding may put on the command line."""
    texts = (*binding.words, *binding.words_off)
    if PLACE in binding.words:
        texts += tuple(word for _, text in binding.spelling for word in text.split())
    return frozenset(word.partition("=")[0] for word in texts if word.startswith("--"))


def without_unknown_flags(target: Target, discovery: Discovery) -> tuple[Target, tuple[str, ...]]:
    """Return a target without the project's bindings to flags that the script lacks, and a message for each.

    Args:
        target: the training command.
        discovery: what a trial of it learnt; if it contains no options, every binding stays.
    """
    flags = [flag for option in discovery.options for flag in (*option.flags, *option.off)]
    known = (*flags, *target.command) if any(flag.startswith("--") for flag in flags) else ()
    gone = [
        one
        for one in target.bindings
        for flag in long_flags(one)
        if known and not one.is_typed and not any(word.startswith(flag) for word in known)
    ]
    kept = tuple(one for one in target.bindings if one not in gone)
    said = (f"binding left out, as the script has no such option: {binding_text(one)}" for one in gone)
    return target.changed(bindings=kept), tuple(said)


def option_for(knob: str, discovery: Discovery) -> str | None:
    """Return the script's own option whose name fits a knob, as it is typed; None if there is none."""
    named = _named(knob, _places_of(discovery.options, ()))
    return next((place.words[0].partition("=")[0] for place in named if place.words), None)


def step_numbers(target: Target, discovery: Discovery) -> tuple[StepNumber, ...]:
    """Return the current values of the script's options for its step limit and its warm-up steps."""
    found: dict[str, StepNumber] = {}
    for place in _on_the_line(target, discovery):
        name = next((one for one in place.names if one in STEP_NAMES | WARM_UP_NAMES), "")
        if name and place.words and (text := str(place.value)).isdecimal() and int(text):
            source, is_limit = place.words[0].partition("=")[0], name in STEP_NAMES
            found.setdefault(name, StepNumber(source=source, name=name, steps=int(text), is_option=is_limit))
    return tuple(found.values())


def possible_batch(target: Target, found: Discovery | None = None) -> Binding | None:
    """Return a binding of the batch size whose value is consistent with the model's inputs; None without one.

    Args:
        target: the training command of a script without a DataLoader.
        found: what was learnt about its loop; None before it has run.
    """
    if target.binding_of("batch_size") is not None or target.samples_per_step is not None:
        return None
    places = (tuple(_in_files(target)), _on_the_line(target, found))
    named = [place for one in places for place in _named("batch_size", one)]
    for place in sorted(named, key=lambda place: not place.is_typed):
        text = str(place.value)
        is_contradicted = found is not None and text.isdecimal() and batch_contradicted(found, int(text))
        if text.isdecimal() and int(text) > 0 and not is_contradicted:
            binding = place.binding("batch_size")
            if _can_be_written(binding, target):
                return binding
    return None


def default_values(target: Target) -> dict[str, BoundValue]:
    """Return the script's own defaults for bound flags, if its text declares exactly one."""
    values: dict[str, BoundValue] = {}
    declared = tuple(_in_the_script(target))
    for binding in target.bindings:
        flag = binding.words[0].partition("=")[0] if binding.words else None
        texts = {str(place.value) for place in declared if place.words[0].partition("=")[0] == flag}
        if len(texts) == 1:
            with suppress(TunekitError, ValueError):
                values[binding.knob] = value_read(binding, texts.pop())
    return values


def constant_batch(target: Target) -> int | None:
    """Return the batch size that the script has as a constant, `BATCH_SIZE = 32`; None without just one."""
    _, tree = _script_of(target)
    sizes = {place.value for place in _named("batch_size", tuple(_configured(tree)))}
    size = sizes.pop() if len(sizes) == 1 else None
    return size if type(size) is int and size > 0 else None


def _can_be_written(binding: Binding, target: Target) -> bool:
    """Return whether a binding's place can be rewritten, and the binding itself be written as text.

    An alias brings some keys of a file in; others contain the syntax's characters.
    """
    try:
        check_bindings(target.changed(bindings=(binding,)))
        return parse_binding(binding_text(binding)) == binding
    except TunekitError:
        return False


def _named(knob: str, places: Sequence[_Place]) -> list[_Place]:
    named = (place for name in OPTION_NAMES[knob] for place in places if name in place.names)
    return list(dict.fromkeys(named))


def _bindings_to(knob: str, places: Sequence[_Place], seen: Scalar) -> Iterator[Binding]:
    for place in places:
        if knob in SWITCH_KNOBS:
            # The agent can turn any switch on; only one that the script turns on must be turned off there.
            can_turn = not place.is_switch or (place.words and (place.words_off or place.is_typed))
            if seen is True and place.value is True and can_turn:
                yield place.binding(knob)
        elif place.is_switch:
            continue
        elif knob == "precision":
            spelling = _dialect(place, seen)
            if spelling:
                yield place.binding(knob, spelling)
        elif _is_same(place.value, seen):
            yield place.binding(knob)


def _is_same(value: Scalar, seen: Scalar) -> bool:
    if isinstance(value, bool) or seen is None or value is None:
        return False
    try:
        return float(value) == float(seen)
    except ValueError:
        return False


def _dialect(place: _Place, seen: Scalar) -> Spelling:
    """Return how a place spells precisions; empty if its value doesn't match the observed precision.

    accelerate's flag has no value by default.
    """
    precision = Precision(str(seen))
    is_unset = place.value in (None, "") and precision is Precision.FP32 and place.choices
    fitting = [one for one in _DIALECTS if is_unset or one.get(precision) == str(place.value)]
    if "mixedprecision" in place.names:
        fitting.sort(key=lambda one: one[Precision.FP32] != "no")
    spellings = [
        tuple((one.value, text) for one, text in dialect.items() if text in (place.choices or (text,)))
        for dialect in fitting
    ]
    known = [one for one in spellings if precision in dict(one) and len(one) > 1]
    return max(known, key=len, default=())


def _precision_switches(places: Sequence[_Place], seen: Scalar) -> Iterator[Binding]:
    """Yield bindings of the precision to switches and booleans: `--amp`, `--bf16`, `amp=true`."""
    meant = [
        (place, PRECISION_SWITCHES[name])
        for place in places
        for name in place.names
        if name in PRECISION_SWITCHES and isinstance(place.value, bool)
    ]
    precision = str(seen)
    on = [(place, means) for place, means in meant if place.value is True]
    if precision in (Precision.BF16, Precision.FP16):
        if len(on) == 1 and on[0][1] in (None, precision):
            yield _on_or_off(on[0][0], precision, str(Precision.FP32), is_on=True)
    elif not on:
        switches = [(place, means) for place, means in meant if place.is_switch and place.words and means]
        if len(switches) > 1:
            texts = tuple((str(means), place.words[0]) for place, means in switches)
            yield Binding(
                knob="precision", kind=BindingKind.ARG, words=(PLACE,), spelling=((precision, ""), *texts)
            )
        for place, means in meant:
            for guess in (means,) if means else (Precision.BF16, Precision.FP16):
                yield _on_or_off(place, str(guess), precision, is_on=False)


def _on_or_off(place: _Place, on: str, off: str, is_on: bool) -> Binding:
    if not place.is_switch:
        return place.binding("precision", ((on, "true"), (off, "false")))
    text_off = " ".join(place.words_off)
    text_on = "" if is_on and not place.is_typed else " ".join(place.words)
    spelling = ((on, text_on), (off, text_off if is_on or not text_on else ""))
    return Binding(knob="precision", kind=BindingKind.ARG, words=(PLACE,), spelling=spelling)


def _on_the_line(target: Target, discovery: Discovery | None) -> tuple[_Place, ...]:
    """Return the places on the command line, from the script's parser or, without one, from its text."""
    options = discovery.options if discovery else ()
    if options:
        return _places_of(options, target.command)
    return (*_on_the_command_line(target), *_in_the_script(target))


def _places_of(options: Sequence[ScriptOption], command: Sequence[str]) -> tuple[_Place, ...]:
    return tuple(_place_of(option, command) for option in options if is_of_training(option.name))


def _place_of(option: ScriptOption, command: Sequence[str]) -> _Place:
    longs = [flag for flag in option.flags if flag.startswith("--")]
    stand = {word.partition("=")[0] for word in command}
    typed = [flag for flag in (*option.flags, *option.off) if flag in stand]
    on = next((flag for flag in (*typed, *longs, *option.flags) if flag in option.flags), "")
    names = tuple(
        dict.fromkeys(plain_name(name) for name in (*longs, option.name, *(() if longs else option.flags)))
    )
    place = _Place(names, option.value, is_typed=bool(typed), choices=option.choices)
    if option.form is OptionForm.KEY:
        return replace(place, words=(f"{on}={PLACE}",))
    has_value = not isinstance(option.value, bool) or option.form in (OptionForm.FLAG, OptionForm.PAIR)
    at = command.index(on) + 1 if on in command else len(command)
    if option.form is OptionForm.OPTIONAL and at < len(command) and not command[at].startswith("-"):
        has_value = True
    if option.form is not OptionForm.SWITCH and has_value:
        return replace(place, words=(on, PLACE))
    off = next(iter(option.off), "")
    return replace(place, words=(on,) if on else (), words_off=(off,) if off else (), is_switch=True)


# --- places found without a parser ----------------------------------------------------------


def _on_the_command_line(target: Target) -> Iterator[_Place]:
    words = target.command
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals and not word.startswith("=") and is_of_training(name):
            yield _Place((plain_name(name),), value, words=(f"{name}={PLACE}",), is_typed=True)
        elif word.startswith("-") and at + 1 < len(words) and is_of_training(word):
            yield _Place((plain_name(word),), words[at + 1], words=(word, PLACE), is_typed=True)


def _in_files(target: Target) -> Iterator[_Place]:
    for word in target.command:
        path = word.rpartition("=")[2]
        file = Path(target.working_dir) / path
        if file.suffix not in _CONFIG_FILES or not file.is_file():
            continue
        try:
            keys = all_keys(file)
        except TunekitError:
            continue
        for key, value in keys.items():
            if is_of_training(key):
                yield _Place((plain_name(key),), value, path=path, key=key)


def _in_the_script(target: Target) -> Iterator[_Place]:
    """Yield the flags that the script declares with a default.

    They are declared with `add_argument`, or as variables if the script runs nanoGPT's configurator, which
    has no parser.
    """
    text, tree = _script_of(target)
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument":
            yield from _declared(call)
    if "configurator.py" in text:
        yield from _configured(tree)


def _script_of(target: Target) -> tuple[str, ast.Module]:
    """Return the script's text and its syntax tree, both empty if it can't be read."""
    with suppress(UnreadableError, ValueError, SyntaxError, RecursionError, MemoryError):
        text = read_text(Path(target.script)) if target.script else ""
        return text, ast.parse(text)
    return "", ast.Module([], [])


def _configured(tree: ast.Module) -> Iterator[_Place]:
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
            name, value = line.targets[0], line.value.value
            if isinstance(name, ast.Name) and isinstance(value, bool | int | float | str):
                yield _Place((plain_name(name.id),), value, words=(f"--{name.id}={PLACE}",))


def _declared(call: ast.Call) -> Iterator[_Place]:
    flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    default = next((k.value for k in call.keywords if k.arg == "default"), None)
    if not isinstance(default, ast.Constant) or not isinstance(default.value, (int, float, str)):
        return
    long = next((flag for flag in flags if flag.startswith("--")), None)
    if long is not None and is_of_training(long):
        yield _Place((plain_name(long),), default.value, words=(long, PLACE))
