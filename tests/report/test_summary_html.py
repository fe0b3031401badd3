"""The answer as a piece of HTML: the view's texts, escaped, and nothing that runs."""

import html
import re

from build_reports import full_run, hostile_run
from build_searched import walked
from read_report import view

from tunekit.report.summary_html import summary_html


def test_it_has_answer_changes_tiers_and_findings():
    shown = view(full_run(), "reports/train")
    text = html.unescape(re.sub(r"<[^>]+>", "\n", summary_html(full_run())))
    told = [shown.answer, shown.headroom, shown.price, *shown.changes, *shown.missing_tiers]
    told += [cell for row in shown.short_tiers.rows for cell in row]
    told += [line for one in shown.findings for line in (one.heading, *one.details)]
    for one in told:
        assert one in text


def test_it_is_a_piece_of_a_page_without_scripts_and_links():
    text = summary_html(walked())
    assert text.startswith("<div>")
    assert text.endswith("</div>")
    own = {"div", "p", "strong", "ul", "li", "code", "small", "br"}
    own |= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert set(re.findall(r"</?(\w+)", text)) <= own
    for tag in own - {"br"}:
        assert len(re.findall(rf"<{tag}\b", text)) == text.count(f"</{tag}>")


def test_hostile_texts_are_texts():
    text = summary_html(hostile_run())
    assert "&lt;/script&gt;&lt;img src=x" in text
    assert "<img" not in text
    assert "<script" not in text
