"""What every code of a finding, an outcome, a failed trial or a verdict means. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from tunekit.diagnose.examples import examples, thresholds_of
from tunekit.diagnose.registry import CODES
from tunekit.recommend.outcome import NEXT_STEPS
from tunekit.records.data_check import DifferenceCode, Sameness
from tunekit.records.recommendation import AnswerKind, Bound, LossOutcome, OutcomeWord, RamVerdict, Settling
from tunekit.records.schema import docstrings
from tunekit.records.trial import OutcomeKind
from tunekit.report.blocks import Block, Facts, Lead, Line
from tunekit.report.text import SEVERITY_WORDS
from tunekit.trial.outcome import REMEDIES

FINDINGS = "Findings"

_VALUES: tuple[tuple[str, str, type[StrEnum], Mapping[Any, str]], ...] = (
    ("Failed trials", "failure.kind", OutcomeKind, REMEDIES),
    ("Outcomes of a search", "outcome.word", OutcomeWord, NEXT_STEPS),
    ("Reasons of an outcome", "outcome.kind", AnswerKind, {}),
    ("What would settle an open outcome", "outcome.settled_by", Settling, {}),
    ("Bottlenecks", "bottlenecks.bound", Bound, {}),
    ("Data checks", "data_check.verdict", Sameness, {}),
    ("What a config changes in the training", "data_check.differences.code", DifferenceCode, {}),
    ("Losses under another precision or compile", "loss_checks.outcome", LossOutcome, {}),
    ("The RAM buffer of a loader", "buffer_verdict", RamVerdict, {}),
)
"""The codes of everything but findings: heading, field in the JSON, enumeration and remedies."""


class Explanation(NamedTuple):
    """What a code means."""

    code: str
    where: str
    """The severity of a finding, else the field in the JSON."""
    meaning: str
    remedy: str = ""
    evidence: str = ""
    """The evidence of an example of a finding."""
    thresholds: tuple[str, ...] = ()


def explanations() -> dict[str, list[Explanation]]:
    """Return every code under its heading."""
    known = examples()
    findings = [
        Explanation(
            code,
            " or ".join(SEVERITY_WORDS[severity] for severity in one.severities),
            one.message,
            known.get(code, {}).get("do", ""),
            known.get(code, {}).get("seen", ""),
            thresholds_of(code),
        )
        for code, one in sorted(CODES.items())
    ]
    return {FINDINGS: findings} | {
        heading: [
            Explanation(value.value, field, docstrings(kind)[value.name], remedies.get(value, ""))
            for value in kind
        ]
        for heading, field, kind, remedies in _VALUES
    }


def codes_facts(codes: list[Explanation]) -> Facts:
    """Return codes with their meaning, a line each."""
    return Facts(tuple((one.code, f"{one.where}: {one.meaning}") for one in codes))


def all_codes_blocks() -> tuple[Block, ...]:
    """Return every code with its meaning, by heading."""
    return tuple(
        block
        for heading, codes in explanations().items()
        for block in (Line(heading, is_apart=True), codes_facts(codes))
    )


def code_blocks(one: Explanation) -> tuple[Block, ...]:
    """Return everything about one code."""
    thresholds = (("threshold", text) for text in one.thresholds)
    rows = (("example", one.evidence), ("remedy", one.remedy), *thresholds)
    return (Lead(f"{one.code} ({one.where}): {one.meaning}"), Facts(tuple(row for row in rows if row[1])))
