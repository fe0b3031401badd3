"""What a host knows of the trials of others: those that have ended, and those that run."""

from dataclasses import dataclass

from tunekit.records.config import TrainConfig
from tunekit.records.trial import TrialRecord, TrialRole


@dataclass(frozen=True)
class SharedRecord:
    """A trial that a host has finished."""

    record: TrialRecord
    spent_s: float
    """How long the search had run by then, by its host."""
    host: str
    """As others see it: more than the machine's name where several of its processes take part."""


@dataclass(frozen=True)
class PendingTrial:
    """A trial that another host runs, or began."""

    number: int
    host: str
    role: TrialRole
    config: TrainConfig | None
    """None for the script as it is."""
    hosts_lost: int = 0
    """Hosts that were lost while they ran it; one that gave it back is none."""
