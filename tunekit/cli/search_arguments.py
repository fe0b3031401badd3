"""The flags of `tunekit search`, and the typed options that they become."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit.cli.findings import add_findings
from tunekit.cli.numbers import WHOLE, duration_s, positive, positive_number
from tunekit.cli.report_files import add_full_paths
from tunekit.errors import UsageError

if TYPE_CHECKING:
    from tunekit.records.config import KnobValue
    from tunekit.records.run import FixedKnob, KnobRange, SearchOptions

_BUILTIN_BUDGET_S = 240.0
DEFAULT_EPOCHS = 10
_WINDOW_S = 5.0
_BUILTIN_WINDOW_S = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add every flag of the verb."""
    add_target_arguments(parser.add_argument_group("the target"))
    _add_knobs(parser.add_argument_group("what to search"))
    _add_limits(parser.add_argument_group("how long"))
    _add_output(parser.add_argument_group("where it goes"))


def default_options() -> dict[str, object]:
    """Return what every flag has when it is not given, by its name in the namespace."""
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    return vars(parser.parse_args([]))


def add_target_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the flags that every verb which runs the target has."""
    group.add_argument(
        "--gpu", default="auto", metavar="NAME", help="device to tune for (default: what is here)"
    )
    add_command_arguments(group)


def add_command_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the flags that say how the target runs and is read."""
    group.add_argument(
        "--bind",
        action="append",
        default=[],
        metavar="KNOB=HOW",
        help=(
            "how a knob, or lr, reaches the script (repeatable): 'batch_size=--bs {}', "
            "'batch_size=config.yaml:data.batch_size', batch_size=env:BS, batch_size=fixed or =inject"
        ),
    )
    group.add_argument(
        "--samples-per-step",
        type=positive,
        metavar="N",
        help=(
            "samples that one process takes in one forward and backward pass, for a script without a "
            "DataLoader (default: as batch_size is bound; asked for where that does not tell)"
        ),
    )
    group.add_argument(
        "--trial-limit",
        type=duration_s,
        default="5m",
        metavar="TIME",
        help="longest trial; one that starts or compiles has as long again for it (default: 5m)",
    )
    group.add_argument(
        "--no-progress-limit",
        type=duration_s,
        default="90s",
        metavar="TIME",
        help="longest time without a batch, a step or other work (default: 90s)",
    )


def add_fix(group: argparse._ArgumentGroup, meaning: str) -> None:
    """Add `--fix`."""
    group.add_argument("--fix", action="append", default=[], metavar="KNOB=VALUE", help=meaning)


