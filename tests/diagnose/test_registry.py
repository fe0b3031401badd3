"""The registry: every check keeps to what its decorator says, and what is silenced is gone."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from build_comparisons import compared, searched
from hypothesis import given
from hypothesis import strategies as st

from tunekit.diagnose.registry import (
    CODES,
    INFO,
    WARNING,
    Hit,
    check,
    findings_of,
    worst,
    worst_first,
)
from tunekit.records.finding import WORST_FIRST, Finding, Severity, without_findings


@dataclass(frozen=True)
class Kettle:
    """Something to look at."""

    name: str
    heat_c: float


@pytest.fixture
def kettles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunekit.diagnose.registry.CODES", {})
    monkeypatch.setattr("tunekit.diagnose.registry._CHECKS", {})

    @check("kettle-hot", (WARNING, INFO), "{} is hot")
    def hot(one: Kettle) -> Iterator[Hit]:
        if one.heat_c > 90:
            yield Hit(f"{one.heat_c} C", "wait", one.heat_c)
        elif one.heat_c > 60:
            yield Hit(None, None, severity=INFO)


@pytest.mark.usefixtures("kettles")
def test_a_decorated_function_is_all_that_a_finding_takes():
    assert findings_of(Kettle("the red one", 95), Kettle("a", 70), Kettle("b", 20)) == [
        Finding(
            code="kettle-hot",
            severity=WARNING,
            message="the red one is hot",
            evidence="95 C",
            remedy="wait",
            value=95,
        ),
        Finding(code="kettle-hot", severity=INFO, message="a is hot"),
    ]


@pytest.mark.parametrize("code", CODES)
def test_a_code_says_in_one_line_what_it_means(code: str):
    one = CODES[code]
    ranks = [WORST_FIRST.index(severity) for severity in one.severities]
    assert ranks == sorted(set(ranks))
    assert one.message.isprintable()
    assert one.message
    assert not one.message.endswith(".")
    assert "{}" not in one.message


@given(st.lists(st.sampled_from(Severity), max_size=6))
def test_the_worst_is_the_highest_severity(severities: list[Severity]):
    found = tuple(Finding(code="some", severity=severity, message="some") for severity in severities)
    assert worst(found) == min(severities, key=WORST_FIRST.index, default=None)
    assert worst(found) == next((one.severity for one in worst_first(found)), None)


def test_what_is_silenced_is_gone_wherever_a_record_holds_it():
    one = searched()
    whole = compared(one, one)
    shown = without_findings(whole, ["same-run"])
    assert [finding.code for finding in whole.against[0].findings] == ["same-run"]
    assert shown.against[0].findings == ()
    assert without_findings(whole, []) is whole
    found = Finding(code="busy-cpus", severity=WARNING, message="some")
    run = one.model_copy(update={"machine_findings": (found,), "findings": (found,)})
    quiet = without_findings(run, {"busy-cpus"})
    assert (quiet.machine_findings, quiet.findings) == ((), ())
    assert quiet.trials == run.trials
