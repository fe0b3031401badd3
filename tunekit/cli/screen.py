"""What a search shows while it runs: a live line on a terminal, plain lines elsewhere."""

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tunekit.records.config import TrainConfig
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.report.terminal import SEVERITY_STYLES, draw
from tunekit.report.text import (
    SEVERITY_WORDS,
    config_text,
    finding_text,
    host_text,
    outcome_text,
    target_text,
)
from tunekit.report.view import view
from tunekit.trial.executor import TrialSpec
from tunekit.trial.watch import TrialProgress
from tunekit.units import duration_text, rate_text

_PHASES = {
    "starting": "starting the script",
    "learning": "learning the loop",
    "warming": "warming up",
    "measuring": "measuring",
    "boundary": "timing an epoch boundary",
    "refill": "timing an epoch boundary",
    "validating": "validating",
    "finished": "ending",
}


_LABEL_WIDTH = 8


def _who(is_baseline: bool, config: TrainConfig | None) -> str:
    """Return a config in one line, the baseline by its name."""
    if not is_baseline:
        return config_text(config)
    return f"baseline: {config_text(config)}" if config else "baseline"


class SearchScreen:
    """Shows a search; a `SearchListener`.

    Args:
        to_stderr: leave standard output to the JSON.
    """

    def __init__(self, to_stderr: bool = False, console: Console | None = None) -> None:
        self._console = console or Console(stderr=to_stderr, highlight=False)
        self._live: Live | None = None
        self._spec: TrialSpec | None = None
        self._purpose = ""
        self._left_s = 0.0
        self._started_at = 0.0
        self._best: TrialRecord | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_live()

    def opened(self, run: Run, folder: Path) -> None:
        """Show host and target before anything runs."""
        self._line("host", host_text(run.host))
        what = f"the built-in workload `{run.target.builtin}`" if run.target.builtin else target_text(run)
        self._line("target", what)
        if run.target.builtin:
            self._line("", "no command was given; tune your own with: tunekit search -- python train.py")
        device = run.profile.device_names[0]
        self._line(
            "device", f"{device} is not here; measuring on {run.measured_on}" if run.is_emulated else device
        )
        for finding in run.machine_findings:
            self._line(
                SEVERITY_WORDS[finding.severity],
                finding_text(finding),
                style=SEVERITY_STYLES[finding.severity],
            )
        self._line("budget", f"{duration_text(run.options.budget_s)}, run folder {folder}")

    def space_known(self, run: Run) -> None:
        """Show what is searched and what is not."""
        searched = [entry for entry in run.space if entry.is_searched]
        self._line("search", ", ".join(f"{e.knob} ({len(e.values)})" for e in searched))
        for entry in run.space:
            if not entry.is_searched:
                self._line("", f"not {entry.knob}: {entry.why_fixed}", style="dim")

    def trial_started(self, spec: TrialSpec, purpose: str, left_s: float) -> None:
        """Show which trial begins."""
        self._spec, self._purpose, self._left_s = spec, purpose, left_s
        self._started_at = time.monotonic()
        if self._console.is_terminal:
            self._stop_live()
            self._live = Live(
                self._status("starting", 0), console=self._console, transient=True, auto_refresh=False
            )
            self._live.start()

    def trial_moved(self, progress: TrialProgress) -> None:
        """Update the live line."""
        if self._live is not None:
            self._live.update(self._status(progress.phase, progress.batches), refresh=True)

    def trial_ended(self, record: TrialRecord) -> None:
        """Show a trial's result, one line each."""
        self._stop_live()
        rate = record.rate_samples_per_s
        if record.role.is_candidate and rate is not None:
            best = self._best.rate_samples_per_s if self._best else None
            if best is None or rate > best:
                self._best = record
        if record.number == 0:
            self._print(_LABEL_WIDTH, "trial", Text("measured, then the config", style="dim"))
        text = Text(f"{outcome_text(record):<29}", style="red" if record.failure else "bold")
        text.append("  " + _who(record.is_baseline_config, record.config), style="not bold default")
        self._print(_LABEL_WIDTH, f"{record.number:5d}", text)

    def said(self, message: str) -> None:
        """Show a sentence."""
        self._line("", message)

    def interrupted(self, folder: Path) -> None:
        """Say that nothing is lost and how to go on."""
        self._stop_live()
        self._console.print(Text(f"interrupted; finished trials are in {folder}. Go on with:"))
        self._console.print(Text(f"  tunekit search --resume {folder}"), soft_wrap=True)

    def closed(self, run: Run, folder: Path, files: Sequence[Path]) -> None:
        """Show the answer."""
        self._stop_live()
        draw(self._console, view(run, str(folder)), folder, files)

    def _status(self, phase: str, batches: int) -> Text:
        assert self._spec is not None
        elapsed_s = time.monotonic() - self._started_at
        left_s = max(0.0, self._left_s - elapsed_s)
        indent = "\n" + " " * _LABEL_WIDTH
        who = _who(self._spec.config is None, self._spec.config)
        text = Text(f"{self._spec.number:5d}   {who}", overflow="ellipsis", no_wrap=True)
        text.append(f"{indent}{self._purpose}: {_PHASES.get(phase, phase)}, {batches} batches", style="cyan")
        best = f", best {rate_text(self._best.rate_samples_per_s)} samples/s" if self._best else ""
        text.append(f"{indent}{duration_text(left_s)} left{best}", style="dim")
        return text

    def _line(self, label: str, text: str, style: str = "") -> None:
        self._print(_LABEL_WIDTH, label, Text(text, style=style))

    def _print(self, width: int, label: str, text: Text) -> None:
        """Print a label and a text that wraps beside it; one long line where nobody looks at the width."""
        if not self._console.is_terminal:
            self._console.print(Text(f"{label:<{width}}").append(text), soft_wrap=True)
            return
        grid = Table.grid()
        grid.add_column(width=width)
        grid.add_column()
        grid.add_row(Text(label), text)
        self._console.print(grid)

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
