"""`tunekit search`: tune a training command end to end."""

import argparse
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tunekit import __version__
from tunekit.errors import TargetChangedError, UsageError
from tunekit.units import parse_duration_s

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tunekit.records.hardware import Profile
    from tunekit.records.run import FixedKnob, KnobRange, KnobValue, Run, SearchOptions
    from tunekit.records.target import Target
    from tunekit.search.search import Machine

DEFAULT_BUDGET = "15m"
BUILTIN_BUDGET = "4m"
_BUILTIN_WINDOW_S = 3.0
_TREE_RAM_SHARE = 0.90
"""Share of the RAM limit at which a trial's process tree is ended."""


class _Prepared(NamedTuple):
    run: "Run"
    machine: "Machine"
    folder: Path


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "search",
        help="tune a training command: baseline, search, confirmation, three configs",
        usage="tunekit search [options] [-- COMMAND ...]",
        description=(
            "Run the training command as it is, measure it, search batch size, loader, precision and "
            "compile, confirm the winners against the baseline in fresh processes, and write three configs. "
            "Without a command it tunes the built-in workload `images`."
        ),
        epilog=(
            "example: tunekit search --gpu a10g --budget 20m -- python train.py --config configs/full.yaml"
        ),
    )
    parser.add_argument(
        "--gpu", default="auto", metavar="NAME", help="device to tune for (default: what is here)"
    )
    parser.add_argument(
        "--budget", metavar="TIME", help=f"time for the whole search, such as {DEFAULT_BUDGET} (the default)"
    )
    parser.add_argument(
        "--trials", type=_positive, metavar="N", help="most search trials, the baseline included"
    )
    parser.add_argument("--seed", type=_natural, default=0, metavar="N", help="of the sampler (default: 0)")
    parser.add_argument(
        "--fix",
        action="append",
        default=[],
        metavar="KNOB=VALUE",
        help="take a knob out of the search (repeatable)",
    )
    parser.add_argument(
        "--range",
        action="append",
        default=[],
        metavar="KNOB=LO..HI",
        help="bound a numeric knob (repeatable)",
    )
    parser.add_argument(
        "--lr", type=_positive_float, metavar="LR", help="base learning rate (default: as seen)"
    )
    parser.add_argument(
        "--base-batch", type=_positive, metavar="N", help="global batch that the base lr is for"
    )
    parser.add_argument(
        "--epochs", type=_positive, default=10, metavar="N", help="of the planned run (default: 10)"
    )
    parser.add_argument(
        "--confirm",
        type=_positive,
        default=5,
        metavar="N",
        help="interleaved confirmation rounds (default: 5)",
    )
    parser.add_argument(
        "--window", type=_positive_float, metavar="S", help="steady seconds per trial (default: 5)"
    )
    parser.add_argument("--trial-limit", default="5m", metavar="TIME", help="longest trial (default: 5m)")
    parser.add_argument(
        "--no-progress-limit",
        default="90s",
        metavar="TIME",
        help="longest time without a batch (default: 90s)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="run folder (default: reports/TARGET-DATE)"
    )
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="go on with an earlier run")
    parser.add_argument(
        "--json", action="store_true", help="print the run as JSON at the end; progress on stderr"
    )
    parser.set_defaults(verb=run_verb)


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Search, write the files and show the answer.

    Returns:
        0; every failure is an exception.
    """
    from tunekit.cli.screen import SearchScreen  # noqa: PLC0415 - slow to import; --help must be instant
    from tunekit.search.folder import RunFolder  # noqa: PLC0415
    from tunekit.search.search import Search  # noqa: PLC0415
    from tunekit.trial.executor import ProcessExecutor  # noqa: PLC0415
    from tunekit.trial.watch import Limits  # noqa: PLC0415

    prepared = _resumed(options, command) if options.resume else _new(options, command)
    run, asked = prepared.run, prepared.run.options
    limits = Limits(
        trial_s=min(asked.trial_limit_s, asked.budget_s),
        no_progress_s=asked.no_progress_limit_s,
        ram_bytes=int(_TREE_RAM_SHARE * run.host.ram_limit_bytes),
    )
    with RunFolder(prepared.folder) as folder, SearchScreen(to_stderr=options.json) as screen:
        screen.opened(run, folder.path)
        executor = ProcessExecutor(
            run.target, folder.trials_folder, limits, asked.window_s, hide_gpus=run.profile.is_cpu
        )
        try:
            finished = Search(run, folder, executor, prepared.machine, screen).run()
        except KeyboardInterrupt:
            screen.interrupted(folder.path)
            raise
        files = _write_files(finished, folder.path)
        screen.closed(finished, folder.path, files)
    if options.json:
        from tunekit.records.codec import to_json  # noqa: PLC0415

        sys.stdout.write(to_json(finished) + "\n")
    return 0


def _new(options: argparse.Namespace, command: Sequence[str]) -> _Prepared:
    """Return a new run for the options; nothing is written yet."""
    from tunekit.hardware.detect import detect_host  # noqa: PLC0415
    from tunekit.hardware.device import device_profile  # noqa: PLC0415
    from tunekit.hardware.profiles import load_profiles  # noqa: PLC0415
    from tunekit.records.run import Run, RunStatus  # noqa: PLC0415

    profiles = load_profiles()
    host = detect_host()
    profile, measured_on = device_profile(options.gpu, host, profiles)
    target = _target(command)
    asked = _search_options(options, builtin=target.builtin is not None)
    run = Run(
        tunekit_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        status=RunStatus.RUNNING,
        target=target,
        options=asked,
        host=host,
        profile=profile,
        measured_on=measured_on,
    )
    folder = options.out or _default_folder(target.name)
    if (folder / "run.json").exists():
        raise UsageError(f"{folder} already holds a run; use --resume {folder} or another --out")
    return _Prepared(run, _machine(run, profiles), folder)


def _resumed(options: argparse.Namespace, command: Sequence[str]) -> _Prepared:
    """Return the run in the folder, its budget renewed by --budget.

    Raises:
        TargetChangedError: the command or the script's text is not what the run was made for.
    """
    from tunekit.hardware.profiles import load_profiles  # noqa: PLC0415
    from tunekit.search.folder import load_run  # noqa: PLC0415

    run = load_run(options.resume)
    target = _target(command or (() if run.target.builtin else run.target.command))
    if target.command != run.target.command:
        raise TargetChangedError(
            f"the run in {options.resume} is for {' '.join(run.target.command)!r}; "
            "start a new one for this command"
        )
    if target.script_sha256 != run.target.script_sha256:
        raise TargetChangedError(
            f"{run.target.script} has changed since the run in {options.resume}; its figures would not be "
            "comparable: start a new run"
        )
    updates: dict[str, object] = {}
    if options.budget:
        updates["budget_s"] = parse_duration_s(options.budget)
    if options.trials:
        updates["max_trials"] = options.trials
    run = run.model_copy(update={"options": run.options.model_copy(update=updates)})
    return _Prepared(run, _machine(run, load_profiles()), options.resume)


def _target(command: Sequence[str]) -> "Target":
    from tunekit.trial.target import resolve_target  # noqa: PLC0415
    from tunekit.workloads import IMAGES_SCRIPT  # noqa: PLC0415

    if command:
        return resolve_target(command, Path.cwd())
    return resolve_target((sys.executable, str(IMAGES_SCRIPT)), Path.cwd(), builtin="images")


def _machine(run: "Run", profiles: "dict[str, Profile]") -> "Machine":
    """Return the device that is here, as a profile."""
    from tunekit.hardware.detect import cpu_has_native_bf16  # noqa: PLC0415
    from tunekit.hardware.device import device_profile  # noqa: PLC0415
    from tunekit.search.search import Machine  # noqa: PLC0415

    wanted = "cpu" if run.measured_on == "cpu" else "auto"
    here, _ = device_profile(wanted, run.host, profiles)
    return Machine(profile=here, native_bf16=cpu_has_native_bf16())


def _search_options(options: argparse.Namespace, builtin: bool) -> "SearchOptions":
    from tunekit.records.run import SearchOptions  # noqa: PLC0415

    window_s = options.window or (_BUILTIN_WINDOW_S if builtin else 5.0)
    return SearchOptions(
        gpu=options.gpu,
        budget_s=parse_duration_s(options.budget or (BUILTIN_BUDGET if builtin else DEFAULT_BUDGET)),
        max_trials=options.trials,
        seed=options.seed,
        fixed=tuple(_fixed(text) for text in options.fix),
        ranges=tuple(_range(text) for text in options.range),
        base_lr=options.lr,
        base_batch=options.base_batch,
        epochs=options.epochs,
        confirm_rounds=options.confirm,
        trial_limit_s=parse_duration_s(options.trial_limit),
        no_progress_limit_s=parse_duration_s(options.no_progress_limit),
        window_s=window_s,
    )


def _fixed(text: str) -> "FixedKnob":
    """Return the setting in "knob=value"."""
    from tunekit.records.run import FixedKnob  # noqa: PLC0415
    from tunekit.search.space import KNOBS  # noqa: PLC0415

    knob, equals, value = text.partition("=")
    if not equals or knob not in KNOBS:
        raise UsageError(f"--fix {text}: write it as KNOB=VALUE with one of {', '.join(KNOBS)}")
    return FixedKnob(knob=knob, value=_value(knob, value))


def _value(knob: str, text: str) -> "KnobValue":
    switches = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
    if text.lower() in switches:
        return switches[text.lower()]
    if text.lower() in ("none", "null"):
        return None
    if re.fullmatch(r"\d{1,15}", text):
        return int(text)
    if knob == "precision":
        return text.lower()
    raise UsageError(f"--fix {knob}={text}: not a value of this knob; numbers, true or false")


def _range(text: str) -> "KnobRange":
    """Return the bounds in "knob=lo..hi"."""
    from tunekit.records.run import KnobRange  # noqa: PLC0415
    from tunekit.search.space import NUMERIC_KNOBS  # noqa: PLC0415

    match = re.fullmatch(r"(\w+)=(\d{1,15})\.\.(\d{1,15})", text)
    if match is None or match[1] not in NUMERIC_KNOBS:
        raise UsageError(f"--range {text}: write it as KNOB=LO..HI with one of {', '.join(NUMERIC_KNOBS)}")
    return KnobRange(knob=match[1], low=int(match[2]), high=int(match[3]))


def _default_folder(name: str) -> Path:
    stem = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"
    base = Path("reports") / f"{stem}-{datetime.now():%Y-%m-%d}"
    folder, number = base, 2
    while folder.exists():
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    return folder


def _write_files(run: "Run", folder: Path) -> tuple[Path, ...]:
    from tunekit.export.scaling_csv import write_scaling  # noqa: PLC0415
    from tunekit.export.yaml_config import write_tiers  # noqa: PLC0415

    return (*write_tiers(run, folder), write_scaling(run, folder), folder / "run.json")


def _natural(text: str) -> int:
    return _whole(text, least=0)


def _positive(text: str) -> int:
    return _whole(text, least=1)


def _whole(text: str, least: int) -> int:
    if not re.fullmatch(r"\d{1,15}", text) or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least {least}, got {text!r}")
    return int(text)


def _positive_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text!r}")
    return value
