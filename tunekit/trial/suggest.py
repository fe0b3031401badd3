"""Looks for the user's own way to set a knob: a flag on the command line or of the script, a key in a file.

A suggestion is made only where the value that stands there is the value that the loop was seen to have.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tunekit.errors import TunekitError
from tunekit.records.config import Precision
from tunekit.records.target import Binding, BindingKind, Discovery, Target
from tunekit.trial.applied import batch_contradicted
from tunekit.trial.binding_syntax import binding_text, parse_binding
from tunekit.trial.config_files import all_keys
from tunekit.trial.spelling import BoundValue, value_read

_NAMES = {
    "batch_size": (
        "batch_size",
        "per_device_train_batch_size",
        "train_batch_size",
        "micro_batch_size",
        "per_gpu_batch_size",
        "batch",
        "bs",
        "b",
    ),
    "num_workers": ("num_workers", "dataloader_num_workers", "workers", "n_workers", "nworkers", "j"),
    "prefetch_factor": ("prefetch_factor", "dataloader_prefetch_factor", "prefetch"),
    "accumulate_grad_batches": (
        "accumulate_grad_batches",
        "gradient_accumulation_steps",
        "grad_accumulation_steps",
        "accumulation_steps",
        "grad_accum_steps",
        "accum_steps",
        "grad_accum",
        "accumulate",
    ),
    "precision": ("precision", "mixed_precision", "amp_dtype", "dtype"),
    "lr": ("learning_rate", "lr", "max_lr", "base_lr"),
}
"""What people call the knobs, without dashes, the clearest name first."""

_DIALECTS: tuple[dict[Precision, str], ...] = (
    {Precision.FP32: "32-true", Precision.BF16: "bf16-mixed", Precision.FP16: "16-mixed"},
    {Precision.FP32: "fp32", Precision.BF16: "bf16", Precision.FP16: "fp16"},
    {Precision.FP32: "no", Precision.BF16: "bf16", Precision.FP16: "fp16"},
    {Precision.FP32: "float32", Precision.BF16: "bfloat16", Precision.FP16: "float16"},
)
"""How Lightning, accelerate, plain scripts and nanoGPT-like ones write precisions."""

_CONFIG_FILES = (".yaml", ".yml", ".json", ".toml")

_Value = bool | int | float | str | None


@dataclass(frozen=True)
class _Place:
    """A place where a value stands."""

    name: str
    value: _Value
    words: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    """The only values that the script allows there; empty: any."""
    path: str | None = None
    key: str | None = None

    def binding(self, knob: str, spelling: tuple[tuple[str, str], ...]) -> Binding:
        kind = BindingKind.FILE if self.path else BindingKind.ARG
        return Binding(
            knob=knob, kind=kind, words=self.words, path=self.path, key=self.key, spelling=spelling
        )


def suggest_bindings(target: Target, seen: Mapping[str, _Value]) -> tuple[Binding, ...]:
    """Return a binding for each knob that the user's command, files or script already have a place for.

    Files come first, then the command line, then flags that the script declares.

    Args:
        target: the training command.
        seen: the values that the loop was seen to have, by knob, and `lr`.
    """
    declared = tuple(_in_the_script(target))
    choices = {place.name: place.choices for place in declared}
    typed = tuple(
        replace(place, choices=choices.get(place.name, ())) for place in _on_the_command_line(target)
    )
    sources = (tuple(_in_files(target)), typed, declared)
    unbound = [knob for knob in _NAMES if knob in seen and target.binding_of(knob) is None]
    found = (_first_place(knob, seen[knob], sources) for knob in unbound)
    return tuple(binding for binding in found if binding is not None and _can_be_written(binding))


def possible_batch(target: Target, found: Discovery) -> Binding | None:
    """Return a place for the batch size whose value the model's inputs can hold; None where there is none.

    Args:
        target: the training command of a script without a DataLoader.
        found: what was learnt of its loop.
    """
    if target.binding_of("batch_size") is not None:
        return None
    for places in (_in_files(target), _on_the_command_line(target), _in_the_script(target)):
        for place in places:
            text = str(place.value)
            is_size = place.name in _NAMES["batch_size"] and text.isdecimal() and int(text) > 0
            if is_size and not batch_contradicted(found, int(text)):
                binding = place.binding("batch_size", ())
                if _can_be_written(binding):
                    return binding
    return None


def default_values(target: Target) -> dict[str, BoundValue]:
    """Return what bound flags have by the script's own defaults, as far as they stand in its text once."""
    values: dict[str, BoundValue] = {}
    declared = tuple(_in_the_script(target))
    for binding in target.bindings:
        flag = binding.words[0].partition("=")[0] if binding.words else None
        texts = {str(place.value) for place in declared if place.words[0] == flag}
        if len(texts) == 1:
            with suppress(TunekitError, ValueError):
                values[binding.knob] = value_read(binding, texts.pop())
    return values


