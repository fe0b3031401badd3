"""What `tunekit fits` shows while it runs."""

from pathlib import Path

from tunekit.cli.trial_screen import TrialScreen
from tunekit.records.fits import FitsRun
from tunekit.report.fits import fits_view
from tunekit.report.terminal import draw_fits, shown_text
from tunekit.report.text import host_text, target_text


class FitsScreen(TrialScreen):
    """Shows the trial of a prediction; a `TrialListener`."""

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

    def interrupted(self) -> None:
        """Say that nothing was predicted."""
        self._stop_live()
        self._console.print(shown_text("interrupted; nothing was predicted"))

    def closed(self, run: FitsRun, folder: Path) -> None:
        """Show the answer, if standard output is not the JSON's."""
        self._stop_live()
        if not self._to_stderr:
            draw_fits(self._console, fits_view(run, str(folder), self._console.width))
