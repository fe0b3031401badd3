"""The tables of codes against the checks themselves."""

import ast
from pathlib import Path

import pytest
from build_checkups import H200, T4, checkups
from build_records import unhurried
from hypothesis import given, settings
from hypothesis import strategies as st

from tunekit.recommend import diagnose
from tunekit.recommend.diagnose import loop
from tunekit.recommend.diagnose.codes import CODES, Code
from tunekit.recommend.diagnose.loop.codes import LOOP_CODES
from tunekit.recommend.diagnose.machine import machine_findings
from tunekit.records.checkup import Checkup
from tunekit.records.finding import Severity
from tunekit.records.profile import Profile


def severities_in_source(folder: str) -> dict[str, set[Severity]]:
    """Return every code that a folder's checks give to a finding, with the severities named beside it."""
    found: dict[str, set[Severity]] = {}
    for path in Path(folder).glob("*.py"):
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


@pytest.mark.parametrize(
    ("table", "folder"),
    [(CODES, diagnose.__path__[0]), (LOOP_CODES, loop.__path__[0])],
    ids=["machine", "loop"],
)
def test_every_code_of_a_check_is_in_its_table_and_no_other(table: dict[str, Code], folder: str):
    assert {code: set(one.severities) for code, one in table.items()} == severities_in_source(folder)


def test_a_code_is_the_machines_or_the_loops():
    assert not set(CODES) & set(LOOP_CODES)


@pytest.mark.parametrize("code", [*CODES, *LOOP_CODES])
def test_a_code_says_in_one_line_what_it_means(code: str):
    one = (CODES | LOOP_CODES)[code]
    ranks = [(Severity.ERROR, Severity.WARNING, Severity.INFO).index(severity) for severity in one.severities]
    assert ranks == sorted(set(ranks))
    assert one.summary.isprintable()
    assert not one.summary.endswith(".")


@settings(unhurried, max_examples=60)
@given(checkups(), st.sampled_from([None, H200, T4]))
def test_every_finding_is_one_of_the_table(seen: Checkup, profile: Profile | None):
    for finding in machine_findings(seen, profile):
        assert finding.severity in CODES[finding.code].severities
