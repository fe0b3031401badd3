"""The table of codes against the checks themselves."""

import ast
from pathlib import Path

import pytest
from build_checkups import H200, T4, checkups
from build_records import unhurried
from hypothesis import given, settings
from hypothesis import strategies as st

from tunekit.recommend import diagnose
from tunekit.recommend.diagnose.codes import CODES
from tunekit.recommend.diagnose.machine import machine_findings
from tunekit.records.checkup import Checkup
from tunekit.records.finding import Severity
from tunekit.records.profile import Profile


def severities_in_source() -> dict[str, set[Severity]]:
    """Return every code that a check gives to a finding, with the severities it names beside it."""
    found: dict[str, set[Severity]] = {}
    checks = [path for path in Path(diagnose.__path__[0]).glob("*.py") if path.stem != "loop"]
    for path in checks:  # what a run finds of its loop is no matter of the machine, nor of the doctor
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or ast.unparse(call.func) != "Finding":
                continue
            given_words = {word.arg: word.value for word in call.keywords}
            code = ast.literal_eval(given_words["code"])
            named = {
                Severity[node.attr]
                for node in ast.walk(given_words["severity"])
                if isinstance(node, ast.Attribute) and node.attr in Severity.__members__
            }
            assert named, f"{code} has a severity that can't be read from its check"
            found.setdefault(code, set()).update(named)
    return found


def test_every_code_of_a_check_is_in_the_table_and_no_other():
    assert {code: set(one.severities) for code, one in CODES.items()} == severities_in_source()


@pytest.mark.parametrize("code", CODES)
def test_a_code_says_in_one_line_what_it_means(code: str):
    one = CODES[code]
    ranks = [(Severity.ERROR, Severity.WARNING, Severity.INFO).index(severity) for severity in one.severities]
    assert ranks == sorted(set(ranks))
    assert one.summary.isprintable()
    assert not one.summary.endswith(".")


@settings(unhurried, max_examples=60)
@given(checkups(), st.sampled_from([None, H200, T4]))
def test_every_finding_is_one_of_the_table(seen: Checkup, profile: Profile | None):
    for finding in machine_findings(seen, profile):
        assert finding.severity in CODES[finding.code].severities
