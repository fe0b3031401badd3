"""Every report in every medium: what its blocks say stands on the terminal, in Markdown and on the page."""

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from build_calibrations import calibration
from build_checkups import checkup, loader_plan, storage_of
from build_comparisons import compared, searched, slower
from build_data import data_report
from build_fits import fit, fits_run
from build_loop_profiles import profiled
from build_recordings import recording
from build_reports import full_milestones, full_plan, full_run
from build_scaling import scaled
from read_report import drawn

from tunekit.cli.report_files import drawn_run
from tunekit.records.base import with_texts
from tunekit.records.run import Run
from tunekit.report.blocks import Chart, Drawing, FoundBlock, Note, Report, Section, TrialTable
from tunekit.report.comparison import comparison_report
from tunekit.report.data import data_report as data_view
from tunekit.report.doctor import calibration_blocks, doctor_report
from tunekit.report.fits import fits_report
from tunekit.report.html.page import page
from tunekit.report.loop_profile import profile_report
from tunekit.report.markdown import MAX_LINES, markdown
from tunekit.report.plan import milestones_report, plan_report
from tunekit.report.recording import recording_report
from tunekit.report.run import in_comment, on_page
from tunekit.report.scale import scaling_report
from tunekit.session.folder import load_run

EXAMPLE = Path(__file__).parents[2] / "reports" / "example-images"
RECORDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Report]]] = {
    "doctor": (lambda: checkup(loader=loader_plan(), storage=storage_of()), doctor_report),
    "calibration": (calibration, lambda one: Report("x", calibration_blocks(one, "/x.json"))),
    "plan": (full_plan, plan_report),
    "milestones": (full_milestones, milestones_report),
    "fits": (lambda: fits_run((fit("t4", 14.6, (10, 12, 14)),)), fits_report),
    "profile": (profiled, profile_report),
    "recording": (recording, lambda seen: recording_report(seen, "reports/train")),
    "data": (data_report, lambda seen: data_view(seen, "my data")),
    "scaling": (scaled, scaling_report),
    "comparison": (lambda: compared(searched(), slower(0.25)), comparison_report),
    "comparisons": (lambda: compared(searched(), slower(0.25), slower(-0.2)), comparison_report),
    "run": (full_run, lambda run: in_comment(run, full_plan())),
}
"""A record of each kind, and its report."""


def said(report: Report) -> Iterator[str]:
    """Every text of a report's blocks that every medium shows."""
    for block in report.blocks:
        match block:
            case Section() | Chart() | TrialTable():
                continue
            case FoundBlock():
                yield from (block.heading, *block.details)
            case Note():
                yield block.line
            case _:
                yield getattr(block, "text", "")
                yield from getattr(block, "lines", ())
                for row in getattr(block, "rows", ()):
                    yield from row


def of_markdown(text: str) -> str:
    plain = re.sub(r"&#8203;|</?(?:span|sub|br)>|\*\*", " ", text)
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", plain)


def of_page(text: str) -> str:
    """What a page says, without the size of its raw data."""
    body = re.sub(
        r"<(script|style|svg|head)\b.*?</\1>", " ", text.partition('<section id="raw"')[0], flags=re.DOTALL
    )
    return html.unescape(re.sub(r"<[^>]+>", " ", body))


def outside_code(text: str) -> str:
    return re.sub(r"(?s)```.*?```", "", text)


def letters(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.fixture(params=RECORDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def report_at(kind: str, change: Callable[[str], str] | None = None) -> Report:
    record, report_of = RECORDS[kind]
    return report_of(with_texts(record(), change) if change else record())


@pytest.mark.parametrize("medium", ["terminal", "markdown", "page"])
def test_what_a_report_says_stands_in_every_medium(kind: str, medium: str):
    report = report_at(kind)
    texts = {
        "terminal": lambda: drawn(report.blocks, 10_000),
        "markdown": lambda: of_markdown(markdown(report)),
        "page": lambda: of_page(page(report)),
    }
    text = letters(texts[medium]())
    assert [one for one in said(report) if letters(one) not in text] == []


def test_a_page_without_charts_is_small(kind: str):
    report = report_at(kind)
    assert len(page(report, b"{}")) < 100_000 or any(isinstance(one, Drawing) for one in report.blocks)


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_nor_ends_in_spaces(kind: str, width: int):
    for line in drawn(report_at(kind).blocks, width).splitlines():
        assert line == line.rstrip()
        assert len(line) <= width or kind == "run"


@pytest.mark.parametrize("kind", sorted(RECORDS.keys() - {"calibration"}))
def test_hostile_texts_are_text_in_every_medium(kind: str):
    hostile = report_at(kind, change=lambda text: f"{text[:3]}[red]<b>\x1b[2J@me\n{text[3:]}")
    terminal, page_text, comment = drawn(hostile.blocks, 200), page(hostile), outside_code(markdown(hostile))
    assert r"[red]<b>\x1b[2J@me\n" in terminal and "\x1b" not in terminal
    assert "&lt;b&gt;" in page_text and "<b>" not in page_text and "\x1b" not in page_text
    assert r"\[red\]\<b>" in comment and "@me" not in comment and "\x1b" not in comment


# --- the example that is committed -----------------------------------------------------------


def figures(text: str) -> set[str]:
    """Every number of a text, with what stands right before and after it."""
    return set(re.findall(r"[^\s;,()]*\d[^\s;()]*", text))


@pytest.fixture(scope="module")
def example() -> Run:
    return load_run(EXAMPLE)


def test_the_examples_page_has_every_figure_that_it_had(example: Run):
    before = (EXAMPLE / "report.html").read_text()
    after = drawn_run(example, Path("reports/example-images")).html()
    assert figures(of_page(before)) - figures(of_page(after)) == set()


def test_the_examples_markdown_has_every_figure_that_it_had(example: Run):
    text = drawn_run(example, Path("reports/example-images")).markdown()
    assert figures(of_markdown((EXAMPLE / "report.md").read_text())) - figures(of_markdown(text)) == set()
    assert len(text.splitlines()) <= MAX_LINES


def test_the_example_on_a_terminal(example: Run, golden: Callable[[str], object]):
    assert drawn(on_page(example, "reports/example-images").blocks, 80) == golden("example-images.txt")
