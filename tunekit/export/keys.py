"""Maps knobs to the keys and values of an exported config, and back.

A knob that the user bound to a file keeps the user's own dotted key and spelling, so that the exported
keys drop into that file; every other knob has the name that Lightning users know.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

from tunekit.records.config import KNOBS, Precision, TrainConfig
from tunekit.records.target import BindingKind, Target
from tunekit.trial.binding_syntax import spelled, value_read, value_text

OWN_KEYS = {knob: knob for knob in KNOBS} | {"compile": "compile_model", "lr": "lr"}
MATMUL_KEY = "float32_matmul_precision"
LIGHTNING_PRECISIONS = {
    Precision.FP32: "32-true",
    Precision.TF32: "32-true",
    Precision.BF16: "bf16-mixed",
    Precision.FP16: "16-mixed",
}


def key_of(knob: str, target: Target) -> str:
    """Return the dotted key of a knob, or of `lr`."""
    binding = target.binding_of(knob)
    if binding is not None and binding.kind is BindingKind.FILE and binding.key is not None:
        return binding.key
    return OWN_KEYS[knob]


def written(knob: str, value: Any, target: Target) -> Any:
    """Return a knob's value as written in the config: in the user's spelling, else in Lightning's."""
    binding = target.binding_of(knob)
    if binding is not None and binding.kind is BindingKind.FILE:
        text = spelled(binding, value) if value_text(value) in dict(binding.spelling) else None
        plain = value.value if isinstance(value, Precision) else value
        return plain if text is None else text
    return LIGHTNING_PRECISIONS[value] if knob == "precision" else value


def meant(knob: str, text: Any, target: Target) -> Any:
    """Return the knob value that a config's text means; precision as fp32, bf16 or fp16."""
    binding = target.binding_of(knob)
    if binding is not None and binding.kind is BindingKind.FILE and binding.spelling:
        with contextlib.suppress(ValueError):
            return value_read(binding, str(text))
    if knob == "precision":
        back = {name: precision.value for precision, name in LIGHTNING_PRECISIONS.items()}
        return "fp32" if text == "32-true" else back.get(text, text)
    return text


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted keys as a tree: {"data.batch_size": 8} as {"data": {"batch_size": 8}}.

    A list's index stays a separate key, so that the file shows where the value belongs.
    """
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *parents, last = key.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[last] = value
    return tree


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a tree's leaves by their dotted keys; the inverse of `nested`."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            leaves |= flat(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves


def config_keys(config: TrainConfig, target: Target) -> dict[str, Any]:
    """Return every knob's key and value, in the order in which knobs are shown."""
    return {key_of(knob, target): written(knob, getattr(config, knob), target) for knob in KNOBS}
