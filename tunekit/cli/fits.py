"""`tunekit fits`: what fits which GPU and how fast that would be, by one trial on this machine."""

import argparse
import sys
from collections.abc import Mapping, Sequence

from tunekit.cli.machine import host_here
from tunekit.cli.screen import FitsScreen
from tunekit.cli.trials import (
    before_trials,
    executor_for,
    make_images,
    memory_outside,
    new_folder,
    target_or_builtin,
)
from tunekit.errors import UsageError
from tunekit.machine.device import AUTO
from tunekit.machine.profiles import find_profile, load_profiles
from tunekit.records.codec import to_json
from tunekit.records.profile import NO_TORCH_BUILD, Profile
from tunekit.records.run import FitsOptions, FitsRun
from tunekit.session.fits import FitsWalk
from tunekit.session.folder import RunFolder

_WINDOW_S = 2.0
_OTHER_MACHINE = ("run", "ram", "cpus", "shm", "workers", "prefetch", "batch_mib")
"""Flags that show another machine's memory, and run nothing."""


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the trial, write fits.json and show what it predicts; of another machine show its memory.

    Returns:
        0; every failure is an exception.
    """
    if any(getattr(options, name) is not None for name in _OTHER_MACHINE):
        from tunekit.cli.machine_memory import show_machine_memory  # noqa: PLC0415 - with numpy

        if command:
            raise UsageError("--ram reads a RUN; drop the training command, or run tunekit fits on it first")
        return show_machine_memory(options)
    run, profiles = _new(options, command)
    where = new_folder(options.out, f"{run.target.name}-fits")
    outside = memory_outside()
    with (
        RunFolder(where, can_resume=False) as folder,
        FitsScreen(options.json, is_quiet=options.quiet, is_full=options.full) as screen,
    ):
        screen.opened(run, folder.path)
        make_images(run, screen)
        executor = executor_for(run, folder, run.host, command)
        walk = FitsWalk(run, folder, executor, run.profile, screen)
        try:
            finished = walk.run(profiles, outside)
        except KeyboardInterrupt:
            screen.interrupted_at(walk.found, folder.path)
            raise
        screen.closed(finished, folder.path)
    if options.json:
        sys.stdout.write(to_json(finished) + "\n")
    return 0


def _new(options: argparse.Namespace, command: Sequence[str]) -> tuple[FitsRun, list[Profile]]:
    """Return what is known before the trial, and the GPUs to predict for; nothing is written yet."""
    known = load_profiles()
    host = host_here(command)
    facts = before_trials(target_or_builtin(options, command), AUTO, host, known, options.ignore)
    here: Profile = facts["profile"]
    known[here.id] = here  # which may have less memory than its kind, or no profile at all
    asked = _named(options.gpus, known, here)
    run = FitsRun(
        options=FitsOptions(
            gpus=tuple(profile.id for profile in asked),
            batch_size=options.batch_size,
            window_s=options.window or _WINDOW_S,
            trial_limit_s=options.trial_limit,
            no_progress_limit_s=options.no_progress_limit,
        ),
        **facts,
    )
    trainable = (one for one in known.values() if one.runs_current_torch or one.id == here.id)
    return run, asked or [profile for profile in trainable if profile.has_own_memory]


def _named(names: Sequence[str], known: Mapping[str, Profile], here: Profile) -> list[Profile]:
    """Return the GPUs that were asked for, each once."""
    asked = {profile.id: profile for profile in (find_profile(name, known) for name in names)}
    for profile in asked.values():
        if not profile.has_own_memory:
            raise UsageError(
                f"--gpu {profile.id}: its memory size is not known, so what fits can't be predicted; "
                "tunekit gpus lists the GPUs whose memory is known"
            )
        if not profile.runs_current_torch and profile.id != here.id:
            raise UsageError(f"--gpu {profile.id}: {NO_TORCH_BUILD}; give a newer GPU")
    return list(asked.values())
