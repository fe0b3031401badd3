"""Any text as GitHub's Markdown, held against a parser: it reads as the text and is nothing else."""

import html
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tunekit.plain_text import printable
from tunekit.report.markdown import as_code, as_text, clipped, code_block

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

nasty = st.text(alphabet="`|<>@#[]()!*_~$:&;\\/\n -+=.1aw", max_size=30) | st.text(max_size=20)


def rendered(markdown: str) -> str:
    return PARSER.render(markdown)


def tags_in(page: str) -> set[str]:
    return set(re.findall(r"</?([a-z][a-z0-9]*)", page))


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page)).replace("\u200b", "").strip()


@given(nasty)
@example("- [x] done")
@example("1. first")
@example("# not a heading")
@example("__init__ and a_name_ and _b")
@example("a\\|b")
@example("![x](http://y)")
@example("<script>alert(1)</script>")
@example("&lt;b&gt;")
@example("---")
@example("closed ##")
def test_a_text_reads_as_itself_wherever_it_stands(text: str):
    plain = printable(text).strip()
    marked = as_text(text)
    assert "\n" not in marked
    for markdown, around in (
        (f"- {marked}", {"ul", "li"}),
        (f"## {marked}", {"h2"}),
        (f"| |\n| --- |\n| {marked} |", {"table", "thead", "tbody", "tr", "th", "td"}),
    ):
        page = rendered(markdown)
        assert tags_in(page) <= around | {"span"}
        assert text_of(page) == plain


@given(nasty)
@example("@octocat, octo@example.com")
@example("see #123 and GH-45")
@example("https://example.com and www.example.com")
@example(":tada: :+1:")
@example("$a$ and $5 or $6")
def test_nothing_that_github_looks_for_is_left(text: str):
    page = html.unescape(rendered(f"- {as_text(text)}"))
    shown = re.sub(r"</?(?:ul|li)>", "", page)
    for found in (r"@\w", r"#\d", r"(?i)\bgh-\d", r"://", r"(?i)\bwww\.", r":[\w+-]+:"):
        assert not re.search(found, shown)
    assert shown.replace("<span>$</span>", "").count("$") <= 1


@pytest.mark.parametrize(
    "text",
    ["Balanced is 1.96x (1.86 to 2.06)", "batch_size: 128 -> 512", "35% of 23.5 GiB", "-1.5", "$12.50"],
)
def test_figures_and_names_stay_as_they_are(text: str):
    assert as_text(text).removeprefix("\\") == text


@given(nasty)
def test_code_is_shown_letter_by_letter(text: str):
    page = rendered(f"x {as_code(text)}")
    assert tags_in(page) == {"p", "code"}
    assert html.unescape(re.findall("<code>(.*)</code>", page)[0]).strip() == printable(text).strip()


@given(st.lists(nasty, max_size=4))
@example(["```", "````sh", "`````"])
@example(["~~~"])
def test_a_block_of_code_ends_where_it_should(lines: list[str]):
    page = rendered("\n".join([*code_block(lines, "sh"), "", "after"]))
    assert tags_in(page) == {"pre", "code", "p"}
    assert page.endswith("<p>after</p>\n")
    inside = page[page.index(">", page.index("<code")) + 1 : page.index("</code>")]
    assert html.unescape(inside).splitlines() == [printable(line) for line in lines]


def test_a_long_text_is_cut_and_says_by_how_much():
    assert clipped("short", 10) == "short"
    assert clipped("x" * 1000, 100) == "x" * 100 + " ... (900 letters more)"
    cut = clipped("@a" * 1000, 100)
    kept = cut.partition(" ...")[0].count("@")
    assert len(cut) < 150
    assert cut.endswith(f"({2000 - 2 * kept:,} letters more)")
