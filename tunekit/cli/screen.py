"""What a search shows while it runs: a live line on a terminal, plain lines elsewhere."""

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.report.terminal import draw
from tunekit.report.view import config_text, host_text, outcome_text, target_text, view
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
        self._line("budget", f"{duration_text(run.options.budget_s)}, run folder {folder}")

    def space_known(self, run: Run) -> None:
        """Show what is searched and what is not."""
        searched = [entry for entry in run.space if len(entry.values) > 1]
        self._line("search", ", ".join(f"{e.knob} ({len(e.values)})" for e in searched))
        for entry in run.space:
            if len(entry.values) == 1:
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
        if record.role is not TrialRole.CONFIRM and rate is not None:
            best = self._best.rate_samples_per_s if self._best else None
            if best is None or rate > best:
                self._best = record
        who = "baseline" if record.is_baseline_config else config_text(record.config)
        text = Text(f"{record.number:4d}  {who}: ")
        text.append(outcome_text(record), style="red" if record.failure else "")
        self._console.print(text, soft_wrap=not self._console.is_terminal)

    def said(self, message: str) -> None:
        """Show a sentence."""
        self._line("", message)

    def interrupted(self, folder: Path) -> None:
        """Say that nothing is lost and how to go on."""
        self._stop_live()
        self._console.print(f"interrupted; finished trials are in {folder}. Go on with:")
        self._console.print(f"  tunekit search --resume {folder}", soft_wrap=True)

    def closed(self, run: Run, folder: Path, files: Sequence[Path]) -> None:
        """Show the answer."""
        self._stop_live()
        draw(self._console, view(run), folder, files)

    def _status(self, phase: str, batches: int) -> Text:
        assert self._spec is not None
        elapsed_s = time.monotonic() - self._started_at
        left_s = max(0.0, self._left_s - elapsed_s)
        who = config_text(self._spec.config) if self._spec.config else "baseline"
        text = Text(f"{self._spec.number:4d}  {who}", overflow="ellipsis", no_wrap=True)
        text.append(f"\n      {self._purpose}: {_PHASES.get(phase, phase)}, {batches} batches", style="cyan")
        best = f", best {rate_text(self._best.rate_samples_per_s)} samples/s" if self._best else ""
        text.append(f"\n      {duration_text(left_s)} left{best}", style="dim")
        return text

    def _line(self, label: str, text: str, style: str = "") -> None:
        self._console.print(Text(f"{label:<8}{text}", style=style), soft_wrap=not self._console.is_terminal)

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
