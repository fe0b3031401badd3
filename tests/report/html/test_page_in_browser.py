"""The page in a real Chromium: from a file, without a network, quiet; drawn, sorted, printed, read by all."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from build_reports import HOSTILE, LONG, full_plan, full_run, full_series, hostile_run
from playwright.sync_api import Browser, Page, Route, ViewportSize, sync_playwright
from read_report import ReadRun, view

from tunekit.records.codec import to_json
from tunekit.records.run import Run
from tunekit.report.html.page import page
from tunekit.report.run import on_page

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
NAMES = ("chromium", "chromium-browser", "google-chrome")
MUST_RUN = os.environ.get("TUNEKIT_NEEDS_BROWSER") == "1"
DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
A4_WIDTH: ViewportSize = {"width": 688, "height": 1000}
"""What A4 leaves between margins of 14 mm."""

CONFIGS = (("balanced", "batch_size: 256\nnum_workers: 4\nlr: 0.2"),)

LISTEN = """
window.refused = [];
document.addEventListener('securitypolicyviolation', (event) => window.refused.push(event.violatedDirective));
"""


def without(what: str, remedy: str) -> None:
    """Skip, or fail where the environment promises that nothing is missing."""
    message = f"{what}: {remedy}"
    if MUST_RUN:
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        without("no Chromium", f"install one of {', '.join(NAMES)}")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"],
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def shown() -> ReadRun:
    return view(full_run(), plan=full_plan(), saved=full_series)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory, full_run())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory, hostile_run())


def saved(folders: pytest.TempPathFactory, run: Run) -> Path:
    file = folders.mktemp("page") / "report.html"
    report = on_page(run, plan=full_plan(), configs=CONFIGS, saved=full_series)
    file.write_text(page(report, to_json(run).encode()), encoding="utf-8")
    return file


@contextmanager
def opened(browser: Browser, file: Path, before: str = "", **context: Any) -> Iterator[Page]:
    """Open a page without a network; at its end nothing may have been asked for, refused or complained of."""
    complaints: list[str] = []

    def refuse(route: Route) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            complaints.append(f"asked for {route.request.url[:200]}")
            route.abort()

    there = browser.new_context(**({"viewport": DESKTOP, "offline": True} | context))
    there.add_init_script(LISTEN + before)
    there.route(re.compile("^(?!data:|blob:)"), refuse)
    tab = there.new_page()
    tab.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(file.as_uri())
    try:
        yield tab
        if context.get("java_script_enabled", True):
            complaints += tab.evaluate("window.refused")
        assert complaints == []
    finally:
        there.close()


@pytest.fixture(scope="module", params=[pytest.param("tab", marks=pytest.mark.slow)])
def first_tab(browser: Browser, full: Path) -> Iterator[Page]:
    with opened(browser, full) as tab:
        yield tab


@pytest.fixture
def tab(first_tab: Page) -> Page:
    """The full page as it is after it was opened, but for charts that were drawn since."""
    first_tab.set_viewport_size(DESKTOP)
    first_tab.emulate_media(media="screen", color_scheme="light")
    first_tab.evaluate(
        """() => {
            document.activeElement.blur();
            scrollTo(0, 0);
        }"""
    )
    return first_tab


def drawn(tab: Page, name: str) -> int:
    """Scroll to a chart and return how many shapes it has."""
    plot = tab.locator(f'.plot[data-chart="{name}"]')
    plot.scroll_into_view_if_needed()
    tab.wait_for_function("(place) => place.dataset.drawn", arg=plot.element_handle())
    return plot.locator("svg path, svg rect, svg image").count()


# --- opens, draws, keeps to itself ---------------------------------------------------------


def test_it_opens_from_a_file_and_draws_every_chart_when_it_is_scrolled_to(
    browser: Browser, full: Path, shown: ReadRun
):
    with opened(browser, full) as tab:
        drawn(tab, shown.charts[0].id)
        last = shown.charts[-1].id
        assert tab.locator(f'.plot[data-chart="{last}"] svg').count() == 0
        shapes = {chart.id: drawn(tab, chart.id) for chart in shown.charts}
        assert len(shapes) >= 5
        assert min(shapes.values()) > 10, shapes


def test_the_first_screen_has_answer_changes_and_config(tab: Page, shown: ReadRun):
    seen = " ".join(tab.locator("#answer").inner_text().split()).replace(" : ", ": ")
    for told in (shown.answer, *CONFIGS[0][1].split("\n"), *(one.split(": ")[1] for one in shown.changes)):
        assert told and " ".join(told.split()) in seen
    lowest = tab.locator("#answer .beside").bounding_box()
    assert lowest and lowest["y"] + lowest["height"] <= DESKTOP["height"]


@pytest.mark.slow
def test_hostile_texts_are_shown_and_printed_and_nothing_of_them_runs(browser: Browser, hostile: Path):
    with opened(browser, hostile) as tab:
        drawn(tab, "throughput")
        drawn(tab, "history")
        assert HOSTILE in tab.title()
        assert HOSTILE in tab.locator("#title").inner_text()
        assert HOSTILE in tab.locator("#findings").inner_text()
        reasons = tab.locator("#trial-table .reason").all_text_contents()
        assert any(HOSTILE in one for one in reasons)
        assert any(LONG in one for one in reasons)
        assert tab.locator("img").count() == 0
        assert tab.evaluate("document.documentElement.scrollWidth") <= DESKTOP["width"]
        assert cut_in_print(tab) == []


@pytest.mark.slow
def test_without_scripts_every_figure_is_readable(browser: Browser, full: Path, shown: ReadRun):
    with opened(browser, full, java_script_enabled=False) as tab:
        assert tab.get_by_text(shown.answer).is_visible()
        assert tab.get_by_text("need JavaScript").is_visible()
        assert tab.locator("#trial-table tbody").count() == len(shown.trials.rows)
        assert not tab.locator(".plot").first.is_visible()
        tab.locator("#chart-throughput summary").click()
        assert tab.locator("#chart-throughput table").is_visible()


@pytest.mark.slow
def test_a_browser_that_cannot_unpack_says_so_and_opens_the_tables(browser: Browser, full: Path):
    with opened(browser, full, before="delete window.DecompressionStream;") as tab:
        tab.locator(".undrawn").wait_for(state="visible")
        assert tab.locator("#chart-throughput table").is_visible()


# --- what can be done with it --------------------------------------------------------------


def test_dark_colours_change_page_and_chart(tab: Page):
    drawn(tab, "time_breakdown")
    light = colours(tab)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function(f"(bars) => ({COLOURS})()[3] !== bars", arg=light[3])  # charts follow the page
    assert all(one != other for one, other in zip(light, colours(tab), strict=True))


COLOURS = """() => {
    const root = getComputedStyle(document.documentElement);
    const chart = document.querySelector('[data-chart=time_breakdown]');
    const fill = (part) => getComputedStyle(chart.querySelector(part)).fill;
    return [root.color, root.backgroundColor, fill('.xtick text'), fill('.bars path')];
}"""


def colours(tab: Page) -> list[str]:
    """Return the colours of the page's text and paper, and of a chart's text and bars."""
    return tab.evaluate(COLOURS)


def test_run_json_comes_back_byte_for_byte(tab: Page):
    with tab.expect_download() as download:
        tab.click("#download")
    assert download.value.suggested_filename == "run.json"
    assert download.value.path().read_bytes() == to_json(full_run()).encode()


def test_a_command_is_selected_where_the_clipboard_is_denied(tab: Page, shown: ReadRun):
    tab.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('denied')); }")
    button = tab.locator("button[data-copies]").last
    button.click()
    tab.wait_for_function("(button) => button.textContent !== 'Copy'", arg=button.element_handle())
    assert tab.evaluate("getSelection().toString()").strip() == shown.reproduce


def test_a_config_is_copied_line_by_line_and_that_is_said(tab: Page):
    tab.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    tab.get_by_role("button", name="Copy balanced.yaml").click()
    tab.wait_for_function("() => document.getElementById('copy-status').textContent === 'Copied'")
    assert tab.evaluate("window.copied") == CONFIGS[0][1]


# --- narrow, printed, for all --------------------------------------------------------------


def test_a_phone_need_not_scroll_sideways_and_cuts_no_chart(tab: Page, shown: ReadRun):
    tab.set_viewport_size(PHONE)
    for chart in shown.charts:
        drawn(tab, chart.id)
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    cut = tab.evaluate(
        """() => [...document.querySelectorAll('.plot .bars path, .plot .points path, .plot text')]
            .map((one) => [one, one.getBoundingClientRect()])
            .filter(([, box]) => box.width && (box.left < 0 || box.right > innerWidth))
            .map(([one, box]) => `${one.closest('.plot').id} ${box.right} ${one.textContent}`)"""
    )
    assert cut == []


def test_printed_nothing_is_cut_and_all_is_open_and_light(tab: Page):
    tab.emulate_media(color_scheme="dark")
    assert cut_in_print(tab) == []
    page_ink, paper, chart_ink, _ = colours(tab)
    assert (page_ink, paper, chart_ink) == ("rgb(0, 0, 0)", "rgb(255, 255, 255)", "rgb(28, 28, 34)")
    assert len(re.findall(rb"/Type\s*/Page\b", tab.pdf(format="A4"))) >= 5
    tab.emulate_media(media="screen")
    tab.wait_for_function("() => document.querySelectorAll('details:not([open])').length > 0")


def cut_in_print(tab: Page) -> list[str]:
    """Return what would stand over the right edge of an A4 page, once every chart is drawn for print."""
    tab.wait_for_function("() => window.Plotly")
    tab.set_viewport_size(A4_WIDTH)
    tab.emulate_media(media="print")
    tab.wait_for_function("() => !document.querySelector('details:not([open])')")
    return tab.evaluate(
        """() => [...document.querySelectorAll('td, th, .plot .main-svg, pre, p, li')]
            .map((one) => [one, one.getBoundingClientRect().right])
            .filter(([one, right]) => right > innerWidth + 1)
            .map(([one, right]) => `${one.tagName} ${one.className} ${right} ${one.textContent.slice(0, 40)}`)
            .concat([...document.querySelectorAll('.plot')].filter((one) => !one.dataset.drawn)
                .map((one) => `${one.dataset.chart} is not drawn`))"""
    )


@pytest.mark.slow
def test_axe_finds_nothing_serious(browser: Browser, full: Path, shown: ReadRun):
    if not AXE.is_file():
        without("axe-core is not installed", f"npm install --no-package-lock, in {AXE.parents[2]}")
    with opened(browser, full, bypass_csp=True) as tab:
        for chart in shown.charts:
            drawn(tab, chart.id)
        tab.evaluate(AXE.read_text(encoding="utf-8"))
        assert serious(tab) == []
        tab.set_viewport_size(PHONE)
        tab.emulate_media(color_scheme="dark")
        assert serious(tab, "color-contrast", "scrollable-region-focusable", "target-size") == []


def serious(tab: Page, *rules: str) -> list[str]:
    """Return what axe finds that shuts people out, by all rules unless some are named."""
    found = tab.evaluate("(rules) => axe.run(document, rules.length ? {runOnly: rules} : {})", list(rules))
    assert len(found["passes"]) > (len(rules) / 2 if rules else 10)
    return [
        f"{one['id']}: {node['target']}"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]
