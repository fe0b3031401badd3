"""`tunekit search`: tune a training command end to end."""

import argparse
import math
import re
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tunekit import __version__
from tunekit.cli.report_files import (
    append_summary,
    check_summary,
    markdown_text,
    shown_run,
    summary_file,
    write_reports,
)
from tunekit.cli.search_arguments import add_arguments, default_options, search_options
from tunekit.errors import DamagedRecordError, RunFolderError, TargetChangedError, TunekitError, UsageError
from tunekit.units import count_text

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tunekit.cli.screen import SearchScreen
    from tunekit.records.host import Host
    from tunekit.records.profile import Profile
    from tunekit.records.run import Run
    from tunekit.records.target import Target
    from tunekit.search.predicted import Machine


class _Prepared(NamedTuple):
    run: "Run"
    machine: "Machine"
    folder: Path
    here: "Host"
    """This machine as it is now; a resumed run holds it as it was."""


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the verb to the parser and return its own."""
    parser = verbs.add_parser(
        "search",
        help="tune a training command: baseline, search, confirmation, three configs",
        usage="tunekit search [options] [-- COMMAND ...]",
        description=(
            "Run the training command as it is, measure it, search batch size, loader, precision and "
            "compile, confirm the winners against the baseline in fresh processes, and write three configs "
            "and a report. Without a command it tunes the built-in workload `images`."
        ),
        epilog=(
            "example: tunekit search --gpu a10g --budget 20m -- python train.py --config configs/full.yaml"
        ),
    )
    add_arguments(parser)
    parser.set_defaults(verb=run_verb)
    return parser


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Search, write the files and show the answer.

    Returns:
        0; every failure is an exception.
    """
    from tunekit.cli.screen import SearchScreen  # noqa: PLC0415 - slow to import; --help must be instant
    from tunekit.cli.trials import executor_for, make_images  # noqa: PLC0415
    from tunekit.search.folder import RunFolder  # noqa: PLC0415
    from tunekit.search.search import Search  # noqa: PLC0415

    summary = summary_file() if options.github_summary else None
    if summary is not None:
        check_summary(summary)
    prepared = _resumed(options, command) if options.resume else _new(options, command)
    run, asked = prepared.run, prepared.run.options
    with RunFolder(prepared.folder) as folder, SearchScreen(to_stderr=options.json) as screen:
        screen.opened(run, folder.path)
        make_images(run, screen)
        executor = executor_for(run, folder, prepared.here, command, asked.budget_s or math.inf)
        search = Search(run, folder, executor, prepared.machine, screen)
        try:
            finished = search.run()
        except (KeyboardInterrupt, TunekitError) as error:
            if isinstance(error, KeyboardInterrupt):
                screen.interrupted(folder.path)
            if search.interrupted_run is not None:
                _report_so_far(search.interrupted_run, folder.path, options.full_paths, screen)
            raise
        files = _write_files(finished, folder.path)
        try:
            public, shown = shown_run(finished, folder.path, options.full_paths)
            files += write_reports(public, shown, folder.path)
            if summary is not None:
                append_summary(summary, markdown_text(public, shown))
        finally:  # the answer is shown whether or not it could be drawn in files
            screen.closed(finished, folder.path, files)
            if options.json:
                from tunekit.records.codec import to_json  # noqa: PLC0415

                sys.stdout.write(to_json(finished) + "\n")
    return 0


def _new(options: argparse.Namespace, command: Sequence[str], folder: Path | None = None) -> _Prepared:
    """Return a new run for the options; nothing is written yet.

    Args:
        options: the flags.
        command: the training command.
        folder: where it goes, if not where the flags say.

    Raises:
        UsageError: the folder already holds a run.
    """
    from tunekit.cli.machine import host_here, warnings_of  # noqa: PLC0415
    from tunekit.cli.targets import target_or_builtin  # noqa: PLC0415
    from tunekit.hardware.device import device_profile  # noqa: PLC0415
    from tunekit.hardware.profiles import load_profiles  # noqa: PLC0415
    from tunekit.records.run import Run, RunStatus  # noqa: PLC0415

    profiles = load_profiles()
    host = host_here(command)
    profile, measured_on = device_profile(options.gpu, host, profiles)
    target = target_or_builtin(options, command)
    asked = search_options(options, builtin=target.builtin is not None)
    run = Run(
        tunekit_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        status=RunStatus.RUNNING,
        target=target,
        options=asked,
        host=host,
        profile=profile,
        measured_on=measured_on,
        machine_findings=warnings_of(host, options.gpu, options.ignore),
    )
    if folder is not None:
        return _Prepared(run, _machine(run, profiles), folder, host)
    folder = options.out or default_folder(target.name)
    if (folder / "run.json").exists() or any(folder.glob("trials/*/trial.json")):
        raise UsageError(f"{folder} already holds a run; use --resume {folder} or another --out")
    return _Prepared(run, _machine(run, profiles), folder, host)


