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

from tunekit.cli.machine import host_here
from tunekit.cli.monitor import watch_training
from tunekit.cli.pipes import say
from tunekit.cli.trials import bindings_asked, refuse_unseen_command
from tunekit.errors import UsageError
from tunekit.export.tuned import read_tuned, run_of_config
from tunekit.machine.device import AUTO, CPU, device_profile, with_named_first
from tunekit.machine.profiles import load_profiles
from tunekit.recommend.compatibility import (
    expected_it_per_s,
    learning_rate_to_bind,
    recommendation_of,
    refuse_unscaled_fp16,
)
from tunekit.records.config import TrainConfig
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.target import Target
from tunekit.report.answer import how_measured, open_gain_text, tier_text
from tunekit.secret_words import masked_words
from tunekit.trial.binding_suggestions import without_unknown_flags
from tunekit.trial.bindings import bound_target
from tunekit.trial.target import other_script, resolve_target
from tunekit.trial.training import bindings_here, prepare_training


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Replace this process by the training command; returns 0 after --dry-run only.

    Raises:
        UsageError: the config does not fit this device, this script or this learning rate.
        TargetError: the command can't be started.
    """
    run_folder = options.config.parent
    run = run_of_config(options.config)
    tuned = read_tuned(options.config, run)
    target = _target(run, command, options)
    baseline, discovery = run.baseline_config, run.discovery
    if baseline is None or discovery is None or not discovery.complete:
        raise UsageError(f"the search in {run_folder} has no complete baseline; search again")
    if not options.force:
        _refuse_other_device(run, target)
    lr = learning_rate_to_bind(run, tuned.config, tuned.lr, target, keep=options.keep_lr)
    refuse_unscaled_fp16(run, tuned.config, target)
    promise = recommendation_of(run, tuned.config, options.config.stem)
    name = f"{datetime.now():%Y-%m-%d-%H%M%S}-{os.getpid()}"
    kept = contextlib.nullcontext(str(run_folder / "applied"))
    with tempfile.TemporaryDirectory() if options.dry_run else kept as parent:
        training = prepare_training(
            target,
            tuned.config,
            baseline,
            discovery,
            Path(parent) / name,
            {**os.environ, **({"CUDA_VISIBLE_DEVICES": ""} if run.profile.is_cpu else {})},
            named=tuned.named,
            lr=lr,
            promised_it_per_s=expected_it_per_s(run, promise),
            records=options.record,
        )
    _say(run, training.bound.changed, promise, tuned.config)
    if options.dry_run:
        say(shlex.join(masked_words(training.command)), to_stderr=False)
        return 0
    if options.record:
        folder = run_folder / "applied" / name
        host = host_here(target.command, working_dir=Path(target.working_dir))
        watch_training(folder, host, training.command, os.getpid())
        _tell(f"recording in {folder}: tunekit monitor {os.getpid()}, later tunekit report {folder}")
    sys.stdout.flush()
    sys.stderr.flush()
    training.start()
    return 0


def _target(run: Run, command: Sequence[str], options: argparse.Namespace) -> Target:
    """Return the command to train with: the given one, else the searched one, bound as in the search.

    The settings file may bind what the search did not, and `--bind` wins.
    """
    folder = Path.cwd() if command else Path(run.target.working_dir)
    if not command and folder != Path.cwd():
        raise UsageError(f"the command was searched in {folder}; go there, or give the command after --")
    if not command:
        refuse_unseen_command(run, options.config.parent, ["run", str(options.config.resolve())])
    target = resolve_target(tuple(command) or run.target.command, folder)
    if (scripts := other_script(run.target, target)) is not None:
        was, now = scripts
        raise UsageError(f"the config was searched for {was}, and the command trains {now}; search that one")
    if target.script_sha256 != run.target.script_sha256:
        _tell("the script has changed since the search; what was measured may not hold")
    asked = bindings_asked(options)
    of_line = tuple(one for one in asked if one.is_typed)
    first = of_line if run.target.builtin else asked
    target = bound_target(target, (*first, *bindings_here(run.target, target), *of_line))
    if run.discovery is not None:
        target, said = without_unknown_flags(target, run.discovery)
        for text in said:
            _tell(text)
    same_defaults = target.script_sha256 == run.target.script_sha256
    return target.changed(unset_knobs=run.target.unset_knobs if same_defaults else ())


def _refuse_other_device(run: Run, target: Target) -> None:
    """Refuse a config that was measured on another device."""
    on_cpu_beside_gpus = run.measured_on == "cpu" and (run.profile.is_cpu or run.host.accelerators)
    host = host_here(target.command, working_dir=Path(target.working_dir))
    # Which of its GPUs the script takes shows only when it runs: the one that was measured on may be any.
    host = with_named_first(host, run.measured_on)
    _, here = device_profile(CPU if on_cpu_beside_gpus else AUTO, host, load_profiles())
    if here != run.measured_on:
        raise UsageError(
            f"the config was measured on {run.measured_on}, and this machine has {here}; "
            "search here, or apply it all the same with --force"
        )


def _say(
    run: Run, changed: Mapping[str, object], promise: Recommendation | None, config: TrainConfig
) -> None:
    """Print to standard error what is set and what the search found; standard output is the script's."""
    nothing = "nothing: the config is the script's own"
    knobs = ", ".join(f"{knob} {value}" for knob, value in changed.items())
    _tell(f"setting {knobs or nothing}")
    candidate = run.candidate
    if promise is None and candidate is not None and candidate.config == config:
        _tell(f"{open_gain_text(run, candidate)}; not confirmed, so its rate is not checked")
    elif promise is None:
        _tell("this exact config was not measured, so its rate is not checked")
    else:
        _tell(tier_text(run, promise))
        _tell(how_measured(run, promise))


def _tell(text: str) -> None:
    say(f"tunekit: {text}")
