"""The answer as a piece of HTML: the view's texts, escaped, and nothing that runs."""

from build_reports import hostile_run

from tunekit.report.summary_html import summary_html


def test_hostile_texts_are_texts():
    text = summary_html(hostile_run())
    assert "&lt;/script&gt;&lt;img src=x" in text
    assert "<img" not in text
    assert "<script" not in text
