"""`tunekit report`: redraw a finished or interrupted run, anywhere."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit.errors import UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "report",
        help="show a run again, without a GPU or torch",
        description="Show a run again from its folder: answer, tiers, multi-GPU table.",
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder that a search wrote")
    parser.add_argument("--json", action="store_true", help="print run.json instead")
    parser.set_defaults(verb=run_verb)


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Draw the run and return 0.

    Raises:
        UsageError: there is a training command, which this verb has no use for.
    """
    if command:
        raise UsageError(f"report takes no training command, got {' '.join(command)!r}")
    from rich.console import Console  # noqa: PLC0415 - slow to import; --help must be instant

    from tunekit.records.codec import to_json  # noqa: PLC0415
    from tunekit.report.terminal import draw  # noqa: PLC0415
    from tunekit.report.view import view  # noqa: PLC0415
    from tunekit.search.folder import load_run  # noqa: PLC0415

    run = load_run(options.run)
    if options.json:
        sys.stdout.write(to_json(run) + "\n")
        return 0
    draw(Console(highlight=False), view(run, str(options.run)), options.run)
    return 0
