"""Findings in lines: what is the matter, the figures that show it, what to do, what it could bring. Pure."""

from dataclasses import dataclass

from tunekit.plain_text import printable
from tunekit.records.finding import Finding, Severity
from tunekit.report.text import SEVERITY_WORDS, factor_text


@dataclass(frozen=True)
class FindingView:
    """One finding, in lines."""

    severity: Severity
    heading: str
    """Severity, code and message."""
    details: tuple[str, ...]
    """Evidence, remedy, gain."""
    remedy: str
    """What to do, as it stands in the details; empty where nothing is known."""


def finding_view(finding: Finding) -> FindingView:
    """Return a finding as it is shown."""
    details = [
        f"{label}: {text}"
        for label, text in (("seen", finding.evidence), ("do", finding.remedy), ("gain", gain_text(finding)))
        if text
    ]
    heading = f"{SEVERITY_WORDS[finding.severity]} {finding.code}: {finding.message}"
    return FindingView(
        severity=finding.severity,
        heading=printable(heading),
        details=tuple(printable(line) for line in details),
        remedy=printable(f"do: {finding.remedy}") if finding.remedy else "",
    )


def gain_text(finding: Finding) -> str | None:
    """Return what mending a finding could bring, None where that is nothing or unknown."""
    if finding.gain is None or finding.gain < 1.005:
        return None
    return f"at most {factor_text(finding.gain)} (predicted)"
