"""`tunekit explain`: every code, in the words that its source and the docs have."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tunekit.cli.main import main
from tunekit.diagnose.registry import CODES
from tunekit.predict.ram import OOM_SHARE, SAFE_BUFFER_SHARE
from tunekit.recommend.noise import MIN_GAIN
from tunekit.recommend.outcome import LARGE_FACTOR
from tunekit.records.trial import OutcomeKind
from tunekit.report.blocks import Report, Table
from tunekit.report.codes import FINDINGS, explanations
from tunekit.report.markdown import markdown

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_every_code_is_explained(capsys: pytest.CaptureFixture[str]):
    known = [one for several in explanations().values() for one in several]
    for code in {one.code for one in known}:
        assert main(["explain", code]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        for one in known:
            if one.code == code:
                assert f"{code} ({one.where}): {one.meaning}" in shown
                assert one.remedy in shown


def test_what_is_known_of_a_code(golden: Callable[[str], object], capsys: pytest.CaptureFixture[str]):
    for words in (["data-bound"], ["device_oom"], ["no", "gain"], ["Host-Oom"], ["unclear"]):
        assert main(["explain", *words]) == 0
    assert capsys.readouterr().out == golden("explain.txt")


def test_every_failed_trial_has_a_remedy_and_a_finding_an_example_of_its_figures():
    told = explanations()
    assert {one.code for one in told["Failed trials"] if one.remedy} == set(OutcomeKind)
    assert {one.code for one in told[FINDINGS] if one.evidence} == set(CODES)


def test_the_fields_that_hold_a_code_are_those_of_the_json():
    fields = re.findall(r"\.(\w+):", (Path(__file__).parent / "golden" / "json.txt").read_text())
    told = explanations()
    del told[FINDINGS]
    assert {part for several in told.values() for part in several[0].where.split(".")} <= set(fields)


def test_thresholds_come_with_their_value_and_their_reason():
    (busy,) = (one for one in explanations()[FINDINGS] if one.code == "busy-cpus")
    assert busy.thresholds[0] == "BUSY_SHARE = 50%"
    assert busy.thresholds[1].startswith("BUSY_LOAD = 1.5. Load average; ")


def test_meanings_give_the_limits_that_decide():
    meanings = {one.code: one.meaning for several in explanations().values() for one in several}
    assert f"{SAFE_BUFFER_SHARE:.0%}" in meanings["Safe"]
    assert f"{OOM_SHARE:.0%}" in meanings["OOM"]
    assert f"{MIN_GAIN:.0%}" in meanings["No gain"]
    assert f"{LARGE_FACTOR}x" in meanings["Not all tried"]


def test_without_a_code_all_are_listed_by_kind(capsys: pytest.CaptureFixture[str]):
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert set(explanations()) <= set(lines)
    codes = {one.code for several in explanations().values() for one in several}
    assert codes <= {line.split("  ")[0] for line in lines}


def codes_report() -> Report:
    """Every code, as a page of tables."""
    tables = []
    for heading, codes in explanations().items():
        where = "severity" if heading == FINDINGS else "field"
        columns = ("code", where, "meaning", "remedy", "example")
        width = 5 if heading == FINDINGS else 4 if any(one.remedy for one in codes) else 3
        tables.append(Table(heading, columns[:width], tuple(tuple(map(str, one[:width])) for one in codes)))
    return Report("Codes", tuple(tables))


def test_the_docs_say_the_same(request: pytest.FixtureRequest):
    """`--update-golden` writes docs/codes.md."""
    page, made = DOCS / "codes.md", markdown(codes_report()).replace("\\`", "`")
    if request.config.getoption("--update-golden"):
        page.write_text(made, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == made
    numbers = (DOCS / "what-the-numbers-mean.md").read_text(encoding="utf-8")
    for one in explanations()["Outcomes of a search"]:
        assert f"| {one.code} | {one.meaning} | {one.remedy} |" in numbers
