"""`tunekit fits`: what fits which GPU and how fast it would be, from one trial on this machine."""

import argparse
from collections.abc import Mapping, Sequence

from tunekit.cli.machine import host_here
from tunekit.cli.screen import TrialScreen
from tunekit.cli.trials import (
    before_trials,
    memory_outside,
    run_walk,
    target_or_builtin,
    typed_options,
)
from tunekit.errors import UsageError
from tunekit.machine.device import AUTO
from tunekit.machine.profiles import find_profile, load_profiles
from tunekit.records.profile import NO_TORCH_BUILD, Profile
from tunekit.records.run import FitsOptions, FitsRun
from tunekit.session.fits import FitsWalk
from tunekit.session.folder import RunFolder
from tunekit.trial.executor import ProcessExecutor

_OTHER_MACHINE = ("run", "ram", "cpus", "shm", "workers", "prefetch", "batch_mib")
"""Flags that show another machine's memory use and run nothing."""


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the trial, write fits.json and show what it predicts; of another machine show its memory.

    Raises:
        UsageError: flags contradict each other, or a GPU can't be predicted for.
    """
    if any(getattr(options, name) is not None for name in _OTHER_MACHINE):
        from tunekit.cli.machine_memory import show_machine_memory  # noqa: PLC0415 - with numpy

        if command:
            raise UsageError("--ram reads a RUN; drop the training command, or run tunekit fits on it first")
        return show_machine_memory(options)
    known, host = load_profiles(), host_here(command)
    facts = before_trials(target_or_builtin(options, command), AUTO, host, known, options.ignored)
    here: Profile = facts["profile"]
    known[here.id] = here  # which may have less memory than its kind, or no profile at all
    asked = _named(options.gpus, known, here)
    run = FitsRun(options=typed_options(FitsOptions, options, gpus=[one.id for one in asked]), **facts)
    trainable = [one for one in known.values() if one.runs_current_torch or one.id == here.id]
    profiles = asked or [one for one in trainable if one.has_own_memory]

    def run_in(folder: RunFolder, executor: ProcessExecutor, screen: TrialScreen) -> FitsRun:
        return FitsWalk(run, folder, executor, run.profile, screen).run(profiles, memory_outside())

    return run_walk(run, "fits", options, command, run_in)


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
