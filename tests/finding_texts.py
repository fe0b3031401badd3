"""What checks find as text, for golden files of all that a room's rows should say."""

from collections.abc import Iterable

from tunekit.records.finding import Finding


def text_of(finding: Finding) -> str:
    """Return all of a finding: code, severity, sentence, figures, remedy."""
    parts = {
        "seen": finding.evidence,
        "do": finding.remedy,
        "value": None if finding.value is None else f"{finding.value:.12g}",
        "gain": None if finding.gain is None else f"{finding.gain:.12g}",
    }
    lines = [f"{finding.severity} {finding.code}: {finding.message}"]
    return "\n".join([*lines, *(f"  {name}: {text}" for name, text in parts.items() if text is not None)])


def texts_of(findings: Iterable[Finding]) -> str:
    """Return the texts of findings, a blank line between them."""
    return "\n\n".join(map(text_of, findings)) + "\n"
