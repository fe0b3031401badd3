"""The answer as a piece of HTML: the view's texts, escaped, and nothing that runs."""

import re

from build_reports import hostile_run
from build_searched import walked

from tunekit.report.summary_html import summary_html


def test_it_is_a_piece_of_a_page_without_scripts_and_links():
    text = summary_html(walked())
    assert text.startswith("<div>")
    assert text.endswith("</div>")
    assert not set(re.findall(r"</?(\w+)", text)) & {"script", "style", "a", "img", "iframe", "link"}


def test_hostile_texts_are_texts():
    text = summary_html(hostile_run())
    assert "&lt;/script&gt;&lt;img src=x" in text
    assert "<img" not in text
    assert "<script" not in text
