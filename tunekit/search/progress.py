"""What a walk over trials tells while it runs; the screen draws it."""

from typing import Protocol

from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.trial.executor import TrialSpec
from tunekit.trial.watch import TrialProgress


class TrialListener(Protocol):
    """Hears what becomes of trials, as they run."""

    def trial_started(self, spec: TrialSpec, purpose: str, left_s: float | None) -> None:
        """A trial begins; `left_s` is what remains of the budget, in seconds, None without one."""
        ...

    def trial_moved(self, progress: TrialProgress) -> None:
        """The running trial did something."""
        ...

    def trial_ended(self, record: TrialRecord) -> None:
        """A trial's record is on disk."""
        ...

    def said(self, message: str) -> None:
        """Something that the user should know now."""
        ...


class SearchListener(TrialListener, Protocol):
    """Hears what a search does, as it does it."""

    def space_known(self, run: Run) -> None:
        """The baseline is measured and the space is built."""
        ...
