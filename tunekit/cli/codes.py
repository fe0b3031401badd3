"""Codes of findings, which `--codes` lists and `--ignore` takes."""

from rich.console import Console

from tunekit.diagnose.registry import CODES
from tunekit.errors import UsageError
from tunekit.report.codes import FINDINGS, codes_facts, explanations
from tunekit.report.terminal import draw
from tunekit.typos import did_you_mean


def show_codes() -> None:
    """Print every code of a finding with its severities and its meaning."""
    draw(Console(highlight=False), (codes_facts(explanations()[FINDINGS]),))


def known_code(text: str) -> str:
    """Return the code of a finding.

    Raises:
        UsageError: no finding has it.
    """
    if text not in CODES:
        hint = did_you_mean(text, CODES, f"known: {', '.join(sorted(CODES))}")
        raise UsageError(f"--ignore {text}: no finding has this code; {hint}")
    return text
