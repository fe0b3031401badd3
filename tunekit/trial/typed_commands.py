"""Commands as they are typed in a shell: the training command, and tunekit's commands on it. Pure."""

import shlex
from collections.abc import Sequence

from tunekit.plain_text import printable
from tunekit.records.run import FixedKnob
from tunekit.records.target import Target
from tunekit.secret_words import MASK, has_mask
from tunekit.trial.binding_syntax import binding_text, value_text
from tunekit.workloads import DEFAULT_WORKLOAD


def quoted(word: str) -> str:
    """Return a word quoted for a shell, which can still expand a leading `~`."""
    return f"~/{shlex.quote(word[2:])}" if word.startswith("~/") and len(word) > 2 else shlex.quote(word)


def target_text(target: Target) -> str:
    """Return the training command as it would be typed, with each secret masked."""
    return _typed(target.command)


def workload_options(target: Target) -> tuple[str, ...]:
    """Return the options that a built-in workload's script was given."""
    return target.command[2:] if target.builtin else ()


def shown_target(target: Target) -> str:
    """Return the training command, or which built-in workload it is and under which options."""
    own = f"built-in workload {target.builtin} {_typed(workload_options(target))}".rstrip()
    return own if target.builtin else target_text(target)


def _typed(words: Sequence[str]) -> str:
    return printable(" ".join(map(quoted, words)))


def command_text(
    verb: str, target: Target, gpu: str = "auto", flags: Sequence[str] = (), fixed: Sequence[FixedKnob] = ()
) -> str:
    """Return a verb's shell command on a target, with all flags that say how tunekit runs and binds it."""
    words = list(flags)
    if gpu != "auto":
        words += ["--gpu", gpu]
    for one in fixed:
        words += ["--fix", f"{one.knob}={value_text(one.value)}"]
    for binding in target.bindings:
        words += ["--bind", binding_text(binding)] if binding.is_typed else []
    if target.samples_per_step is not None:
        words += ["--samples-per-step", str(target.samples_per_step)]
    command = training_command(target)
    if target.builtin:
        own = _typed(workload_options(target))
        words = ["--workload", target.builtin, *words] if own or target.builtin != DEFAULT_WORKLOAD else words
        command = f" -- {own}" if own else ""
    return printable(" ".join(map(quoted, ["tunekit", verb, *words]))) + command


def missing_command(target: Target) -> str:
    """Return what to append to a command on a run: the training command if it has masked secrets."""
    return training_command(target) if has_mask(target.command) else ""


def training_command(target: Target) -> str:
    """Return ` -- ` and the training command, to follow tunekit's flags, with a note on masked secrets."""
    note = f"  # with the secret in place of {MASK}" if has_mask(target.command) else ""
    return f" -- {target_text(target)}{note}"
