"""Draws the pictures of README and docs from the example run: `python docs/pictures.py`.

The page's picture needs chromium, or the browser that CHROMIUM names.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
ANSWER, PAGE = IMAGES / "answer.svg", IMAGES / "report.png"
RUN = Path("reports", "example-images")
COLUMNS = 100
PAGE_SIZE = (1280, 1000)
"""Pixels of the browser's window."""

_FONT_FACES = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""Fonts that rich would fetch from a CDN; without them the viewer's own monospace font is taken."""


def answer_svg() -> str:
    """Return what the terminal shows of the example run, as a picture."""
    shown = _tunekit("report", str(RUN))
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ tunekit report {RUN}", style="bold"))
    console.print(Text.from_ansi(shown.rstrip()))
    return _FONT_FACES.sub("", console.export_svg(title="tunekit"))


def draw_page() -> None:
    """Save the first screen of the example run's report."""
    with tempfile.TemporaryDirectory() as temporary:
        page = Path(temporary, "report.html")
        _tunekit("report", str(RUN), "--html", str(page))
        subprocess.run(
            [
                os.environ.get("CHROMIUM", "chromium"),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--hide-scrollbars",
                f"--user-data-dir={temporary}/browser",
                "--virtual-time-budget=10000",
                f"--window-size={PAGE_SIZE[0]},{PAGE_SIZE[1]}",
                f"--screenshot={PAGE}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
        )


def _tunekit(*arguments: str) -> str:
    """Return what a command prints on a terminal with colours."""
    terminal = {
        "COLUMNS": str(COLUMNS),
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        [sys.executable, "-m", "tunekit", *arguments],
        cwd=ROOT,
        env={**os.environ, **terminal, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    ANSWER.write_text(answer_svg())
    draw_page()
