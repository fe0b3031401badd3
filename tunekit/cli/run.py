"""`tunekit run`: the real training with a tuned config, the script unchanged."""

import argparse
import contextlib
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit.errors import UsageError
from tunekit.plain_text import printable
from tunekit.secret_words import masked_words

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tunekit.records.recommendation import Recommendation
    from tunekit.records.run import Run
    from tunekit.records.target import Target


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "run",
        help="train for real with a tuned config, the script unchanged",
        usage="tunekit run [options] CONFIG.yaml [-- COMMAND ...]",
        description=(
            "Start the training command with the knobs of a config that a search wrote. The command takes "
            "this process's place: standard input, signals and exit status are its own, and checkpoints go "
            "where the script puts them. Without a command it is the one that was searched."
        ),
        epilog="example: tunekit run reports/train-2026-01-31/balanced.yaml -- python train.py --epochs 90",
    )
    parser.add_argument("config", metavar="CONFIG.yaml", type=Path, help="a config that a search wrote")
    parser.add_argument(
        "--keep-lr",
        action="store_true",
        help="keep the script's own learning rate although the global batch changes",
    )
    parser.add_argument(
        "--force", action="store_true", help="apply it although it was measured on another device"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be set and started, and stop there"
    )
    parser.set_defaults(verb=run_verb)


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Become the training command; returns 0 after --dry-run only.

    Raises:
        UsageError: the config does not fit this device, this script or this learning rate.
        TargetError: the command can't be started.
    """
    from tunekit.export.tuned import read_tuned  # noqa: PLC0415 - slow to import; --help must be instant
    from tunekit.recommend.applicable import (  # noqa: PLC0415
        learning_rate_to_bind,
        recommendation_of,
        refuse_unscaled_fp16,
        watched_it_per_s,
    )
    from tunekit.trial.training import prepare_training  # noqa: PLC0415

    run_folder = options.config.parent
    run = _run_of(options.config)
    tuned = read_tuned(options.config, run)
    target = _target(run, command)
    baseline, discovery = run.baseline_config, run.discovery
    if baseline is None or discovery is None or not discovery.complete:
        raise UsageError(f"the search in {run_folder} never learnt the loop; search again")
    if not options.force:
        _refuse_other_device(run, target)
    lr = learning_rate_to_bind(run, tuned.config, tuned.lr, target, keep=options.keep_lr)
    refuse_unscaled_fp16(run, tuned.config, target)
    promise = recommendation_of(run, tuned.config)
    name = f"{datetime.now():%Y-%m-%d-%H%M%S}-{os.getpid()}"
    kept = contextlib.nullcontext(str(run_folder / "applied"))
    with tempfile.TemporaryDirectory() if options.dry_run else kept as parent:
        training = prepare_training(
            target,
            tuned.config,
            baseline,
            discovery,
            Path(parent) / name,
            _environment(run),
            named=tuned.named,
            lr=lr,
            promised_it_per_s=watched_it_per_s(run, promise),
        )
    _say(run, training.bound.changed, promise)
    if options.dry_run:
        print(printable(shlex.join(masked_words(training.command))))  # noqa: T201
        return 0
    sys.stdout.flush()
    sys.stderr.flush()
    training.start()
    return 0


def _run_of(config: Path) -> "Run":
    """Return the run that a config came from, which lies beside it.

    Raises:
        UsageError: there is no such config, or no run beside it.
    """
    from tunekit.search.folder import load_run  # noqa: PLC0415

    if config.is_dir() or not config.exists():
        what = "a folder; name a config in it" if config.is_dir() else "not there; check the path"
        raise UsageError(f"{config} is {what}, such as reports/train-2026-01-31/balanced.yaml")
    if not (config.parent / "run.json").exists():
        raise UsageError(
            f"there is no run.json beside {config}; `tunekit run` needs the run that the config "
            "came from: keep both together"
        )
    return load_run(config.parent)


def _target(run: "Run", command: Sequence[str]) -> "Target":
    """Return the command to train with: the one given, else the one that was searched."""
    from tunekit.trial.target import resolve_target  # noqa: PLC0415
    from tunekit.trial.training import bindings_here  # noqa: PLC0415

    folder = Path.cwd() if command else Path(run.target.working_dir)
    if not command and folder != Path.cwd():
        raise UsageError(f"the command was searched in {folder}; go there, or give the command after --")
    target = resolve_target(tuple(command) or run.target.command, folder)
    if target.script_sha256 != run.target.script_sha256:
        _tell("the script is not the text that was searched; what was measured may not hold")
    bindings = bindings_here(run.target, target)
    same_defaults = target.script_sha256 == run.target.script_sha256
    unset = run.target.unset_knobs if same_defaults else ()
    return target.changed(bindings=bindings, unset_knobs=unset)


def _environment(run: "Run") -> dict[str, str]:
    """Return the user's environment, its GPUs hidden where the search was told to leave them out."""
    return {**os.environ, "CUDA_VISIBLE_DEVICES": ""} if run.profile.is_cpu else dict(os.environ)


def _refuse_other_device(run: "Run", target: "Target") -> None:
    """Refuse a config whose figures belong to another device.

    Raises:
        UsageError: the device here is another one.
    """
    from tunekit.cli.machine import host_here  # noqa: PLC0415
    from tunekit.hardware.device import AUTO, CPU, device_profile, with_named_first  # noqa: PLC0415
    from tunekit.hardware.profiles import load_profiles  # noqa: PLC0415

    on_cpu_beside_gpus = run.measured_on == "cpu" and (run.profile.is_cpu or run.host.accelerators)
    host = host_here(target.command, working_dir=Path(target.working_dir))
    # Which of its GPUs the script takes only running it tells: the one that was measured on may be any.
    host = with_named_first(host, run.measured_on)
    _, here = device_profile(CPU if on_cpu_beside_gpus else AUTO, host, load_profiles())
    if here != run.measured_on:
        raise UsageError(
            f"the config was measured on {run.measured_on}, and this machine has {here}; "
            "search here, or apply it all the same with --force"
        )


def _say(run: "Run", changed: "Mapping[str, object]", promise: "Recommendation | None") -> None:
    """Tell on standard error what is set; standard output is the script's."""
    what = (
        ", ".join(f"{knob} {value}" for knob, value in changed.items())
        or "nothing, it is as the script has it"
    )
    _tell(f"setting {what}")
    if promise is None:
        _tell("this exact config was not measured, so its rate is not watched")
    elif promise.speedup is not None and not promise.is_baseline:
        low, value, high = promise.speedup.low, promise.speedup.value, promise.speedup.high
        _tell(f"measured on {run.measured_on}: {value:.2f}x ({low:.2f} to {high:.2f}) the script's own rate")


def _tell(text: str) -> None:
    print(f"tunekit: {printable(text)}", file=sys.stderr)  # noqa: T201
