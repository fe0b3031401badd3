"""What a search shows while it runs: hostile names are text."""

import io
from pathlib import Path

from build_records import failure, run, trial_record
from rich.console import Console

from tunekit.cli.screen import SearchScreen
from tunekit.records.trial import OutcomeKind


def test_markup_and_escapes_are_text():
    out = io.StringIO()
    screen = SearchScreen(console=Console(file=out, width=80, color_system=None, highlight=False))
    broken = failure(OutcomeKind.SCRIPT_ERROR, message="[/red] \x1b[2J")
    with screen:
        screen.opened(run(), Path("[red]"))
        screen.trial_ended(trial_record(1, None, overrides={"failure": broken}))
        screen.interrupted(Path("[/red]"))
    shown = out.getvalue()
    assert "run folder [red]" in shown
    assert r"[/red] \x1b[2J" in shown
    assert "finished trials are in [/red]" in shown
    assert "tunekit search --resume [/red]\n" in shown
    assert "\x1b" not in shown
