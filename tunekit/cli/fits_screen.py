"""What `tunekit fits` shows while it runs."""

from pathlib import Path

from tunekit.cli.trial_screen import TrialScreen, phase_text
from tunekit.records.fits import FitsRun
from tunekit.report.fits import fits_report
from tunekit.report.terminal import draw, shown_text
from tunekit.report.text import host_text, target_text
from tunekit.trial.watch import TrialProgress


class FitsScreen(TrialScreen):
    """Shows the trial of a prediction; a `TrialListener`."""

    _phase = ""

    def opened(self, run: FitsRun, folder: Path) -> None:
        """Show host and target before anything runs."""
        target = run.target
        self._line("host", host_text(run.host))
        what = f"the built-in workload `{target.builtin}`" if target.builtin else target_text(target)
        self._line("target", what)
        if target.builtin:
            self._line("", "no command was given; look at your own with: tunekit fits -- python train.py")
        self._show_findings(run.machine_findings)
        self._line("folder", str(folder))

    def trial_moved(self, progress: TrialProgress) -> None:
        """Update the live line; where there is none, a line for each thing that the trial goes on to."""
        super().trial_moved(progress)
        if not self._console.is_terminal and progress.phase != self._phase:
            self._phase = progress.phase
            self._line(f"{progress.elapsed_s:5.0f} s", phase_text(progress.phase))

    def interrupted(self, run: FitsRun | None = None, folder: Path | None = None) -> None:
        """Show what was known when it was interrupted."""
        self._stop_live()
        if run is None or run.prediction is None or folder is None:
            self._console.print(shown_text("interrupted; nothing was predicted"))
            return
        self._console.print(shown_text("interrupted; this was known by then"))
        self.closed(run, folder)

    def closed(self, run: FitsRun, folder: Path) -> None:
        """Show the answer, if standard output is not the JSON's."""
        self._stop_live()
        if not self._to_stderr:
            draw(self._console, fits_report(run, self._console.width).blocks)
