"""Trials while they run: a live line on a terminal, plain lines elsewhere."""

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tunekit.cli.pipes import lasting_console
from tunekit.hardware.device import memory_cap_bytes
from tunekit.records.config import TrainConfig
from tunekit.records.finding import Finding
from tunekit.records.run import TargetRecord
from tunekit.records.target import Discovery
from tunekit.records.trial import TrialRecord
from tunekit.report.terminal import SEVERITY_STYLES, shown_text
from tunekit.report.text import SEVERITY_WORDS, config_text, finding_text, outcome_text
from tunekit.trial.executor import TrialSpec
from tunekit.trial.watch import TrialProgress
from tunekit.units import bytes_text, duration_text

_PHASES = {
    "starting": "starting the script",
    "learning": "learning the loop",
    "warming": "warming up",
    "measuring": "measuring",
    "boundary": "timing an epoch boundary",
    "refill": "timing an epoch boundary",
    "validating": "validating",
    "queue": "filling the loader's queue",
    "kernels": "tracing kernels",
    "syncs": "looking for waits on the device",
    "peaks": "reading memory peaks",
    "floors": "loader alone, then training alone",
    "largest": "training on the largest samples",
    "sizes": "training alone at other batch sizes",
    "trace": "tracing steps at two small batch sizes",
    "loader": "loader alone",
    "finished": "ending",
}


_LABEL_WIDTH = 8


def phase_text(phase: str) -> str:
    """Return what a trial is doing, such as "tracing steps at batch 4 under bf16" for "trace bf16 4"."""
    name, *words = phase.split()
    if name == "trace" and len(words) == 2:
        under = "" if words[0] == "own" else f" under {words[0]}"
        return f"tracing steps at batch {words[1]}{under}"
    return _PHASES.get(phase, phase)


def _who(is_baseline: bool, config: TrainConfig | None, found: Discovery | None = None) -> str:
    """Return a config in one line, the baseline by its name and with what was found of the script."""
    if not is_baseline:
        return config_text(config)
    return f"baseline: {config_text(config, found)}" if config else "baseline"


def device_text(record: TargetRecord) -> str:
    """Return the device that was asked for, and what is measured on where it is not here."""
    device = record.profile.device_names[0]
    if not record.is_emulated:
        return device
    cap_bytes = memory_cap_bytes(record.profile, record.measured_on, record.host)
    capped = f", its memory capped to {bytes_text(cap_bytes)}" if cap_bytes else ""
    return f"{device} is not here; measuring on {record.measured_on}{capped}"


class TrialScreen:
    """Shows trials; a `TrialListener`.

    Args:
        to_stderr: leave standard output to the JSON.
        console: where to show them instead.
    """

    def __init__(self, to_stderr: bool = False, console: Console | None = None) -> None:
        self._to_stderr = to_stderr
        self._ended = 0
        self._console = console or lasting_console(to_stderr, highlight=False)
        self._live: Live | None = None
        self._spec: TrialSpec | None = None
        self._purpose = ""
        self._left_s: float | None = None
        self._started_at = 0.0
        self._quarters_made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_live()

    def images_made(self, made: int, count: int) -> None:
        """Show how far the built-in workload's images are: a line that moves, or one for each quarter."""
        text = f"making the images that it trains on, once: {made:,} of {count:,}"
        if self._console.is_terminal:
            self._live = self._live or Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
            self._live.update(shown_text(f"{'':<{_LABEL_WIDTH}}{text}"), refresh=True)
        elif 4 * made // count > self._quarters_made:
            self._quarters_made = 4 * made // count
            self._line("", text)

    def trial_started(self, spec: TrialSpec, purpose: str, left_s: float | None) -> None:
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
        self._ended += 1
        if record.number == 0:
            self._print(_LABEL_WIDTH, "trial", shown_text("measured, then the config", "dim"))
        text = shown_text(f"{outcome_text(record):<29}", "red" if record.failure else "bold")
        text.append(
            "  " + _who(record.is_baseline_config, record.config, record.discovery), style="not bold default"
        )
        self._print(_LABEL_WIDTH, f"{record.number:5d}", text)

    def _interrupted_text(self, folder: Path) -> str:
        """Return what is left of trials that were interrupted."""
        if self._ended:
            return f"interrupted; finished trials are in {folder}"
        return "interrupted before the first trial ended; nothing was measured"

    def said(self, message: str) -> None:
        """Show a sentence."""
        self._line("", message)

    def _status(self, phase: str, batches: int) -> Text:
        assert self._spec is not None
        indent = "\n" + " " * _LABEL_WIDTH
        who = _who(self._spec.config is None, self._spec.config)
        text = Text(overflow="ellipsis", no_wrap=True).append(shown_text(f"{self._spec.number:5d}   {who}"))
        doing = f"{self._purpose}: {phase_text(phase)}, {batches} batches"
        text.append(indent).append(shown_text(doing, "cyan"))
        below = self._below_status()
        if below:
            text.append(indent + below, style="dim")
        return text

    def _below_status(self) -> str:
        """Return the last of the live lines; empty for none."""
        if self._left_s is None:
            return ""
        elapsed_s = time.monotonic() - self._started_at
        return f"{duration_text(max(0.0, self._left_s - elapsed_s))} left"

    def _show_findings(self, findings: tuple[Finding, ...]) -> None:
        for finding in findings:
            style = SEVERITY_STYLES[finding.severity]
            self._line(SEVERITY_WORDS[finding.severity], finding_text(finding), style=style)

    def _line(self, label: str, text: str, style: str = "") -> None:
        self._print(_LABEL_WIDTH, label, shown_text(text, style))

    def _print(self, width: int, label: str, text: Text) -> None:
        """Print a label and a text that wraps beside it; one long line where nobody looks at the width."""
        if not self._console.is_terminal:
            self._console.print(shown_text(f"{label:<{width}}").append(text), soft_wrap=True)
            return
        grid = Table.grid()
        grid.add_column(width=width)
        grid.add_column()
        grid.add_row(shown_text(label), text)
        self._console.print(grid)

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
