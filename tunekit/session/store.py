"""Where a walk gets its jobs and trial numbers and keeps its records: alone, or shared with other hosts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from tunekit.records.base import Record
from tunekit.records.config import TrainConfig
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.tune.jobs import Job, Work


class SharedRecord(Record):
    """A trial that a host has run."""

    record: TrialRecord
    spent_s: float
    """How long the search had run by then."""
    host: str


class SharedResult(Record):
    """The run as a host has left it at the end of a job."""

    run: Run
    host: str
    folder: str
    """The run folder of that host."""


class TrialStore(ABC):
    """The queue and the records of a walk; without other hosts, most of it is nothing.

    Attributes:
        host_name: this machine, where several share the search; None where it is alone.
        grace_s: seconds after which a lost host's job is in the queue again.
    """

    host_name: str | None = None
    grace_s: float = 0.0

    @abstractmethod
    def enqueue(self, job: Job) -> None:
        """Add a job to the queue."""

    @abstractmethod
    def take(self, do: Callable[[Job], None]) -> None:
        """Take the first job and do it."""

    @abstractmethod
    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs that wait or run, by number."""

    @abstractmethod
    def next_number(self, records: Sequence[TrialRecord]) -> int:
        """Return the number of the next trial that this host runs, after those of the records."""

    def keep(self, record: TrialRecord, spent_s: float) -> None:  # noqa: B027
        """Keep a record for all hosts, `spent_s` seconds into the walk."""

    def pull(self) -> tuple[SharedRecord, ...]:
        """Return the records of other hosts that are new, by number."""
        return ()

    def lost_configs(self) -> tuple[TrainConfig, ...]:
        """Return the configs whose trials have cost two hosts."""
        return ()

    def leave(self, work: Work, result: Run) -> None:  # noqa: B027
        """Leave the result of a job for all hosts."""

    def left(self, work: Work) -> SharedResult | None:
        """Return the result of a job; None before a host has left it."""
        return None

    def wait(self) -> None:  # noqa: B027
        """Wait a moment for other hosts."""


class LocalTrialStore(TrialStore):
    """The store of a host that is alone."""

    def __init__(self) -> None:
        self._queue: list[Job] = []

    def enqueue(self, job: Job) -> None:
        """Add a job to the queue."""
        self._queue.append(job)

    def take(self, do: Callable[[Job], None]) -> None:
        """Do the first job."""
        do(self._queue.pop(0))

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs that wait."""
        return tuple(self._queue)

    def next_number(self, records: Sequence[TrialRecord]) -> int:
        """Return the number after the last."""
        return max((record.number for record in records), default=-1) + 1
