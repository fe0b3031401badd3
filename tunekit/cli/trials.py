"""Shared by the verbs that run trials: target, first record, folder, executor, options."""

import argparse
import math
import os
import shlex
import socket
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from tunekit import __version__
from tunekit.cli.machine import variables_here, warnings_of
from tunekit.cli.numbers import digits
from tunekit.cli.report_files import drawn_saved
from tunekit.cli.screen import TrialScreen
from tunekit.cli.settings import file_and_line
from tunekit.cli.workloads import make_data
from tunekit.errors import TargetError, UsageError
from tunekit.machine.device import device_profile, memory_cap_bytes
from tunekit.machine.gpu.calibrate import load_calibrations
from tunekit.machine.gpu.outside_torch import outside_torch
from tunekit.records.codec import to_json
from tunekit.records.config import KNOB, KNOBS
from tunekit.records.host import Host
from tunekit.records.measurement import THREAD_VARIABLES
from tunekit.records.profile import Profile
from tunekit.records.run import (
    FixedKnob,
    Run,
    RunStatus,
    TrialOptions,
    usual_options,
)
from tunekit.records.target import Binding, Target
from tunekit.session.folder import RUN_FILE, RunFolder, SavedRun, new_folder
from tunekit.session.predicted import Outside
from tunekit.trial.binding_syntax import binding_text, parse_binding, parse_value
from tunekit.trial.bindings import bound_target
from tunekit.trial.executor import ProcessExecutor
from tunekit.trial.external_launchers import find_external_launcher
from tunekit.trial.knob_names import knob_hint
from tunekit.trial.target import commit_of, resolve_target, without_secrets
from tunekit.trial.typed_commands import quoted, training_command
from tunekit.trial.watch import TREE_RAM_SHARE, Limits
from tunekit.workloads import DEFAULT_WORKLOAD, script_of

AnyOptions = TypeVar("AnyOptions", bound=TrialOptions)


def target_of(options: argparse.Namespace, command: Sequence[str], builtin: str | None = None) -> Target:
    """Return the command line's target, with its files and keys checked.

    Args:
        options: the flags; `--bind` and `--samples-per-step` belong to the target.
        command: program and arguments.
        builtin: name of the built-in workload, when the command is ours.

    Raises:
        TargetError: there is no such program, script or file, or it has the training run elsewhere.
        UsageError: a binding can't be understood, or names a key that is not there.
    """
    target = resolve_target(command, Path.cwd(), builtin=builtin)
    launcher = find_external_launcher(command)
    if launcher is not None:
        raise TargetError(
            f"the command starts `{launcher.words}`, and the training that runs there can't be measured from "
            f"here; {launcher.remedy}"
        )
    target = target.changed(samples_per_step=options.samples_per_step)
    own = (parse_binding("lr=--lr {}").changed(is_typed=False),) if builtin else ()
    return bound_target(target, (*own, *bindings_asked(options)))


def bindings_asked(options: argparse.Namespace) -> tuple[Binding, ...]:
    """Return the bindings of the project's settings, and after them those of the command line."""
    of_file, of_line = (map(parse_binding, texts) for texts in file_and_line(options, "bind"))
    return (*(binding.changed(is_typed=False) for binding in of_file), *of_line)


def target_or_builtin(options: argparse.Namespace, command: Sequence[str]) -> Target:
    """Return the command line's target without its secrets; without a command, the usual built-in one.

    Raises:
        TargetError: there is no such program, script or file.
        UsageError: a binding can't be understood, or names a key that is not there.
    """
    if not command:
        return target_of(options, workload_command(DEFAULT_WORKLOAD), builtin=DEFAULT_WORKLOAD)
    return without_secrets(target_of(options, command, builtin=options.workload))


def workload_command(name: str, options: Sequence[str] = ()) -> list[str]:
    """Return the command of a built-in workload with options for its script."""
    return [sys.executable, str(script_of(name)), *options]


def before_trials(
    target: Target, gpu: str, host: Host, profiles: Mapping[str, Profile], ignored: Collection[str]
) -> dict[str, Any]:
    """Return the fields of a run's record before its first trial, except its options."""
    profile, measured_on = device_profile(gpu, host, profiles)
    return {
        "tunekit_version": __version__,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "status": RunStatus.RUNNING,
        "commit": commit_of(Path(target.working_dir)),
        "target": target,
        "host": host,
        "profile": profile,
        "measured_on": measured_on,
        "machine_findings": warnings_of(host, gpu, ignored),
        "thread_variables": variables_here(THREAD_VARIABLES),
    }


