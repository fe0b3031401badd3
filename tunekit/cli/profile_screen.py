"""What a loop profile shows while it runs."""

from pathlib import Path

from tunekit.cli.trial_screen import TrialScreen, device_text
from tunekit.records.loop_profile import LoopProfile
from tunekit.report.loop_profile import profile_report
from tunekit.report.terminal import draw, shown_text
from tunekit.report.text import host_text, target_text


class ProfileScreen(TrialScreen):
    """Shows a loop profile; a `TrialListener`."""

    def opened(self, profile: LoopProfile, folder: Path) -> None:
        """Show host and target before anything runs."""
        target = profile.target
        self._line("host", host_text(profile.host))
        what = f"the built-in workload `{target.builtin}`" if target.builtin else target_text(target)
        self._line("target", what)
        if target.builtin:
            self._line("", "no command was given; look at your own with: tunekit profile -- python train.py")
        self._line("device", device_text(profile))
        self._show_findings(profile.machine_findings)
        self._line("folder", str(folder))

    def interrupted(self, folder: Path) -> None:
        """Say that nothing is lost and where it is."""
        self._stop_live()
        told = self._interrupted_text(folder)
        if not self._ended:
            self._console.print(shown_text(told))
            return
        self._console.print(shown_text(f"{told}. Show them with:"))
        self._console.print(shown_text(f"  tunekit report {folder}"), soft_wrap=True)

    def closed(self, profile: LoopProfile, folder: Path) -> None:
        """Show the answer, if standard output is not the JSON's."""
        self._stop_live()
        if self._to_stderr:
            return
        draw(self._console, profile_report(profile, str(folder), self._console.width).blocks)
