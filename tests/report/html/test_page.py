"""The page as text: one file, a policy that allows just its own parts, every part in its order."""

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from build_records import run
from build_reports import HOSTILE, full_plan, full_run, hostile_run
from read_report import view

from tunekit.records.run import Run
from tunekit.report.charts import chart_table
from tunekit.report.html.page import escaped_json, page, plotly_script, plotly_styles, script_json
from tunekit.report.run import on_page

RAW = b'{"raw": "\xc3\xa9"}'


def html_of(of: Run, plan=None, raw: bytes = RAW) -> str:
    return page(on_page(of, plan=plan), raw)


class Parsed(HTMLParser):
    """Every tag with its attributes, the texts of scripts and styles, and all other text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.carried: list[tuple[str, dict[str, str | None], str]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.tags[-1] if self.tags else ("", {})
        if self.cdata_elem:
            self.carried.append((tag, attributes, data))
        else:
            self.words.append(data)

    def carried_by(self, id: str) -> str:  # noqa: A002 - the attribute's own name
        return "".join(text for _, attributes, text in self.carried if attributes.get("id") == id)

    def ids(self) -> list[str]:
        return [attributes["id"] or "" for _, attributes in self.tags if "id" in attributes]


@pytest.fixture(scope="module")
def full() -> Parsed:
    return Parsed(html_of(full_run(), full_plan()))


def test_nothing_is_fetched(full: Parsed):
    fetching = {"src", "srcset", "poster", "data", "action", "formaction", "background"}
    given = [(tag, name) for tag, attributes in full.tags for name in fetching & attributes.keys()]
    links = [attributes.get("href") or "" for _, attributes in full.tags if "href" in attributes]
    assert given == []
    assert links and all(link.startswith("#") for link in links)
    assert not any(tag in {"link", "base", "iframe", "object", "img"} for tag, _ in full.tags)


def test_the_policy_allows_the_pages_own_scripts_and_styles_by_their_hashes_alone(full: Parsed):
    (policy,) = [a["content"] for tag, a in full.tags if tag == "meta" and a.get("http-equiv")]
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    assert rules["default-src"] == ["'none'"]
    assert "unsafe" not in policy and "http" not in policy
    own = "".join(text for tag, attributes, text in full.carried if tag == "script" and not attributes)
    assert rules["script-src"] == [digest(plotly_script()), digest(own)]
    style = "".join(text for tag, attributes, text in full.carried if tag == "style" and not attributes)
    assert rules["style-src"] == [digest(style), digest("")]


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_no_element_has_a_style_or_a_handler_of_its_own(full: Parsed):
    names = {name for _, attributes in full.tags for name in attributes}
    assert "style" not in {name for tag, a in full.tags if tag != "style" for name in a}
    assert not [name for name in names if name.startswith("on")]


def test_plotly_is_in_the_page_once_as_it_is_installed(full: Parsed):
    packed = full.carried_by("plotly-packed")
    assert gzip.decompress(base64.b64decode(packed)).decode() == plotly_script()
    assert set(plotly_styles()) <= set(full.ids())


def test_the_raw_data_come_back_byte_for_byte(full: Parsed):
    assert gzip.decompress(base64.b64decode(full.carried_by("raw-packed"))) == RAW


def test_raw_data_that_would_make_the_page_too_large_stay_beside_it():
    noise = hashlib.shake_256(b"run").digest(4_500_000)
    html = html_of(run(), raw=noise)
    assert len(html.encode()) < 6_000_000
    assert Parsed(html).carried_by("raw-packed") == ""
    assert "lies beside it in the run&#39;s folder" in html or "lies beside it in the run's folder" in html


def test_parts_stand_in_their_order_and_the_contents_lead_to_each(full: Parsed):
    parts = [a["id"] for tag, a in full.tags if tag == "section"]
    expected = "answer tiers time telemetry throughput memory trials history gpus plan findings"
    assert parts == [*expected.split(), "failures", "environment", "raw"]
    links = [a["href"] for tag, a in full.tags if tag == "a" and a["href"] in {f"#{one}" for one in parts}]
    assert links[: len(parts)] == [f"#{part}" for part in parts]


def test_no_id_is_given_twice(full: Parsed):
    assert len(full.ids()) == len(set(full.ids()))


def test_parts_without_content_are_left_out():
    sparse = Parsed(html_of(run(trials=())))
    parts = {a["id"] for tag, a in sparse.tags if tag == "section"}
    assert parts.isdisjoint(
        {"time", "telemetry", "throughput", "memory", "trials", "gpus", "plan", "findings"}
    )
    assert {"answer", "environment", "raw"} <= parts


def test_every_chart_has_its_words_and_its_figures_in_a_table(full: Parsed):
    shown = view(full_run())
    drawn = [a for _, a in full.tags if "data-chart" in a]
    assert {a["data-chart"] for a in drawn} == {chart.id for chart in shown.charts}
    summaries = {chart.id: chart.summary for chart in shown.charts}
    assert all(summaries[a["data-chart"] or ""] in (a["aria-label"] or "") for a in drawn)
    words = " ".join(" ".join(full.words).split())
    assert all(" ".join(chart.summary.split()) in words for chart in shown.charts)
    assert sum(tag == "figure" for tag, _ in full.tags) == len(shown.charts)
    for chart in shown.charts:
        for row in chart_table(chart).rows:
            assert all(" ".join(cell.split()) in words for cell in row)


def test_a_charts_title_is_left_out_where_the_heading_says_it_and_is_read_out_all_the_same():
    html = html_of(full_run(), full_plan())
    charts = view(full_run()).charts
    titled = set(re.findall(r'<figure id="chart-(\w+)">\s*<h3>', html))
    assert titled == {chart.id for chart in charts} - {"time_breakdown", "throughput", "history"}
    labels = [a["aria-label"] or "" for _, a in Parsed(html).tags if "data-chart" in a]
    assert all(any(one.startswith(f"{chart.title}. ") for one in labels) for chart in charts)


def test_the_config_and_the_command_are_there_to_be_copied():
    yaml = "batch_size: 256\nlr: 0.2"
    report = on_page(full_run(), "reports/x", configs=(("conservative", "batch_size: 1"), ("balanced", yaml)))
    parsed = Parsed(page(report))
    copied = [a["data-copies"] for _, a in parsed.tags if "data-copies" in a]
    texts = re.findall(r'<pre id="([^"]+)" tabindex="0"><code>(.*?)</code>', page(report), re.DOTALL)
    assert [name for name, _ in texts] == copied
    assert yaml in [text for _, text in texts] and "batch_size: 1" not in [text for _, text in texts]
    assert any(text.startswith("tunekit run reports/x/balanced.yaml") for _, text in texts)


def test_changed_and_predicted_cells_say_so_in_words(full: Parsed):
    shown = view(full_run())
    changed = [a for _, a in full.tags if "changed" in (a.get("class") or "").split()]
    predicted = [a for tag, a in full.tags if tag == "tr" and a.get("class") == "predicted"]
    assert len(changed) == len(shown.tiers.changed) > 0
    assert "".join(full.words).count("changed to ") == len(changed)
    assert len(predicted) == len(shown.tiers.predicted_rows) > 0


def test_texts_that_look_like_markup_stay_text():
    html = html_of(hostile_run(), full_plan())
    parsed = Parsed(html)
    assert HOSTILE not in html
    assert not any(tag == "img" for tag, _ in parsed.tags)
    assert HOSTILE in "".join(parsed.words)
    assert json.loads(parsed.carried_by("charts-data"))["figures"].keys() >= {"throughput", "history"}


def test_json_in_a_script_element_has_no_letter_that_could_end_it():
    text = "</script><!--&\u2028\u2029"
    written = script_json({"a": text})
    assert not re.search("[<>&\u2028\u2029]", written)
    assert json.loads(written) == {"a": text}
    assert json.loads(escaped_json(json.dumps(text))) == text