def refuse_unseen_command(run: Run, folder: Path, words: Sequence[str]) -> None:
    """Refuse to run the stored command of a folder that another user or another machine wrote.

    Args:
        run: the saved run.
        folder: its folder.
        words: the words of the `tunekit` command that would run it, up to `--`.

    Raises:
        UsageError: the user has to see the stored command and repeat it.
    """
    owners = {path.stat().st_uid for path in (folder, *folder.glob(RUN_FILE))}
    if owners == {os.getuid()} and run.host.hostname == socket.gethostname():
        return
    bound = "".join(f", with --bind {shlex.quote(binding_text(one))}" for one in run.target.bindings)
    again = " ".join(map(quoted, ("tunekit", *words))) + training_command(run.target)
    raise UsageError(
        f"the run in {folder} is another user's or another machine's ({run.host.hostname}), so its command "
        f"is not run unseen{bound}; to run it: cd {quoted(run.target.working_dir)} && {again}"
    )


def typed_options(kind: type[AnyOptions], options: argparse.Namespace, **worked_out: Any) -> AnyOptions:
    """Return a verb's options record: given values, else the record's defaults."""
    given = {name: getattr(options, name, None) for name in kind.model_fields}
    asked = {name: value for name, value in given.items() if value not in (None, [], False)}
    return kind(**asked | {name: value for name, value in worked_out.items() if value is not None})


def window_s(options: argparse.Namespace, builtin: bool, budget_s: float | None = None) -> float:
    """Return the steady seconds that a trial measures: fewer for a built-in workload or a short budget."""
    asked: float | None = options.window_s
    return asked or usual_options(builtin, budget_s).window_s


def fixed_knob(text: str) -> FixedKnob:
    """Return the setting in a "knob=value" text.

    Raises:
        UsageError: it can't be understood.
    """
    knob, equals, written = text.partition("=")
    if knob and knob not in KNOBS:
        raise UsageError(f"--fix {text}: no knob {knob!r}; {knob_hint(knob)}")
    if not knob or not equals:
        raise UsageError(f"--fix {text}: write it as KNOB=VALUE, such as batch_size=64")
    counts = KNOB[knob].least is not None
    try:
        value = parse_value(knob, digits(written) or written if counts else written)
    except ValueError as error:
        raise UsageError(f"--fix {text}: {knob} takes {error}") from error
    if isinstance(value, float):
        raise UsageError(f"--fix {text}: only knobs of the search can be fixed")
    return FixedKnob(knob=knob, value=value)


def memory_outside() -> Outside:
    """Return a function that gives a GPU's memory outside torch's tensors, by this machine's calibrations."""
    calibrations = load_calibrations()
    return lambda profile: outside_torch(profile, calibrations)


def run_walk(
    record: SavedRun,
    kind: str,
    options: argparse.Namespace,
    command: Sequence[str],
    run_in: Callable[[RunFolder, ProcessExecutor, TrialScreen], SavedRun],
) -> int:
    """Run a verb's trials into a new folder, show them and the result, and return 0.

    Args:
        record: the record before its first trial.
        kind: the kind of record, which the folder's name ends with.
        options: the parsed flags.
        command: the training command.
        run_in: runs the trials and returns the finished record.
    """
    screen = TrialScreen(options.json, is_quiet=options.quiet)
    where = new_folder(options.out, f"{record.target.name}-{kind}")
    with RunFolder(where) as folder, screen:
        screen.opened(record, folder.path)
        make_data(record, screen)
        try:
            finished = run_in(folder, executor_for(record, folder, record.host, command), screen)
        except KeyboardInterrupt:
            screen.interrupted(folder.path)
            raise
        screen.closed(drawn_saved(finished, folder.path, full=options.full).blocks())
    if options.json:
        sys.stdout.write(to_json(finished) + "\n")
    return 0


def limits_of(asked: TrialOptions, host: Host) -> Limits:
    """Return the limits of a trial."""
    return Limits(
        trial_s=asked.trial_limit_s,
        start_s=asked.trial_limit_s,
        no_progress_s=asked.no_progress_limit_s,
        ram_bytes=int(TREE_RAM_SHARE * host.ram_limit_bytes),
    )


def executor_for(
    record: SavedRun, folder: RunFolder, here: Host, command: Sequence[str] = (), budget_s: float = math.inf
) -> ProcessExecutor:
    """Return what runs the trials of a run, a loop profile or a prediction.

    Where a larger GPU stands in for the requested one, trials are limited to the latter's memory.

    Args:
        record: target, options and the machine whose limits hold.
        folder: owned by the caller.
        here: this machine as it is now.
        command: the training command with its secrets, which the record lacks; the record's without one.
        budget_s: time for all of them, which no trial takes longer than.
    """
    return ProcessExecutor(
        record.target.changed(command=tuple(command) or record.target.command),
        folder.trials_folder,
        limits_of(record.options, record.host).within(budget_s),
        record.options.window_s,
        hide_gpus=record.profile.is_cpu,
        gpus=here.nvml_indexes,
        telemetry_store=folder.telemetry_store,
        device_memory_bytes=memory_cap_bytes(record.profile, record.measured_on, record.host),
    )
