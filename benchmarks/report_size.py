"""How large a report of many trials is, how long it takes to build, and how soon it can be used in a browser.

python benchmarks/report_size.py [--trials 2000]

Usable is from the start of navigation until the page is loaded and its first chart is drawn, in a Chromium
without a network. Goals for 2,000 trials: less than 6 MB, 3 s and 2 s.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from build_reports import full_plan, full_series, many_trials  # noqa: E402

from tunekit.records.codec import to_json  # noqa: E402
from tunekit.records.run import Run  # noqa: E402
from tunekit.report.html.page import page  # noqa: E402
from tunekit.report.run import on_page  # noqa: E402

RUNS = 5
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")

FIRST_CHART_MS = """() => new Promise((resolve) => {
    const look = () => {
        const isDrawn = document.readyState === 'complete' && document.querySelector('.plot[data-drawn] svg');
        if (isDrawn) requestAnimationFrame(() => resolve(performance.now()));
        else requestAnimationFrame(look);
    };
    document.querySelector('.plot').scrollIntoView();
    look();
})"""
"""performance.now() counts from the start of navigation."""


def main(trials: int) -> None:
    """Print the figures beside the command."""
    run = many_trials(trials)
    raw = to_json(run).encode()
    pages, times_s = zip(*(built(run, raw) for _ in range(RUNS)), strict=True)
    size_bytes = len(pages[0].encode())
    carried = "in it" if 'id="raw-packed"' in pages[0] else "beside it"
    print(f"$ python benchmarks/report_size.py --trials {trials}")
    print(f"HTML {size_bytes:,} bytes; run.json of {len(raw):,} bytes {carried}")
    print(f"view and page in {times_s[0]:.2f} s at first, then {median(times_s[1:]):.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        file.write_text(pages[0], encoding="utf-8")
        print(f"usable in Chromium after {usable_s(file):.2f} s, median of {RUNS}")


def built(run: Run, raw: bytes) -> tuple[str, float]:
    """Return the page, and the seconds that view and page took."""
    started = time.perf_counter()
    html = page(on_page(run, plan=full_plan(), saved=full_series), raw)
    return html, time.perf_counter() - started


def usable_s(file: Path) -> float:
    """Return the median time until a page can be used, each in a fresh context."""
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        sys.exit(f"no Chromium; install one of {', '.join(CHROMIUM)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        times_s = [once_s(browser, file) for _ in range(RUNS)]
        browser.close()
    return median(times_s)


def once_s(browser: Browser, file: Path) -> float:
    """Return how long one load takes."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, offline=True)
    tab = context.new_page()
    tab.goto(file.as_uri(), wait_until="commit")
    tab.wait_for_selector(".plot", state="attached")
    usable_ms = tab.evaluate(FIRST_CHART_MS)
    context.close()
    return float(usable_ms) / 1000


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=2000)
    main(parser.parse_args().trials)