def _add_knobs(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--global-batch",
        type=positive,
        metavar="N",
        help="keep N samples per optimizer step over all ranks: accumulation follows the batch size",
    )
    add_fix(group, "take a knob out of the search (repeatable)")
    group.add_argument(
        "--range",
        action="append",
        default=[],
        metavar="KNOB=LO..HI",
        help="bound a numeric knob (repeatable)",
    )
    group.add_argument(
        "--lr", type=positive_number(), metavar="LR", help="base learning rate (default: as seen)"
    )
    group.add_argument(
        "--base-batch", type=positive, metavar="N", help="global batch that the base lr is for"
    )
    group.add_argument(
        "--objective",
        choices=("rate", "finish-time"),
        default="rate",
        help=(
            "what to look for: samples/s over whole epochs (default), or the shortest planned run, its "
            "start-up and compiling included (with --epochs or --planned-steps)"
        ),
    )
    group.add_argument(
        "--epochs",
        type=positive,
        metavar="N",
        help=(
            "how long the training is to be: no trial after the first four may take longer than it saves "
            "(default: 10 are assumed, only to decide whether compiling pays)"
        ),
    )
    group.add_argument(
        "--planned-steps",
        type=positive,
        metavar="N",
        help="the same in optimizer steps of the script's own setting; comes before --epochs",
    )


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--budget",
        type=duration_s,
        metavar="TIME",
        help=(
            "time for the whole search, such as 30m; a plain number is seconds (default: what about 12 "
            "search trials and their confirmation need, 15m at the least, told after the baseline; the "
            "built-in workload has 4m)"
        ),
    )
    group.add_argument(
        "--trials", type=positive, metavar="N", help="most search trials, the baseline included"
    )
    group.add_argument(
        "--confirm",
        type=positive,
        default=5,
        metavar="N",
        help="interleaved confirmation rounds (default: 5)",
    )
    group.add_argument(
        "--window", type=positive_number(), metavar="S", help="steady seconds per trial (default: 5)"
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--out", type=Path, metavar="FOLDER", help="run folder (default: reports/TARGET-DATE)")
    group.add_argument("--resume", type=Path, metavar="FOLDER", help="go on with an earlier run")
    group.add_argument(
        "--json", action="store_true", help="print the run as JSON instead of the report; progress on stderr"
    )
    add_findings(group)
    group.add_argument(
        "--github-summary",
        action="store_true",
        help="append the report as Markdown to the summary of the GitHub Actions step that this runs in",
    )
    add_full_paths(group)


def search_options(options: argparse.Namespace, builtin: bool) -> "SearchOptions":
    """Return the typed options.

    Args:
        options: what the parser read.
        builtin: the target is the built-in workload, which has a shorter budget and window of its own.

    Raises:
        UsageError: a value can't be understood.
    """
    from tunekit.records.run import Objective, SearchOptions  # noqa: PLC0415

    try:
        objective = Objective(options.objective)
    except ValueError:  # from a settings file, where the parser checks nothing
        known = " or ".join(Objective)
        raise UsageError(f"objective {options.objective!r}: it is {known}") from None
    if objective is Objective.FINISH_TIME and options.epochs is None and options.planned_steps is None:
        raise UsageError(
            "--objective finish-time: the length of the planned run decides it; "
            "add --epochs N or --planned-steps N"
        )
    return SearchOptions(
        gpu=options.gpu,
        budget_s=options.budget or (_BUILTIN_BUDGET_S if builtin else None),
        max_trials=options.trials,
        fixed=fixed_knobs(options.fix),
        ranges=tuple(_range(text) for text in options.range),
        base_lr=options.lr,
        base_batch=options.base_batch,
        global_batch=options.global_batch,
        objective=objective,
        epochs=options.epochs or DEFAULT_EPOCHS,
        epochs_given=options.epochs is not None,
        planned_steps=options.planned_steps,
        confirm_rounds=options.confirm,
        trial_limit_s=options.trial_limit,
        no_progress_limit_s=options.no_progress_limit,
        window_s=window_s(options, builtin),
        ignored=tuple(options.ignore),
    )


def window_s(options: argparse.Namespace, builtin: bool) -> float:
    """Return the steady seconds that a trial measures; the built-in workload has a shorter window."""
    asked: float | None = options.window
    return asked or (_BUILTIN_WINDOW_S if builtin else _WINDOW_S)


def fixed_knobs(texts: Sequence[str]) -> "tuple[FixedKnob, ...]":
    """Return the settings in "knob=value" texts.

    Raises:
        UsageError: one can't be understood.
    """
    return tuple(_fixed(text) for text in texts)


def _fixed(text: str) -> "FixedKnob":
    """Return the setting in "knob=value"."""
    from tunekit.records.config import KNOBS  # noqa: PLC0415
    from tunekit.records.run import FixedKnob  # noqa: PLC0415

    knob, equals, value = text.partition("=")
    if not equals or knob not in KNOBS:
        raise UsageError(f"--fix {text}: write it as KNOB=VALUE with one of {', '.join(KNOBS)}")
    return FixedKnob(knob=knob, value=_value(knob, value))


def _value(knob: str, text: str) -> "KnobValue":
    from tunekit.trial.binding_syntax import parse_value  # noqa: PLC0415

    try:
        value = parse_value(knob, text)
    except ValueError as error:
        raise UsageError(f"--fix {knob}={text}: {knob} takes {error}") from error
    if isinstance(value, float):
        raise UsageError(f"--fix {knob}={text}: only knobs of the search can be fixed")
    return value


def _range(text: str) -> "KnobRange":
    """Return the bounds in "knob=lo..hi"."""
    from tunekit.records.config import NUMERIC_KNOBS  # noqa: PLC0415
    from tunekit.records.run import KnobRange  # noqa: PLC0415

    match = re.fullmatch(rf"(\w+)=({WHOLE})\.\.({WHOLE})", text)
    if match is None or match[1] not in NUMERIC_KNOBS:
        raise UsageError(f"--range {text}: write it as KNOB=LO..HI with one of {', '.join(NUMERIC_KNOBS)}")
    return KnobRange(knob=match[1], low=int(match[2]), high=int(match[3]))
