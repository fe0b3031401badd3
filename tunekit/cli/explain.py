"""`tunekit explain`: what a code of a finding, an answer or a failed trial means, and what to do."""

import argparse
from collections.abc import Sequence

from rich.console import Console

from tunekit.errors import UsageError
from tunekit.report.codes import all_codes_blocks, code_blocks, explanations
from tunekit.report.terminal import draw
from tunekit.typos import did_you_mean


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Explain the code in every sense that it has, or list all codes, and return 0.

    Raises:
        UsageError: there is no such code.
    """
    console = Console(highlight=False)
    if not options.code:
        draw(console, all_codes_blocks())
        return 0
    known = [one for several in explanations().values() for one in several]
    asked = _plain(" ".join(options.code))
    found = [one for one in known if _plain(one.code) == asked]
    if not found:
        hint = did_you_mean(asked, [_plain(one.code) for one in known], "tunekit explain lists all")
        raise UsageError(f"no code {asked!r}; {hint}")
    for one in found:
        draw(console, code_blocks(one))
    return 0


def _plain(code: str) -> str:
    """Return a code in lower case with dashes, however it was typed."""
    return "-".join(code.lower().replace("_", " ").replace("-", " ").split())
