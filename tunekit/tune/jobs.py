"""The jobs of a search, which its hosts take from a queue; a single host does one after the other."""

from enum import StrEnum

from tunekit.records.base import Record
from tunekit.records.config import TrainConfig


class Work(StrEnum):
    """The kinds of jobs."""

    PREPARE = "prepare"
    """Measure the baseline, build the space, set the budget."""
    SEARCH = "search"
    """Run one search trial."""
    FINISH = "finish"
    """Confirm the answer on one host."""


class Job(Record):
    """One job of the queue."""

    work: Work
    config: TrainConfig | None = None
    """The config of a search trial."""
    cost_s: float = 0.0
    """Estimated seconds of the trial."""
    expected_rate_samples_per_s: float | None = None
    """Predicted rate of one rank; None before anything was measured."""
    why_stopped: str | None = None
    """Why the search ends; None if its budget has no room for another trial."""
    lost_by: str | None = None
    """The host that was lost while it ran the job the first time."""
    number: int = -1
    host: str | None = None
    """The host that runs the job; None while it waits."""
    folder: str | None = None
    """The run folder of that host."""
