"""Whatever a run's texts hold: terminal, Markdown and page show it written out."""

import io
import re
from pathlib import Path

from any_records import runs
from build_reports import full_run
from hypothesis import given
from rich.console import Console

import tunekit
from tunekit.cli.screen import SearchScreen
from tunekit.records.base import with_texts
from tunekit.records.codec import to_json
from tunekit.records.run import Run
from tunekit.report.html.page import page
from tunekit.report.markdown import markdown
from tunekit.report.run import in_comment, on_one_screen, on_page
from tunekit.report.terminal import draw

HIDDEN = "\x00\x07\x08\r\x1b[31m\x1b]8;;http://x\x1b\\\x7f\x85\x9b\u061c\u200b\u200e\u200f\u2028\u2029\u202e\u2066\ufeff"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def spoilt(text: str) -> str:
    return f"{text[:3]}{HIDDEN}{text[3:]}"


def hidden_in(text: str) -> set[str]:
    return {one for one in _COLOURS.sub("", text).replace("\n", "") if not one.isprintable()}


def terminal_text(shown: Run) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system="truecolor", highlight=False)
    with SearchScreen(console=console) as screen:
        screen.opened(shown, Path(HIDDEN.replace("\0", "")))
        screen.space_known(shown)
        for record in shown.trials:
            screen.trial_ended(record)
        screen.said(HIDDEN)
        screen.interrupted(Path(HIDDEN.replace("\0", "")))
    files = (Path("run") / HIDDEN.replace("\0", ""),)
    folder = Path(HIDDEN.replace("\0", ""))
    draw(console, (*on_page(shown, str(folder)).blocks, *on_one_screen(shown, folder, files)))
    return out.getvalue()


@given(runs().map(lambda one: with_texts(one, spoilt)))
def test_every_text_of_a_run_is_written_out(shown: Run):
    assert not hidden_in(terminal_text(shown))
    assert not hidden_in(markdown(in_comment(shown, configs=(("balanced", HIDDEN),))))
    assert not hidden_in(to_json(shown))


def test_every_text_of_the_page_is_written_out():
    shown = with_texts(full_run(), spoilt)
    drawn = page(on_page(shown, HIDDEN), b"{}")
    assert not hidden_in(drawn)
    assert spoilt(full_run().target.command[0]) not in drawn
    assert drawn.count(r"\x1b]8;;http") > 10


def test_texts_for_a_terminal_are_made_in_one_place():
    sources = Path(tunekit.__file__).parent.rglob("*.py")
    makers = {path.name for path in sources if re.search(r"\bText\((?!\w+=|\))", path.read_text())}
    assert makers == {"terminal.py"}, "use shown_text()"
