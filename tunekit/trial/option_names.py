"""What people call the knobs and the learning rate on their command lines and in their config files."""

import re

from tunekit.records.config import TABLE

OPTION_NAMES = {
    **{knob.name: knob.option_names for knob in TABLE},
    "lr": ("learningrate", "lr", "maxlr", "baselr", "lrbase", "initiallr", "initlr", "peaklr", "lr0"),
}
"""Plain names by knob, and of `lr`; the clearest first."""

PRECISION_SWITCHES = {
    **dict.fromkeys(("bf16", "usebf16"), "bf16"),
    **dict.fromkeys(("fp16", "usefp16", "half"), "fp16"),
    **dict.fromkeys(("amp", "useamp", "mixedprecision", "usemixedprecision", "autocast"), None),
}
"""Switches of a precision, by plain name, with the one that they mean; None where the script decides."""

ALL_NAMES = tuple(sorted({name for names in OPTION_NAMES.values() for name in names} | {*PRECISION_SWITCHES}))
"""What the agent is asked for."""

_NOT_OF_TRAINING = frozenset(
    ("eval", "evaluation", "val", "valid", "validation", "test", "predict", "inference")
)


def plain_name(name: str) -> str:
    """Return the last part of a name in small letters and digits alone: `--data.batchSize` is batchsize."""
    last = name.lstrip("-").rsplit(".", 1)[-1]
    return "".join(letter for letter in last.lower() if letter.isalnum())


def is_of_training(name: str) -> bool:
    """Return whether a dotted name lies outside what a script only evaluates with: not `val.batch_size`."""
    return _NOT_OF_TRAINING.isdisjoint(re.split(r"[^a-z0-9]+", name.lower()))
