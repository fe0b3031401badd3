"""`tunekit report`: redraw a finished or interrupted run, anywhere."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit.errors import RunFolderError, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "report",
        help="show a run again, without a GPU or torch",
        description="Show a run or a loop profile again from its folder, as it was shown at its end.",
    )
    parser.add_argument(
        "run", metavar="RUN", type=Path, help="the folder that a search or tunekit profile wrote"
    )
    parser.add_argument("--json", action="store_true", help="print run.json (or profile.json) instead")
    parser.set_defaults(verb=run_verb)


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Draw the run and return 0.

    Raises:
        UsageError: there is a training command, which this verb has no use for.
        RunFolderError: there is nothing to show.
    """
    if command:
        raise UsageError(f"report takes no training command, got {' '.join(command)!r}")
    from rich.console import Console  # noqa: PLC0415 - slow to import; --help must be instant

    from tunekit.records.codec import to_json  # noqa: PLC0415
    from tunekit.report.terminal import draw  # noqa: PLC0415
    from tunekit.report.view import view  # noqa: PLC0415
    from tunekit.search.folder import PROFILE_FILE, RUN_FILE, holds_profile, load_run  # noqa: PLC0415

    given: Path = options.run
    if not (given.is_file() or (given / RUN_FILE).exists() or (given / PROFILE_FILE).exists()):
        raise RunFolderError(
            f"no run and no loop profile in {given}: {RUN_FILE} and {PROFILE_FILE} are missing; "
            "give the folder that a search or tunekit profile wrote"
        )
    if holds_profile(options.run):
        return _show_profile(options)
    run = load_run(options.run)
    if options.json:
        sys.stdout.write(to_json(run) + "\n")
        return 0
    draw(Console(highlight=False), view(run, str(options.run)), options.run)
    return 0


def _show_profile(options: argparse.Namespace) -> int:
    """Draw a loop profile and return 0."""
    from rich.console import Console  # noqa: PLC0415

    from tunekit.records.codec import to_json  # noqa: PLC0415
    from tunekit.report.loop_profile import loop_profile_view  # noqa: PLC0415
    from tunekit.report.terminal import draw_loop_profile  # noqa: PLC0415
    from tunekit.search.folder import load_profile_run  # noqa: PLC0415

    profile = load_profile_run(options.run)
    if options.json:
        sys.stdout.write(to_json(profile) + "\n")
        return 0
    console = Console(highlight=False)
    folder = options.run.parent if options.run.is_file() else options.run
    draw_loop_profile(console, loop_profile_view(profile, str(folder), console.width))
    return 0
