"""`tunekit gpus`: what is known about every GPU that `--gpu` takes."""

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tunekit.errors import UnknownGpuError, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tunekit.records.profile import Profile


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "gpus",
        help="list the GPUs that --gpu takes, with their figures and prices",
        description="List every GPU profile, or show some with their figures, sources and machines.",
    )
    parser.add_argument(
        "name", metavar="NAME", nargs="*", help="an id, an alias or what the driver calls it; all by default"
    )
    parser.add_argument("--json", action="store_true", help="print the profiles as JSON instead")
    parser.set_defaults(verb=run_verb)


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Draw all profiles or one and return 0.

    Raises:
        UnknownGpuError: no profile has the name.
        UsageError: there is a training command, which this verb has no use for.
    """
    if command:
        raise UsageError(f"gpus takes no training command, got {' '.join(command)!r}")
    from rich.console import Console  # noqa: PLC0415 - slow to import; --help must be instant

    from tunekit.cli.machine import host_here  # noqa: PLC0415
    from tunekit.hardware.profiles import load_profile_files  # noqa: PLC0415
    from tunekit.records.codec import to_json  # noqa: PLC0415
    from tunekit.report.gpus import gpu_list, gpu_sheet  # noqa: PLC0415
    from tunekit.report.terminal import draw  # noqa: PLC0415

    files = load_profile_files()
    profiles = {profile_id: file.profile for profile_id, file in files.items()}
    chosen = _named(options.name, profiles)
    if options.json:
        several = [profile.model_dump(mode="json") for profile in chosen or profiles.values()]
        sys.stdout.write((to_json(chosen[0]) if len(chosen) == 1 else json.dumps(several, indent=2)) + "\n")
        return 0
    here = host_here(profiles=profiles).accelerators
    console = Console(highlight=False)
    if not chosen:
        draw(console, gpu_list(files.values(), here, console.width))
    for profile in chosen:
        draw(console, gpu_sheet(files[profile.id], here, console.width))
    return 0


def _named(words: Sequence[str], profiles: "Mapping[str, Profile]") -> "list[Profile]":
    """Return the profile that the words together name, or else the one that each of them names.

    Raises:
        UnknownGpuError: a name has no profile.
    """
    from tunekit.hardware.profiles import find_profile  # noqa: PLC0415

    if not words:
        return []
    try:
        return [find_profile(" ".join(words), profiles)]
    except UnknownGpuError:
        if len(words) == 1 or not _is_known(words[0], profiles):
            raise
    return list({one.id: one for one in (find_profile(word, profiles) for word in words)}.values())


def _is_known(name: str, profiles: "Mapping[str, Profile]") -> bool:
    from tunekit.hardware.profiles import find_profile  # noqa: PLC0415

    with contextlib.suppress(UnknownGpuError):
        return bool(find_profile(name, profiles))
    return False
