"""What a search shows while it runs."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tunekit.cli.trial_screen import TrialScreen, device_text
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.report.commands import missing_command
from tunekit.report.run import on_terminal, view
from tunekit.report.terminal import draw, shown_text
from tunekit.report.text import host_text, target_text
from tunekit.units import duration_text, rate_text


class SearchScreen(TrialScreen):
    """Shows a search; a `SearchListener`.

    Args:
        to_stderr: leave standard output to the JSON.
        console: where to show it instead.
    """

    def __init__(self, to_stderr: bool = False, console: Console | None = None) -> None:
        super().__init__(to_stderr, console)
        self._best: TrialRecord | None = None
        self._words = ""
        """What `--resume` needs after it."""

    def opened(self, run: Run, folder: Path) -> None:
        """Show host and target before anything runs."""
        self._ended = len(run.trials)
        self._words = missing_command(run.target)
        self._line("host", host_text(run.host))
        what = (
            f"the built-in workload `{run.target.builtin}`" if run.target.builtin else target_text(run.target)
        )
        self._line("target", what)
        if run.target.builtin:
            self._line("", "no command was given; tune your own with: tunekit search -- python train.py")
        self._line("device", device_text(run))
        self._show_findings(run.machine_findings)
        budget_s = run.options.budget_s
        budget = duration_text(budget_s) if budget_s else "set by the baseline (--budget TIME gives one)"
        self._line("budget", f"{budget}, run folder {folder}")

    def space_known(self, run: Run) -> None:
        """Show what is searched and what is not."""
        searched = [entry for entry in run.space if entry.is_searched]
        self._line("search", ", ".join(f"{e.knob} ({len(e.values)})" for e in searched))
        for entry in run.space:
            if not entry.is_searched:
                self._line("", f"not {entry.knob}: {entry.why_fixed}", style="dim")

    def trial_ended(self, record: TrialRecord) -> None:
        """Show a trial's result, one line each."""
        rate = record.rate_samples_per_s
        if record.role.is_candidate and rate is not None and not record.is_abandoned:
            best = self._best.rate_samples_per_s if self._best else None
            if best is None or rate > best:
                self._best = record
        super().trial_ended(record)

    def interrupted(self, folder: Path) -> None:
        """Say that nothing is lost and how to go on."""
        self._stop_live()
        what = "Go on with" if self._ended else "Start again with"
        self._console.print(shown_text(f"{self._interrupted_text(folder)}. {what}:"))
        self._console.print(shown_text(f"  tunekit search --resume {folder}{self._words}"), soft_wrap=True)

    def reported_so_far(self, report: Path) -> None:
        """Say where the report of what was measured lies."""
        self._console.print(shown_text(f"Its report so far: {report}"), soft_wrap=True)

    def closed(self, run: Run, folder: Path, files: Sequence[Path]) -> None:
        """Show the answer, if standard output is not the JSON's."""
        self._stop_live()
        if self._to_stderr:
            return
        draw(self._console, on_terminal(view(run, str(folder)), folder, files))

    def _below_status(self) -> str:
        best = f", best {rate_text(self._best.rate_samples_per_s)} samples/s" if self._best else ""
        return super()._below_status() + best
