"""Who says which trials a host runs and keeps what came of them: itself, or all that share a search."""

from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import Protocol

from tunekit.errors import TunekitError
from tunekit.records.config import TrainConfig
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.tune.shared.others import PendingTrial, SharedRecord


class Phase(StrEnum):
    """What one host does for all that share a search."""

    PREPARE = "prepare"
    """Measure the baseline, build the space, set the budget."""
    FINISH = "finish"
    """Confirm one answer, on one machine, and report."""


class Turn(Enum):
    """Whose a phase is."""

    OURS = "ours"
    """This host's, from now on or already."""
    ELSEWHERE = "elsewhere"
    """Another host is at it, as far as is known."""
    ALIVE = "alive"
    """Another host is at it, and was heard of since this was first asked."""
    TOO_EARLY = "too early"
    """Other hosts still run trials that come before it."""
    DONE = "done"


class TrialNotOursError(Exception):
    """Another host runs a trial, or has it: this host is to look again at what there is to do.

    Args:
        why: in words; empty where it is nothing to speak of.
        ahead: hosts that claimed the same trial before this one, the one that runs it among them.
    """

    def __init__(self, why: str = "", ahead: int = 0) -> None:
        super().__init__(why)
        self.ahead = ahead


class Book(Protocol):
    """Numbers the trials of a walk, and keeps their records for whoever takes part in it."""

    @property
    def host_name(self) -> str | None:
        """This machine, where there are others; None where it is alone."""
        ...

    def claim(
        self,
        role: TrialRole,
        config: TrainConfig | None,
        round_number: int | None,
        records: Sequence[TrialRecord],
    ) -> int:
        """Return the number of a trial that is this host's to run.

        Args:
            role: what it is run for.
            config: None for the script as it is.
            round_number: of a confirmation.
            records: of the trials that this host knows.

        Raises:
            TrialNotOursError: another host runs it.
        """
        ...

    def keep(self, record: TrialRecord, spent_s: float) -> None:
        """Keep the record of a trial that this host has run, for all.

        Args:
            record: its number is the one that was claimed.
            spent_s: how long the walk has run.

        Raises:
            TrialNotOursError: this host was silent for too long, and the trial is another's now.
        """
        ...

    def pull(self) -> tuple[SharedRecord, ...]:
        """Return the records of other hosts that this one has not had yet, by number."""
        ...

    def pending(self) -> tuple[PendingTrial, ...]:
        """Return what other hosts run now."""
        ...

    def lost(self) -> tuple[PendingTrial, ...]:
        """Return what hosts began and did not end, and nobody runs now."""
        ...

    def turn(self, phase: Phase) -> Turn:
        """Return whose a phase is; it is this host's from now on where it is nobody's."""
        ...

    def leader(self, phase: Phase) -> str:
        """Return the name of the host that is at a phase, or was."""
        ...

    def end(self, phase: Phase, run: Run) -> bool:
        """Leave what came of a phase for all; return False if it is not this host's any more."""
        ...

    def fail(self, phase: Phase, error: TunekitError) -> None:
        """Leave for all why a phase can't be done by any of them."""
        ...

    def told(self, phase: Phase) -> Run:
        """Return what another host left of a phase that is done.

        Raises:
            TunekitError: why it can't be done.
        """
        ...

    @property
    def is_finishing(self) -> bool:
        """Whether some host has begun the last phase, so that no trial is to be added."""
        ...

    def wait(self) -> None:
        """Wait a moment for other hosts."""
        ...


class OwnBook:
    """The book of a host that is alone: it runs every trial and leads every phase."""

    host_name: str | None = None
    is_finishing = False

    def claim(
        self,
        role: TrialRole,
        config: TrainConfig | None,
        round_number: int | None,
        records: Sequence[TrialRecord],
    ) -> int:
        """Return the number after the last."""
        return max((record.number for record in records), default=-1) + 1

    def keep(self, record: TrialRecord, spent_s: float) -> None:
        """Do nothing: the run folder keeps it."""

    def pull(self) -> tuple[SharedRecord, ...]:
        """Return nothing."""
        return ()

    def pending(self) -> tuple[PendingTrial, ...]:
        """Return nothing."""
        return ()

    def lost(self) -> tuple[PendingTrial, ...]:
        """Return nothing."""
        return ()

    def turn(self, phase: Phase) -> Turn:
        """Return that it is this host's."""
        return Turn.OURS

    def leader(self, phase: Phase) -> str:
        """Return no name: nobody asks."""
        return ""

    def end(self, phase: Phase, run: Run) -> bool:
        """Return that it was this host's."""
        return True

    def fail(self, phase: Phase, error: TunekitError) -> None:
        """Do nothing: nobody else is to know."""

    def told(self, phase: Phase) -> Run:
        """Never asked.

        Raises:
            LookupError: always.
        """
        raise LookupError(f"nobody else has done {phase.value}")

    def wait(self) -> None:
        """Do nothing: there is nobody to wait for."""
