"""`tunekit profile`: everything about one config's loop on one screen."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tunekit.cli.machine import host_here
from tunekit.cli.screen import TrialScreen
from tunekit.cli.trials import (
    before_trials,
    fixed_knob,
    run_walk,
    target_or_builtin,
    typed_options,
    window_s,
)
from tunekit.cli.verbs import COMPARED_ROUNDS
from tunekit.errors import UsageError
from tunekit.export.tuned import read_knobs
from tunekit.machine.device import profile_here
from tunekit.machine.profiles import load_profiles
from tunekit.records.run import LoopProfile, ProfileOptions
from tunekit.records.target import Target
from tunekit.session.folder import RUN_FILE, RunFolder, load_run
from tunekit.session.profile import Against, ProfileWalk
from tunekit.trial.executor import ProcessExecutor


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Profile the loop, write profile.json, show it and return 0."""
    target = target_or_builtin(options, command)
    asked = profile_options(options, builtin=target.builtin is not None)
    host, profiles = host_here(command), load_profiles()
    profile = LoopProfile(options=asked, **before_trials(target, asked.gpu, host, profiles, asked.ignored))
    against = against_file(options.against, target) if options.against else None
    here = profile_here(profile.measured_on, host, profiles)

    def run_in(folder: RunFolder, executor: ProcessExecutor, screen: TrialScreen) -> LoopProfile:
        return ProfileWalk(profile, folder, executor, here, screen).run(against)

    return run_walk(profile, "profile", options, command, run_in)


def profile_options(options: argparse.Namespace, builtin: bool) -> ProfileOptions:
    """Return the typed options.

    Raises:
        UsageError: a value can't be understood.
    """
    compares = options.ablate or options.against is not None
    return typed_options(
        ProfileOptions,
        options,
        fixed=tuple(map(fixed_knob, options.fix)),
        rounds=options.rounds or (COMPARED_ROUNDS if compares else 1),
        window_s=window_s(options, builtin),
        kernels=options.trace_kernels,
        against=str(options.against) if options.against else None,
    )


def against_file(path: Path, target: Target) -> Against:
    """Return the config of a file, whose keys are those of the search in its folder, else our own names.

    Raises:
        UsageError: the file can't be read, or holds a key that is not a knob.
    """
    asked = read_knobs(path)
    if (path.parent / RUN_FILE).exists():
        target = load_run(path.parent).target
    if not set(asked.knobs(target).values()) - {"lr"}:
        raise UsageError(
            f"{path} names no knob, so there is nothing to compare; add one, such as num_workers"
        )
    return Against(path.name, lambda own, on_gpu: asked.over(own, target, on_gpu=on_gpu).config)
