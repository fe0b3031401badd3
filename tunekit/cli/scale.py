"""`tunekit scale`: how the training scales on 1, 2, 4, ... processes, measured."""

import argparse
import itertools
from collections.abc import Sequence

from tunekit.cli.machine import host_here
from tunekit.cli.screen import TrialScreen
from tunekit.cli.trials import (
    before_trials,
    run_walk,
    target_of,
    typed_options,
    window_s,
)
from tunekit.errors import UsageError
from tunekit.machine.device import AUTO, CPU, profile_here
from tunekit.machine.host.limits import cpu_cores
from tunekit.machine.profiles import load_profiles
from tunekit.records.host import Host
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScaleOptions, ScalingRun
from tunekit.session.folder import RunFolder
from tunekit.session.scale import ScaleWalk
from tunekit.trial.executor import ProcessExecutor
from tunekit.trial.process_count import with_processes
from tunekit.trial.target import script_text_of, without_secrets


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the rounds, write scale.json, show it and return 0.

    Raises:
        UsageError: there is no command, or only one count to measure.
    """
    if not command:
        raise UsageError(
            "scale needs the training command, as the built-in workload trains in one process: "
            "tunekit scale -- python train_ddp.py"
        )
    host, profiles = host_here(command), load_profiles()
    target = target_of(options, command)
    asked = _options(options, host)
    with_processes(target.command, asked.processes[-1], script_text_of(target))
    facts = before_trials(without_secrets(target), asked.gpu, host, profiles, asked.ignored)
    run = ScalingRun(options=asked, mode=asked.mode, **facts)
    here = profile_here(run.measured_on, host, profiles)

    def run_in(folder: RunFolder, executor: ProcessExecutor, screen: TrialScreen) -> ScalingRun:
        return ScaleWalk(run, folder, executor, here, screen).run()

    return run_walk(run, "scale", options, command, run_in)


def _options(options: argparse.Namespace, host: Host) -> ScaleOptions:
    gpu = options.gpu or AUTO
    processes = options.processes or usual_counts(host, gpu)
    if len(processes) < 2:
        what = "CPU core" if _is_on_cpu(host, gpu) else "GPU"
        given = "--processes has one count" if options.processes else f"this machine has one {what}"
        raise UsageError(f"{given}, scaling needs two; give several: --processes 1,2,4")
    return typed_options(
        ScaleOptions,
        options,
        processes=processes,
        mode=ScalingMode.STRONG if options.strong else ScalingMode.WEAK,
        window_s=window_s(options, builtin=False),
    )


def usual_counts(host: Host, gpu: str) -> tuple[int, ...]:
    """Return the powers of two up to a machine's GPUs; without one, or with `--gpu cpu`, up to its cores."""
    most = cpu_cores() if _is_on_cpu(host, gpu) else len(host.accelerators)
    return tuple(itertools.takewhile(lambda count: count <= most, (2**power for power in range(32))))


def _is_on_cpu(host: Host, gpu: str) -> bool:
    return not host.accelerators or gpu.strip().lower() == CPU