def _resumed(options: argparse.Namespace, command: Sequence[str]) -> _Prepared:
    """Return the run in the folder, its budget renewed by --budget.

    Raises:
        TargetChangedError: the command or the script's text is not what the run was made for.
    """
    from tunekit.cli.machine import warnings_of  # noqa: PLC0415
    from tunekit.hardware.profiles import load_profiles  # noqa: PLC0415
    from tunekit.search.folder import load_run  # noqa: PLC0415
    from tunekit.trial.target import without_secrets  # noqa: PLC0415

    try:
        run = load_run(options.resume)
    except DamagedRecordError as error:
        # The trial records are the truth; what else run.json held, the command line must say again.
        if not command:
            raise DamagedRecordError(
                f"{error}; to rebuild it from them, give the same flags and the training command after --"
            ) from error
        return _new(options, command, options.resume)
    _refuse_other_options(options)
    target = _target_today(run, command)
    if without_secrets(target).command != run.target.command:
        raise TargetChangedError(
            f"the run in {options.resume} is for {shlex.join(run.target.command)!r}; "
            "start a new one for this command"
        )
    if target.script_sha256 != run.target.script_sha256:
        raise TargetChangedError(
            f"{run.target.script} has changed since the run in {options.resume}; its figures would not be "
            "comparable: start a new run"
        )
    here = _same_machine(run)
    updates: dict[str, object] = {}
    if options.budget:
        updates["budget_s"] = options.budget
    if options.trials:
        updates["max_trials"] = options.trials
    if options.ignore:
        updates["ignored"] = tuple(options.ignore)
    asked = run.options.changed(**updates)
    run = run.changed(options=asked, machine_findings=warnings_of(here, asked.gpu, asked.ignored))
    return _Prepared(run, _machine(run, load_profiles()), options.resume, here)


def _same_machine(run: "Run") -> "Host":
    """Return the machine of the run as it is now; the figures of two machines are never mixed.

    Raises:
        UsageError: CPUs or GPUs here are not those of the run.
    """
    from tunekit.cli.machine import host_here  # noqa: PLC0415

    here = host_here(run.target.command, working_dir=Path(run.target.working_dir))
    was, now = _machine_text(run.host), _machine_text(here)
    if was != now:
        raise UsageError(f"the run was measured on {was}; this machine is {now}: start a new run here")
    return here


def _machine_text(host: "Host") -> str:
    gpus = ", ".join(gpu.name for gpu in host.accelerators) or "no GPU"
    return f"{host.cpu_name or 'unknown CPU'} with {count_text(host.cpus, 'CPU')} and {gpus}"


def _refuse_other_options(options: argparse.Namespace) -> None:
    """Refuse flags that a resumed run could only ignore: it goes on with its own.

    Raises:
        UsageError: one was given.
    """
    usual = default_options()
    changeable = ("resume", "budget", "trials", "ignore", "json", "github_summary", "full_paths")
    given = [
        name for name, value in usual.items() if name not in changeable and getattr(options, name) != value
    ]
    if given:
        flags = ", ".join("--" + name.replace("_", "-") for name in given)
        raise UsageError(
            f"--resume goes on with the run's own options, so {flags} can't be changed; "
            "only --budget, --trials and --ignore can"
        )


def _target_today(run: "Run", command: Sequence[str]) -> "Target":
    """Return the run's target as it is today, in the folder that it was made in, wherever this is run.

    Args:
        run: as it was saved.
        command: as it was given again, with the secrets that are not saved; it may be empty.
    """
    from tunekit.trial.target import resolve_target  # noqa: PLC0415

    known = run.target
    return resolve_target(tuple(command) or known.command, Path(known.working_dir), builtin=known.builtin)


def _machine(run: "Run", profiles: "dict[str, Profile]") -> "Machine":
    """Return the device that is here, as a profile."""
    from tunekit.hardware.device import profile_here  # noqa: PLC0415
    from tunekit.hardware.gpu.calibrations import load_calibrations  # noqa: PLC0415
    from tunekit.hardware.gpu.outside_torch import outside_torch  # noqa: PLC0415
    from tunekit.search.predicted import Machine  # noqa: PLC0415

    calibrations = load_calibrations()
    return Machine(
        profile=profile_here(run.measured_on, run.host, profiles),
        native_bf16=run.host.cpu_bf16_native,
        outside=lambda profile, benchmarks_cudnn: outside_torch(profile, calibrations, benchmarks_cudnn),
    )


def default_folder(name: str) -> Path:
    """Return a folder under reports/ that is not there yet."""
    stem = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"
    base = Path("reports") / f"{stem}-{datetime.now():%Y-%m-%d}"
    folder, number = base, 2
    while folder.exists():
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    return folder


def _report_so_far(run: "Run", folder: Path, full_paths: bool, screen: "SearchScreen") -> None:
    """Leave the reports of a search that was interrupted or failed, if it measured anything."""
    if all(record.measurement is None for record in run.trials):
        return
    try:
        html, _ = write_reports(*shown_run(run, folder, full_paths), folder)
    except RunFolderError as error:
        screen.said(str(error))
    else:
        screen.reported_so_far(html)


def _write_files(run: "Run", folder: Path) -> tuple[Path, ...]:
    from tunekit.export.files import write_exports  # noqa: PLC0415

    return (*write_exports(run, folder), folder / "run.json")
