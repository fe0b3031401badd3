"""What checks find as text, held against a file of all that a room's rows should say."""

import os
from collections.abc import Iterable
from pathlib import Path

from tunekit.records.finding import Finding

_FOLDER = Path(__file__).parent / "diagnose" / "texts"


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


def assert_texts(findings: Iterable[Finding], name: str) -> None:
    """Hold findings against tests/diagnose/texts/NAME.txt; TUNEKIT_WRITE_TEXTS=1 writes it anew."""
    found = "\n\n".join(map(text_of, findings)) + "\n"
    file = _FOLDER / f"{name}.txt"
    if os.environ.get("TUNEKIT_WRITE_TEXTS") == "1":
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")
