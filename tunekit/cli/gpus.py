"""`tunekit gpus`: what is known about every GPU that `--gpu` takes."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tunekit.errors import UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "gpus",
        help="list the GPUs that --gpu takes, with their figures and prices",
        description="List every GPU profile, or show one with its figures, sources and machines.",
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
    from tunekit.hardware.profiles import find_profile, load_profile_files  # noqa: PLC0415
    from tunekit.records.codec import to_json  # noqa: PLC0415
    from tunekit.report.gpus import gpu_list, gpu_sheet  # noqa: PLC0415
    from tunekit.report.terminal import draw_parts  # noqa: PLC0415

    files = load_profile_files()
    profiles = {profile_id: file.profile for profile_id, file in files.items()}
    chosen = find_profile(" ".join(options.name), profiles) if options.name else None
    if options.json:
        every = [profile.model_dump(mode="json") for profile in profiles.values()]
        sys.stdout.write((json.dumps(every, indent=2) if chosen is None else to_json(chosen)) + "\n")
        return 0
    here = host_here(profiles=profiles).accelerators
    console = Console(highlight=False)
    if chosen is None:
        parts = gpu_list(files.values(), here, console.width)
    else:
        parts = gpu_sheet(files[chosen.id], here, console.width)
    draw_parts(console, parts)
    return 0
