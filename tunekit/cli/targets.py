"""From the words after `--` and the flags to a target with its bindings."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit.errors import TargetError

if TYPE_CHECKING:
    from tunekit.records.target import Binding, Target


def target_of(options: argparse.Namespace, command: Sequence[str], builtin: str | None = None) -> "Target":
    """Return the target that the command line means, its files and keys checked.

    Args:
        options: the flags; `--bind` and `--samples-per-step` belong to the target.
        command: program and arguments.
        builtin: name of the built-in workload, when the command is ours.

    Raises:
        TargetError: there is no such program, script or file, or it has the training run elsewhere.
        UsageError: a binding can't be understood, or names a key that is not there.
    """
    from tunekit.trial.bindings import (  # noqa: PLC0415 - slow to import; --help must be instant
        check_bindings,
        present_values,
    )
    from tunekit.trial.elsewhere import starts_elsewhere  # noqa: PLC0415
    from tunekit.trial.target import resolve_target  # noqa: PLC0415

    target = resolve_target(command, Path.cwd(), builtin=builtin)
    elsewhere = starts_elsewhere(command)
    if elsewhere is not None:
        raise TargetError(
            f"the command starts `{elsewhere.words}`: the training runs behind it, where tunekit does not "
            f"see it; {elsewhere.remedy}"
        )
    target = target.changed(bindings=bindings_of(options.bind), samples_per_step=options.samples_per_step)
    check_bindings(target)
    present = present_values(target)
    unset = tuple(
        one.knob for one in target.bindings if target.is_bound(one.knob) and one.knob not in present
    )
    return target.changed(unset_knobs=unset)


def target_or_builtin(options: argparse.Namespace, command: Sequence[str]) -> "Target":
    """Return the target that the command line means, without its secrets; the built-in one without a command.

    Raises:
        TargetError: there is no such program, script or file.
        UsageError: a binding can't be understood, or names a key that is not there.
    """
    from tunekit.trial.target import without_secrets  # noqa: PLC0415
    from tunekit.workloads import IMAGES_SCRIPT  # noqa: PLC0415

    if command:
        return without_secrets(target_of(options, command))
    return target_of(options, (sys.executable, str(IMAGES_SCRIPT)), builtin="images")


def bindings_of(texts: Sequence[str]) -> "tuple[Binding, ...]":
    """Return the bindings in "KNOB=HOW" texts; a later one replaces an earlier one of the same knob.

    Raises:
        UsageError: one can't be understood.
    """
    from tunekit.trial.binding_syntax import parse_binding  # noqa: PLC0415

    parsed = [parse_binding(text) for text in texts]
    return tuple({binding.knob: binding for binding in parsed}.values())
