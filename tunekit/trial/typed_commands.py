"""Commands as they are typed in a shell: the training's own, and tunekit's on it. Pure."""

import shlex
from collections.abc import Sequence

from tunekit.plain_text import printable
from tunekit.records.run import FixedKnob
from tunekit.records.target import Target
from tunekit.secret_words import MASK, has_mask
from tunekit.trial.binding_syntax import binding_text, value_text


def quoted(word: str) -> str:
    """Return a word for a shell, which still knows `~` for the home folder."""
    return f"~/{shlex.quote(word[2:])}" if word.startswith("~/") and len(word) > 2 else shlex.quote(word)


def target_text(target: Target) -> str:
    """Return the training command as it would be typed, with a mask in the place of each secret."""
    return printable(" ".join(map(quoted, target.command)))


def command_text(
    verb: str, target: Target, gpu: str = "auto", flags: Sequence[str] = (), fixed: Sequence[FixedKnob] = ()
) -> str:
    """Return a verb's command on a target, with all that says how tunekit runs and reads it, for a shell."""
    words = list(flags)
    if gpu != "auto":
        words += ["--gpu", gpu]
    for one in fixed:
        words += ["--fix", f"{one.knob}={value_text(one.value)}"]
    for binding in target.bindings:
        words += ["--bind", binding_text(binding)] if binding.is_typed else []
    if target.samples_per_step is not None:
        words += ["--samples-per-step", str(target.samples_per_step)]
    command = "" if target.builtin else training_command(target)
    return printable(" ".join(map(quoted, ["tunekit", verb, *words]))) + command


def missing_command(target: Target) -> str:
    """Return what a command on a run needs after it: nothing, unless its training command lacks secrets."""
    return training_command(target) if has_mask(target.command) else ""


def training_command(target: Target) -> str:
    """Return the training command as it follows tunekit's flags, `--` first, with a note on what it lacks."""
    note = f"  # with the secret in place of {MASK}" if has_mask(target.command) else ""
    return f" -- {target_text(target)}{note}"
