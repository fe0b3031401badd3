"""What every code means: of findings, of answers, of failed trials, of verdicts. Pure."""

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
from tunekit.report.blocks import Block, Facts, Lead, Line, Report, Table
from tunekit.report.text import SEVERITY_WORDS
from tunekit.trial.outcome import REMEDIES

FINDINGS = "Findings"

_VALUES: tuple[tuple[str, str, type[StrEnum], Mapping[Any, str]], ...] = (
    ("Failed trials", "failure.kind", OutcomeKind, REMEDIES),
    ("Answers of a search", "outcome.word", OutcomeWord, NEXT_STEPS),
    ("How an answer came about", "outcome.kind", AnswerKind, {}),
    ("What would settle an open answer", "outcome.settled_by", Settling, {}),
    ("Bottlenecks", "bottlenecks.bound", Bound, {}),
    ("Data checks", "data_check.verdict", Sameness, {}),
    ("What a config changes in the training", "data_check.differences.code", DifferenceCode, {}),
    ("Losses under another precision or compile", "loss_checks.outcome", LossOutcome, {}),
    ("The RAM buffer of a loader", "buffer_verdict", RamVerdict, {}),
)
"""Other codes than those of findings: their heading, where JSON has them, and what to do."""


class Explanation(NamedTuple):
    """What a code means."""

    code: str
    where: str
    """The severity of a finding, else the field that holds the code."""
    meaning: str
    do: str = ""
    seen: str = ""
    """The figures of an example."""
    thresholds: tuple[str, ...] = ()


def explanations() -> dict[str, list[Explanation]]:
    """Return every code under its heading."""
    told = examples()
    findings = [
        Explanation(
            code,
            " or ".join(SEVERITY_WORDS[severity] for severity in one.severities),
            one.message,
            told.get(code, {}).get("do", ""),
            told.get(code, {}).get("seen", ""),
            thresholds_of(code),
        )
        for code, one in sorted(CODES.items())
    ]
    return {FINDINGS: findings} | {
        heading: [
            Explanation(value.value, where, docstrings(kind)[value.name], do.get(value, "")) for value in kind
        ]
        for heading, where, kind, do in _VALUES
    }


def codes_facts(of: list[Explanation]) -> Facts:
    """Return codes with their meaning, a line each."""
    return Facts(tuple((one.code, f"{one.where}: {one.meaning}") for one in of))


def all_blocks() -> tuple[Block, ...]:
    """Return every code with its meaning, by heading."""
    return tuple(
        block
        for heading, of in explanations().items()
        for block in (Line(heading, is_apart=True), codes_facts(of))
    )


def one_blocks(of: Explanation) -> tuple[Block, ...]:
    """Return all that is known of a code."""
    rows = (("example", of.seen), ("do", of.do), *(("threshold", text) for text in of.thresholds))
    return (Lead(f"{of.code} ({of.where}): {of.meaning}"), Facts(tuple(row for row in rows if row[1])))


def codes_report() -> Report:
    """Return every code as a page of tables."""
    columns = ("code", "of", "meaning", "do", "in this example")
    tables = []
    for heading, of in explanations().items():
        width = 5 if heading == FINDINGS else 4 if any(one.do for one in of) else 3
        tables.append(Table(heading, columns[:width], tuple(tuple(map(str, one[:width])) for one in of)))
    return Report("Codes", tuple(tables))
