"""`tunekit scale`: how the training scales on 1, 2, 4, ... processes, measured."""

import argparse
import itertools
import sys
from collections.abc import Sequence

from tunekit.cli.machine import host_here
from tunekit.cli.screen import ScaleScreen
from tunekit.cli.trials import (
    before_trials,
    executor_for,
    new_folder,
    quiet_wait,
    target_of,
    window_s,
)
from tunekit.errors import UsageError
from tunekit.machine.device import CPU, profile_here
from tunekit.machine.host.limits import cpu_cores
from tunekit.machine.profiles import load_profiles
from tunekit.records.codec import to_json
from tunekit.records.host import Host
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScaleOptions, ScalingRun
from tunekit.session.folder import RunFolder
from tunekit.session.scale import ScaleWalk
from tunekit.trial.process_count import with_processes
from tunekit.trial.target import script_text_of, without_secrets


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the rounds, write scale.json and show it.

    Returns:
        0; every failure is an exception.
    """
    run = _new(options, command)
    where = new_folder(options.out, f"{run.target.name}-scale")
    here = profile_here(run.measured_on, run.host, load_profiles())
    with (
        RunFolder(where, can_resume=False) as folder,
        ScaleScreen(options.json, is_quiet=options.quiet) as screen,
    ):
        screen.opened(run, folder.path)
        executor = executor_for(run, folder, run.host, command)
        walk = ScaleWalk(run, folder, executor, here, screen, quiet=quiet_wait(options))
        try:
            finished = walk.run()
        except KeyboardInterrupt:
            screen.interrupted(folder.path)
            raise
        screen.closed(finished, folder.path)
    if options.json:
        sys.stdout.write(to_json(finished) + "\n")
    return 0


def _new(options: argparse.Namespace, command: Sequence[str]) -> ScalingRun:
    """Return the record before its first trial; nothing is written yet."""
    if not command:
        raise UsageError(
            "scale needs the training command, as the built-in workload trains in one process: "
            "tunekit scale -- python train_ddp.py"
        )
    host = host_here(command)
    target = target_of(options, command)
    asked = _options(options, host)
    with_processes(target.command, asked.processes[-1], script_text_of(target))
    facts = before_trials(without_secrets(target), options.gpu, host, load_profiles(), asked.ignored)
    return ScalingRun(options=asked, mode=asked.mode, **facts)


def _options(options: argparse.Namespace, host: Host) -> ScaleOptions:
    """Return the typed options.

    Raises:
        UsageError: there is one count to measure.
    """
    processes = options.processes or usual_counts(host, options.gpu)
    if len(processes) < 2:
        what = "CPU core" if _is_on_cpu(host, options.gpu) else "GPU"
        given = "--processes has one count" if options.processes else f"this machine has one {what}"
        raise UsageError(f"{given}, scaling needs two; give several: --processes 1,2,4")
    return ScaleOptions(
        gpu=options.gpu,
        processes=processes,
        mode=ScalingMode.STRONG if options.strong else ScalingMode.WEAK,
        rounds=options.rounds,
        base_lr=options.lr,
        base_batch=options.base_batch,
        window_s=window_s(options, builtin=False),
        trial_limit_s=options.trial_limit,
        no_progress_limit_s=options.no_progress_limit,
        budget_s=options.budget,
        ignored=tuple(options.ignore),
    )


def usual_counts(host: Host, gpu: str) -> tuple[int, ...]:
    """Return the powers of two up to a machine's GPUs; without one, or with `--gpu cpu`, up to its cores."""
    most = cpu_cores() if _is_on_cpu(host, gpu) else len(host.accelerators)
    return tuple(itertools.takewhile(lambda count: count <= most, (2**power for power in range(32))))


def _is_on_cpu(host: Host, gpu: str) -> bool:
    return not host.accelerators or gpu.strip().lower() == CPU
