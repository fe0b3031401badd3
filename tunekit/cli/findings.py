"""`--ignore CODE` and `--codes`, which every verb has that shows findings."""

import argparse
from collections.abc import Sequence
from typing import Any

from tunekit.errors import UsageError
from tunekit.near import did_you_mean


def add_findings(group: argparse._ActionsContainer) -> None:
    """Add both flags."""
    group.add_argument(
        "--ignore",
        metavar="CODE",
        type=_code,
        action="append",
        default=[],
        help="silence a finding (repeatable)",
    )
    group.add_argument("--codes", action=_ListCodes, help="list every code of a finding, and nothing else")


class _ListCodes(argparse.Action):
    """Lists the codes and ends the program, as `--help` does."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print them."""
        from rich.console import Console  # noqa: PLC0415 - slow to import; --help must be instant

        from tunekit.report.doctor import draw_codes  # noqa: PLC0415

        draw_codes(Console(highlight=False))
        parser.exit()


def _code(text: str) -> str:
    """Return the code of a finding.

    Raises:
        UsageError: no finding has it.
    """
    from tunekit.diagnose.registry import CODES  # noqa: PLC0415 - slow to import; --help must be instant

    if text not in CODES:
        hint = did_you_mean(text, CODES, f"known: {', '.join(sorted(CODES))}")
        raise UsageError(f"--ignore {text}: no finding has this code; {hint}")
    return text
