"""`tunekit profile`: everything about one config's loop on one screen."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tunekit.cli.machine import host_here
from tunekit.cli.screen import ProfileScreen
from tunekit.cli.trials import (
    before_trials,
    executor_for,
    fixed_knobs,
    make_images,
    new_folder,
    quiet_wait,
    target_or_builtin,
    window_s,
)
from tunekit.cli.verbs import COMPARED_ROUNDS
from tunekit.errors import UsageError
from tunekit.export.tuned import read_knobs
from tunekit.machine.device import profile_here
from tunekit.machine.profiles import load_profiles
from tunekit.records.codec import to_json
from tunekit.records.run import LoopProfile, ProfileOptions
from tunekit.records.target import Target
from tunekit.session.folder import RUN_FILE, RunFolder, load_run
from tunekit.session.profile import Against, ProfileWalk


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Look into the loop, write profile.json and show it.

    Returns:
        0; every failure is an exception.
    """
    profile = _new(options, command)
    against = against_file(options.against, profile.target) if options.against else None
    where = new_folder(options.out, f"{profile.target.name}-profile")
    here = profile_here(profile.measured_on, profile.host, load_profiles())
    with (
        RunFolder(where, can_resume=False) as folder,
        ProfileScreen(options.json, is_quiet=options.quiet) as screen,
    ):
        screen.opened(profile, folder.path)
        make_images(profile, screen)
        executor = executor_for(profile, folder, profile.host, command)
        quiet = quiet_wait(options)
        walk = ProfileWalk(profile, folder, executor, here, screen, quiet=quiet)
        try:
            finished = walk.run(against)
        except KeyboardInterrupt:
            screen.interrupted(folder.path)
            raise
        screen.closed(finished, folder.path)
    if options.json:
        sys.stdout.write(to_json(finished) + "\n")
    return 0


def _new(options: argparse.Namespace, command: Sequence[str]) -> LoopProfile:
    """Return the profile before its first trial; nothing is written yet."""
    target = target_or_builtin(options, command)
    asked = profile_options(options, builtin=target.builtin is not None)
    host = host_here(command)
    return LoopProfile(
        options=asked, **before_trials(target, options.gpu, host, load_profiles(), asked.ignored)
    )


def profile_options(options: argparse.Namespace, builtin: bool) -> ProfileOptions:
    """Return the typed options.

    Raises:
        UsageError: a value can't be understood.
    """
    compares = options.ablate or options.against is not None
    return ProfileOptions(
        gpu=options.gpu,
        fixed=fixed_knobs(options.fix),
        rounds=options.rounds or (COMPARED_ROUNDS if compares else 1),
        window_s=window_s(options, builtin),
        trial_limit_s=options.trial_limit,
        no_progress_limit_s=options.no_progress_limit,
        budget_s=options.budget,
        kernels=options.trace_kernels,
        ablate=options.ablate,
        ignored=tuple(options.ignore),
        against=str(options.against) if options.against else None,
    )


def against_file(path: Path, target: Target) -> Against:
    """Return the config of a file, whose keys are those of the search beside it, else our own names.

    Raises:
        UsageError: the file can't be read, or holds a key that is no knob's.
    """
    asked = read_knobs(path)
    if (path.parent / RUN_FILE).exists():
        target = load_run(path.parent).target
    if not set(asked.knobs(target).values()) - {"lr"}:
        raise UsageError(
            f"{path} names no knob, so there is nothing to compare; add one, such as num_workers"
        )
    return Against(path.name, lambda own, on_gpu: asked.over(own, target, on_gpu=on_gpu).config)
