"""`tunekit scale`: how the training scales on 1, 2, 4, ... processes, measured."""

import argparse
import itertools
import sys
from collections.abc import Sequence

from pydantic import ValidationError

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
from tunekit.records.scaling import Hosts, ScalingMode
from tunekit.records.scaling_run import ScaleOptions, ScalingRun
from tunekit.session.folder import RunFolder
from tunekit.session.scale import ScaleWalk
from tunekit.trial.process_count import rendezvous_of, with_processes
from tunekit.trial.target import script_text_of, without_secrets


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the rounds, write scale.json and show it.

    Returns:
        0; every failure is an exception.
    """
    run = _new(options, command)
    where = new_folder(options.out, f"{run.target.name}-scale")
    here = profile_here(run.measured_on, run.host, load_profiles())
    with RunFolder(where, can_resume=False) as folder, ScaleScreen(to_stderr=options.json) as screen:
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
    rendezvous = rendezvous_of(asked.hosts, 0) if asked.hosts else ()
    with_processes(target.command, asked.processes[-1], script_text_of(target), rendezvous)
    facts = before_trials(without_secrets(target), options.gpu, host, load_profiles(), asked.ignored)
    return ScalingRun(options=asked, mode=asked.mode, **facts)


def _options(options: argparse.Namespace, host: Host) -> ScaleOptions:
    """Return the typed options.

    Raises:
        UsageError: they contradict each other, or there is one count to measure.
    """
    hosts = _hosts(options)
    if hosts is not None and options.budget is not None:
        raise UsageError("--budget may end on one host before another; give --rounds instead with --nnodes")
    processes = options.processes or usual_counts(host, options.gpu)
    if len(processes) < 2 and hosts is None:
        what = "CPU core" if _is_on_cpu(host, options.gpu) else "GPU"
        raise UsageError(
            f"{processes[0]} process alone says nothing of scaling, and this machine has one {what}; "
            "give the numbers to measure: --processes 1,2"
            if options.processes is None
            else f"--processes {processes[0]} says nothing of scaling by itself; give several, such as 1,2,4"
        )
    return ScaleOptions(
        gpu=options.gpu,
        processes=processes,
        mode=ScalingMode.STRONG if options.strong else ScalingMode.WEAK,
        rounds=options.rounds,
        tries_knobs=options.knobs,
        hosts=hosts,
        base_lr=options.lr,
        base_batch=options.base_batch,
        window_s=window_s(options, builtin=False),
        trial_limit_s=options.trial_limit,
        no_progress_limit_s=options.no_progress_limit,
        budget_s=options.budget,
        ignored=tuple(options.ignore),
    )


def _hosts(options: argparse.Namespace) -> Hosts | None:
    if (options.nnodes or 1) == 1 and options.rdzv_endpoint is None:
        return None
    if options.nnodes is None or options.rdzv_endpoint is None:
        raise UsageError(
            "--nnodes and --rdzv-endpoint belong together, as in: --nnodes 2 --rdzv-endpoint node1:29400"
        )
    try:
        return Hosts(nodes=options.nnodes, endpoint=options.rdzv_endpoint)
    except ValidationError as error:
        raise UsageError(
            f"--rdzv-endpoint {options.rdzv_endpoint}: write it as HOST:PORT, such as node1:29400"
        ) from error


def usual_counts(host: Host, gpu: str) -> tuple[int, ...]:
    """Return the powers of two up to a machine's GPUs; without one, or with `--gpu cpu`, up to its cores."""
    most = cpu_cores() if _is_on_cpu(host, gpu) else len(host.accelerators)
    return tuple(itertools.takewhile(lambda count: count <= most, (2**power for power in range(32))))


def _is_on_cpu(host: Host, gpu: str) -> bool:
    return not host.accelerators or gpu.strip().lower() == CPU