def _can_be_written(binding: Binding) -> bool:
    """Return whether the binding survives being written down: a key may hold what its syntax is made of."""
    try:
        return parse_binding(binding_text(binding)) == binding
    except TunekitError:
        return False


def _first_place(knob: str, seen: _Value, sources: Sequence[Sequence[_Place]]) -> Binding | None:
    """Return the binding to the first source that holds the value, under its clearest name there."""
    for places in sources:
        for name in _NAMES[knob]:
            for place in places:
                spelling = _spelling(knob, place, seen) if place.name == name else None
                if spelling is not None:
                    return place.binding(knob, spelling)
    return None


def _spelling(knob: str, place: _Place, seen: _Value) -> tuple[tuple[str, str], ...] | None:
    """Return how the place spells the knob's values, None when it does not hold what was seen."""
    value = place.value
    if knob == "precision":
        fitting = [one for one in _DIALECTS if one.get(Precision(str(seen))) == str(value)]
        if place.name == "mixed_precision":
            fitting.sort(key=lambda one: one[Precision.FP32] != "no")
        spellings = [
            tuple((one.value, text) for one, text in dialect.items() if text in (place.choices or (text,)))
            for dialect in fitting
        ]
        return max(spellings, key=len, default=None)
    if isinstance(value, bool) or seen is None:
        return None
    try:
        same = value is not None and float(value) == float(seen)
    except ValueError:
        return None
    return () if same else None


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_").lower()


def _on_the_command_line(target: Target) -> Iterator[_Place]:
    words = target.command
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals and not word.startswith("="):
            yield _Place(_plain(name.rsplit(".", 1)[-1]), value, words=(f"{name}={{}}",))
        elif word.startswith("-") and at + 1 < len(words):
            yield _Place(_plain(word), words[at + 1], words=(word, "{}"))


def _in_files(target: Target) -> Iterator[_Place]:
    """Yield the keys of every config file that the command names."""
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
            yield _Place(_plain(key.rsplit(".", 1)[-1]), value, path=path, key=key)


def _in_the_script(target: Target) -> Iterator[_Place]:
    """Yield the flags with a default that the script declares with `add_argument`."""
    if target.script is None:
        return
    try:
        tree = ast.parse(Path(target.script).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "add_argument":
            continue
        flags = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        default = next((k.value for k in node.keywords if k.arg == "default"), None)
        if not isinstance(default, ast.Constant) or not isinstance(default.value, (int, float, str)):
            continue
        long = next((flag for flag in flags if flag.startswith("--")), None)
        if long is not None:
            yield _Place(_plain(long), default.value, words=(long, "{}"), choices=_choices(node))


def _choices(call: ast.Call) -> tuple[str, ...]:
    """Return the texts that an `add_argument` allows, as far as they are written there."""
    node = next((keyword.value for keyword in call.keywords if keyword.arg == "choices"), None)
    allowed = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else []
    return tuple(str(one.value) for one in allowed if isinstance(one, ast.Constant))
