"""Commands of tunekit as they would be typed again. Pure."""

from collections.abc import Sequence

from tunekit.plain_text import printable
from tunekit.records.run import FixedKnob, Objective, Run
from tunekit.records.target import Target
from tunekit.report.text import quoted, target_text
from tunekit.secret_words import MASK, has_mask
from tunekit.trial.binding_syntax import binding_text, value_text


def command_text(
    verb: str,
    target: Target,
    gpu: str = "auto",
    flags: Sequence[str] = (),
    fixed: Sequence[FixedKnob] = (),
) -> str:
    """Return a command on a target, with all that says how tunekit runs and reads it, for a shell.

    Args:
        verb: of tunekit, such as "search".
        target: its bindings, its samples per step and its command are kept.
        gpu: the device that was asked for.
        flags: further words of the verb.
        fixed: settings for `--fix`.
    """
    words = list(flags)
    if gpu != "auto":
        words += ["--gpu", gpu]
    for one in fixed:
        words += ["--fix", f"{one.knob}={value_text(one.value)}"]
    for binding in target.bindings:
        words += ["--bind", binding_text(binding)]
    if target.samples_per_step is not None:
        words += ["--samples-per-step", str(target.samples_per_step)]
    command = "" if target.builtin else _command(target)
    return printable(" ".join(map(quoted, ["tunekit", verb, *words]))) + command


def missing_command(target: Target) -> str:
    """Return what a command on a run needs after it: nothing, unless its training command lacks secrets."""
    return _command(target) if has_mask(target.command) else ""


def _command(target: Target) -> str:
    note = f"  # with the secret in place of {MASK}" if has_mask(target.command) else ""
    return f" -- {target_text(target)}{note}"


def search_again(run: Run) -> str:
    """Return the command of the same search."""
    asked = run.options
    flags = []
    for one in asked.ranges:
        flags += ["--range", f"{one.knob}={one.low}..{one.high}"]
    if asked.global_batch is not None:
        flags += ["--global-batch", str(asked.global_batch)]
    if asked.objective is not Objective.RATE:
        flags += ["--objective", asked.objective.value]
    if asked.planned_steps is not None:
        flags += ["--planned-steps", str(asked.planned_steps)]
    if asked.epochs_given:
        flags += ["--epochs", str(asked.epochs)]
    return command_text("search", run.target, asked.gpu, flags, asked.fixed)
