"""The jobs of a search: what its hosts, or the only one, do one after the other."""

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
    """Seconds that the trial is taken to need."""
    expected_rate_samples_per_s: float | None = None
    """What the model expects of one rank; None before anything was measured."""
    why_stopped: str | None = None
    """Why the search is to be finished; None if its budget has no room for another trial."""
    lost_by: str | None = None
    """The host that was lost while it ran the job the first time."""
    number: int = -1
    host: str | None = None
    """The host that runs the job; None while it waits."""
    folder: str | None = None
    """The run folder of that host."""
